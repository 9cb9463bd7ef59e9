package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/promo"
)

// maxSeed bounds the content that a repository starts with.
const maxSeed = 256 << 20

// maxName is how long names of repositories and branches may be: both become file names.
const maxName = 200

// CreateSpec asks for a repository.
type CreateSpec struct {
	Name string
	// Branch is the default branch, "main" if empty.
	Branch string
	// Seed is the content of the first commit; without it the repository is empty. Symbolic links are refused.
	Seed    fs.FS
	Author  promo.Principal
	Message string
	// At is the time of the first commit, now if zero; the same seed, author and time give the same commit.
	At time.Time
	// Protection of the default branch.
	Protection *forge.Protection
}

// Create makes a repository, whole or not at all. One that exists is returned as it is.
func (f *Forge) Create(ctx context.Context, spec CreateSpec) (forge.Repository, error) {
	if spec.Branch == "" {
		spec.Branch = "main"
	}
	if err := checkName(spec.Name); err != nil {
		return forge.Repository{}, err
	}
	if err := checkBranch(spec.Branch); err != nil {
		return forge.Repository{}, err
	}
	defer f.lock(spec.Name)()
	if r, err := f.Repository(ctx, spec.Name); err == nil || promo.CodeOf(err) != promo.CodeNotFound {
		return r, err
	}
	// A directory without a record is what a kill between the two left: it is whole, for it was renamed.
	if _, err := os.Stat(f.path(spec.Name)); err != nil {
		if err := f.makeBare(ctx, spec); err != nil {
			return forge.Repository{}, err
		}
	}
	r := forge.Repository{Name: spec.Name, DefaultBranch: spec.Branch, CreatedAt: f.o.Now().UTC()}
	if spec.Protection != nil {
		r.Protection = map[string]forge.Protection{spec.Branch: *spec.Protection}
	}
	if err := f.saveRepository(ctx, r); err != nil {
		return forge.Repository{}, err
	}
	return f.Repository(ctx, spec.Name)
}

// makeBare builds the repository beside its place and renames it there.
func (f *Forge) makeBare(ctx context.Context, spec CreateSpec) error {
	tmp, err := os.MkdirTemp(f.o.Dir, ".new-")
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "repository %q: %w", spec.Name, err)
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // renamed or left behind
	if _, err := f.git.run(ctx, tmp, nil, "init", "-q", "--bare", "--template=", "-b", spec.Branch, "."); err != nil {
		return err
	}
	for _, kv := range [][2]string{
		{"uploadpack.allowFilter", "true"},
		{"uploadpack.allowAnySHA1InWant", "true"},
		{"receive.hideRefs", "refs/pull"}, // only the forge writes them
		{"receive.autogc", "false"},       // Maintain does it
		{"receive.fsckObjects", "true"},
		{"core.logAllRefUpdates", "true"},
	} {
		if _, err := f.git.run(ctx, tmp, nil, "config", kv[0], kv[1]); err != nil {
			return err
		}
	}
	if spec.Seed != nil {
		if err := f.seed(ctx, tmp, spec); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, f.path(spec.Name)); err != nil {
		return promo.Errorf(promo.CodeInternal, "repository %q: %w", spec.Name, err)
	}
	return nil
}

// seed writes the first commit in one go.
func (f *Forge) seed(ctx context.Context, dir string, spec CreateSpec) error {
	at := spec.At
	if at.IsZero() {
		at = f.o.Now()
	}
	if spec.Message == "" {
		spec.Message = "Begin"
	}
	var in bytes.Buffer
	who := ident(spec.Author) + fmt.Sprintf(" %d +0000", at.Unix())
	fmt.Fprintf(&in, "commit refs/heads/%s\nauthor %s\ncommitter %s\ndata %d\n%s\n", spec.Branch, who, who, len(spec.Message), spec.Message)
	err := fs.WalkDir(spec.Seed, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return promo.Errorf(promo.CodeConfiguration, "%q is no regular file", name).WithHint("seeds hold files and directories only")
		}
		return writeFile(&in, spec.Seed, name)
	})
	if err != nil {
		return promo.Errorf(promo.CodeOf(err), "seed of repository %q: %w", spec.Name, err)
	}
	in.WriteString("done\n")
	_, err = f.git.run(ctx, dir, &in, "fast-import", "--quiet", "--done", "--date-format=raw")
	return err
}

// writeFile adds a file in fast-import's form.
func writeFile(in *bytes.Buffer, seed fs.FS, name string) error {
	info, err := fs.Stat(seed, name)
	if err != nil {
		return err
	}
	if in.Len()+int(info.Size()) > maxSeed {
		return promo.Errorf(promo.CodeConfiguration, "more than %d bytes", maxSeed)
	}
	data, err := fs.ReadFile(seed, name)
	if err != nil {
		return err
	}
	mode := "100644"
	if info.Mode()&0o111 != 0 {
		mode = "100755"
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path.Clean(name))
	fmt.Fprintf(in, "M %s inline \"%s\"\ndata %d\n", mode, quoted, len(data)) //nolint:gocritic // git's quoting, not Go's
	in.Write(data)
	in.WriteByte('\n')
	return nil
}

// Repository returns one repository.
func (f *Forge) Repository(ctx context.Context, name string) (forge.Repository, error) {
	if err := checkName(name); err != nil {
		return forge.Repository{}, err
	}
	list, err := f.repositories(ctx, name)
	if err != nil {
		return forge.Repository{}, err
	}
	if len(list) == 0 {
		return forge.Repository{}, promo.Errorf(promo.CodeNotFound, "no repository %q on the local forge", name)
	}
	return list[0], nil
}

// Repositories lists the repositories by name.
func (f *Forge) Repositories(ctx context.Context) ([]forge.Repository, error) {
	return f.repositories(ctx, "")
}

func (f *Forge) repositories(ctx context.Context, name string) ([]forge.Repository, error) {
	docs, err := f.o.Store.ForgeRepositories(ctx, name)
	if err != nil {
		return nil, err
	}
	out := make([]forge.Repository, len(docs))
	for i, doc := range docs {
		if err := json.Unmarshal(doc, &out[i]); err != nil {
			return nil, promo.Errorf(promo.CodeInternal, "record of repository %q: %w", name, err)
		}
		out[i].URL = f.cloneURL(out[i].Name)
	}
	return out, nil
}

// Protect sets what a branch demands; nil lifts its protection.
func (f *Forge) Protect(ctx context.Context, repository, branch string, p *forge.Protection) error {
	if err := checkBranch(branch); err != nil {
		return err
	}
	defer f.lock(repository)()
	r, err := f.Repository(ctx, repository)
	if err != nil {
		return err
	}
	if r.Protection == nil {
		r.Protection = map[string]forge.Protection{}
	}
	if p == nil {
		delete(r.Protection, branch)
	} else {
		r.Protection[branch] = *p
	}
	return f.saveRepository(ctx, r)
}

func (f *Forge) saveRepository(ctx context.Context, r forge.Repository) error {
	doc, err := json.Marshal(r)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "repository %q: %w", r.Name, err)
	}
	return f.o.Store.SaveForgeRepository(ctx, r.Name, doc)
}

// Head returns the head of a branch, "" where there is none.
func (f *Forge) Head(ctx context.Context, repository, branch string) (string, error) {
	if _, err := f.Repository(ctx, repository); err != nil {
		return "", err
	}
	if err := checkBranch(branch); err != nil {
		return "", err
	}
	heads, err := f.refs(ctx, repository, branch)
	return heads[branch], err
}

// Dir returns the bare repository's directory, for tests and for tools on the same machine.
func (f *Forge) Dir(repository string) string { return filepath.Clean(f.path(repository)) }

// Maintain packs what pushes and merges left loose. Call it now and then; it may take seconds.
func (f *Forge) Maintain(ctx context.Context) error {
	list, err := f.Repositories(ctx)
	if err != nil {
		return err
	}
	for _, r := range list {
		// 512 loose objects: where looking for one begins to cost.
		if _, err := f.git.run(ctx, f.path(r.Name), nil, "-c", "gc.auto=512", "-c", "gc.autoDetach=false", "gc", "--auto", "--quiet"); err != nil {
			return err
		}
	}
	return nil
}

func checkName(name string) error {
	if len(name) > maxName || !regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`).MatchString(name) ||
		strings.Contains(name, "..") || strings.HasSuffix(name, ".git") || strings.HasSuffix(name, ".lock") {
		return promo.Errorf(promo.CodeConfiguration, "%q can't be a repository's name", name).
			WithHint("letters, digits, dot, dash and underscore, without .git at the end")
	}
	return nil
}

// checkBranch follows git check-ref-format and leaves out what only invites trouble.
func checkBranch(name string) error {
	bad := name == "" || len(name) > maxName || name == "HEAD" || strings.HasPrefix(name, "-") ||
		strings.ContainsAny(name, " ~^:?*[\\\x7f") || strings.Contains(name, "..") || strings.Contains(name, "@{") ||
		strings.HasSuffix(name, ".") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' })
	bad = bad || slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		return part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	})
	if bad {
		return promo.Errorf(promo.CodeConfiguration, "%q can't be a branch's name", name)
	}
	return nil
}

// ident is a person in Git's form; characters that would end a field are left out.
func ident(p promo.Principal) string {
	name, email := identity(p)
	return name + " <" + email + ">"
}

func identity(p promo.Principal) (name, email string) {
	drop := strings.NewReplacer("<", "", ">", "", "\n", " ", "\r", " ", "\x00", "")
	// Git drops these at the ends of a name itself, and refuses a name of nothing else.
	const crud = ".,:;\"\\' "
	name, email = strings.Trim(drop.Replace(p.Name), crud), strings.Trim(drop.Replace(p.Email), crud)
	if name == "" {
		name = "davit"
	}
	if email == "" {
		email = strings.ReplaceAll(name, " ", ".") + "@users.noreply.localhost"
	}
	return name, email
}
