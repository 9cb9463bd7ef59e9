// Package gitsource reads commits of bare repositories with the git program, for sandbox clusters that stand
// alone: in tests, or next to repositories on the same disk. `davit up` gives its clusters a source over its own
// mirrors instead. It knows nothing of applications or manifests. Start reading at Source.
package gitsource

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// maxOutput bounds what is read from one git command: the listing of a directory or one file.
const maxOutput = 32 << 20

// Source reads repositories given as an absolute path or a file:// URL.
type Source struct{}

// New returns a source; the git program must be in the PATH.
func New() *Source { return &Source{} }

// Resolve returns the commit that revision (a branch, tag, commit or HEAD) of repoURL names now.
func (s *Source) Resolve(ctx context.Context, repoURL, revision string) (string, error) {
	dir, err := directory(repoURL)
	if err != nil {
		return "", err
	}
	if revision == "" {
		revision = "HEAD"
	}
	if strings.HasPrefix(revision, "-") || strings.ContainsAny(revision, " \n\x00:^~{") {
		return "", promo.Errorf(promo.CodeConfiguration, "revision %q is no branch, tag or commit", revision)
	}
	for _, name := range []string{"refs/heads/" + revision, "refs/tags/" + revision, revision} {
		out, err := run(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
		if err == nil {
			return strings.TrimSpace(string(out)), nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	return "", promo.Errorf(promo.CodeNotFound, "unable to resolve %q to a commit of %q", revision, repoURL)
}

// Tree returns the files of a commit. The returned file system runs git for each read and is bound to ctx.
func (s *Source) Tree(ctx context.Context, repoURL, commit string) (fs.FS, error) {
	dir, err := directory(repoURL)
	if err != nil {
		return nil, err
	}
	if !regexp.MustCompile(`^[0-9a-f]{40,64}$`).MatchString(commit) {
		return nil, promo.Errorf(promo.CodeConfiguration, "%q is no commit id", commit)
	}
	if _, err := run(ctx, dir, "cat-file", "-e", commit+"^{commit}"); err != nil {
		return nil, promo.Errorf(promo.CodeNotFound, "commit %q is not in %q", commit, repoURL)
	}
	return commitFS{ctx: ctx, dir: dir, commit: commit}, nil
}

func directory(repoURL string) (string, error) {
	dir := repoURL
	if u, err := url.Parse(repoURL); err == nil && u.Scheme == "file" {
		dir = u.Path
	}
	if !filepath.IsAbs(dir) {
		return "", promo.Errorf(promo.CodeConfiguration, "repository %q is neither an absolute path nor a file:// URL", repoURL)
	}
	return filepath.Clean(dir), nil
}

func run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir", dir, "-c", "core.fsmonitor=false"}, args...)...) //nolint:gosec // fixed verbs, vetted operands
	cmd.WaitDelay = time.Second                                                                                          // a grandchild must not hold the pipe open
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "run git: %w", err)
	}
	var buf bytes.Buffer
	n, copyErr := io.Copy(&buf, io.LimitReader(out, maxOutput+1))
	if n > maxOutput {
		_ = cmd.Cancel()
		_ = cmd.Wait()
		return nil, errors.New("git wrote too much")
	}
	return buf.Bytes(), errors.Join(copyErr, cmd.Wait())
}

// commitFS is a commit's tree. A context in a struct is right here: io/fs has no other way to pass one.
type commitFS struct {
	ctx    context.Context //nolint:containedctx // io/fs has no context
	dir    string
	commit string
}

// Open opens a file or directory; links are shown, never followed.
func (c commitFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	info, err := c.lookup(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		entries, err := c.ReadDir(name)
		return &dirFile{info: info, entries: entries}, err
	}
	data, err := run(c.ctx, c.dir, "cat-file", "blob", info.object)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &blobFile{info: info, Reader: bytes.NewReader(data)}, nil
}

func (c commitFS) lookup(name string) (entry, error) {
	if name == "." {
		return entry{name: ".", mode: fs.ModeDir | 0o755}, nil
	}
	entries, err := c.ReadDir(path.Dir(name))
	if err != nil {
		return entry{}, err
	}
	for _, e := range entries {
		if found, ok := e.(entry); ok && found.name == path.Base(name) {
			return found, nil
		}
	}
	return entry{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadDir lists a directory, sorted by name as git keeps it.
func (c commitFS) ReadDir(name string) ([]fs.DirEntry, error) {
	spec := c.commit + ":"
	if name != "." {
		spec += name
	}
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	out, err := run(c.ctx, c.dir, "ls-tree", "-z", "--long", "--end-of-options", spec)
	if err != nil {
		if c.ctx.Err() != nil {
			return nil, c.ctx.Err()
		}
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var entries []fs.DirEntry
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if meta, base, found := strings.Cut(line, "\t"); found {
			if e, ok := parseEntry(strings.Fields(meta), base); ok {
				entries = append(entries, e)
			}
		}
	}
	return entries, nil
}

// parseEntry reads "mode type object size".
func parseEntry(meta []string, name string) (entry, bool) {
	if len(meta) != 4 {
		return entry{}, false
	}
	e := entry{name: name, object: meta[2]}
	e.size, _ = strconv.ParseInt(meta[3], 10, 64) // "-" for a directory
	switch meta[0] {
	case "040000":
		e.mode = fs.ModeDir | 0o755
	case "100644", "100664":
		e.mode = 0o644
	case "100755":
		e.mode = 0o755
	case "120000":
		e.mode = fs.ModeSymlink | 0o777
	default: // a submodule
		e.mode = fs.ModeIrregular
	}
	return e, true
}

// entry is a directory entry and its own FileInfo.
type entry struct {
	name   string
	object string
	size   int64
	mode   fs.FileMode
}

func (e entry) Name() string               { return e.name }
func (e entry) Size() int64                { return e.size }
func (e entry) Mode() fs.FileMode          { return e.mode }
func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) IsDir() bool                { return e.mode.IsDir() }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) Sys() any                   { return nil }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }

type blobFile struct {
	*bytes.Reader
	info entry
}

func (f *blobFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *blobFile) Close() error               { return nil }

type dirFile struct {
	info    entry
	entries []fs.DirEntry
}

func (d *dirFile) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dirFile) Close() error               { return nil }
func (d *dirFile) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: errors.New("is a directory")}
}

// ReadDir follows fs.ReadDirFile.
func (d *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 || n > len(d.entries) {
		if n > 0 && len(d.entries) == 0 {
			return nil, io.EOF
		}
		n = len(d.entries)
	}
	out := d.entries[:n]
	d.entries = d.entries[n:]
	return out, nil
}
