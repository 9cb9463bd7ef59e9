package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/davit-cd/davit/internal/git/yamledit"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// BranchName is the branch of a change: named after the operation, so that it is found again. Characters that Git
// forbids in names become hyphens; a very long id is cut and keeps a hash of the whole.
func BranchName(operation string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '/', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, operation)
	var segments []string
	for s := range strings.SplitSeq(safe, "/") {
		s = strings.Trim(strings.ReplaceAll(s, "..", "-"), ".")
		if s = strings.TrimSuffix(s, ".lock"); s != "" {
			segments = append(segments, s)
		}
	}
	name := "davit/" + strings.Join(segments, "/")
	const most = 180 // of the 255 that file systems allow for a name, with room for refs/heads/ and .lock
	if len(name) > most || safe != operation {
		sum := sha256.Sum256([]byte(operation))
		name = name[:min(len(name), most)] + "-" + hex.EncodeToString(sum[:4])
	}
	return name
}

// edits is the change of an UpdateReleaseRepo with every path resolved and allowed.
type edits struct {
	step   string
	base   string // branch
	policy string // onMissingFile
	files  []fileEdit
}

type fileEdit struct {
	FileEdit
	path       string // from the repository's root
	from       string
	fromCommit string
}

// newEdits resolves and checks the paths: a stage writes only what its environment owns.
func newEdits(ctx context.Context, in In, c *UpdateReleaseRepoSpec) (*edits, error) {
	if in.Stage.Environment == nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "step %q is in stage %q, which has no environment", in.Stage.Step, in.Stage.Name).
			WithHint("only a stage with an environment owns files to change")
	}
	if c.Repository != "" && c.Repository != in.Stage.Repository.Name {
		return nil, promo.Errorf(promo.CodeConfiguration, "step %q names repository %q", in.Stage.Step, c.Repository).
			WithHint("only the service's own can be written: %s", in.Stage.Repository.Name)
	}
	owned := in.Stage.Service.OwnedPaths(in.Stage.Environment.Name)
	folder := firstText(c.Path, in.Stage.Service.Path)
	e := &edits{step: in.Stage.Step, base: firstText(c.Branch, in.Stage.Service.Branch), policy: c.OnMissingFile}
	for _, f := range c.Files {
		edit := fileEdit{FileEdit: f, path: plan.JoinPath(folder, f.Path)}
		if err := owned.Allow(edit.path, f.Shared); err != nil {
			return nil, err
		}
		if f.CopyFrom != nil {
			if err := edit.source(ctx, in, folder, e.base); err != nil {
				return nil, err
			}
		}
		e.files = append(e.files, edit)
	}
	return e, nil
}

func (f *fileEdit) source(ctx context.Context, in In, folder, branch string) error {
	f.from, f.fromCommit = plan.JoinPath(folder, f.CopyFrom.Path), f.CopyFrom.Commit
	if why := plan.BadPath(f.from); why != "" {
		return promo.Errorf(promo.CodeConfiguration, "copyFrom path %q %s", f.from, why)
	}
	if f.fromCommit != "" {
		return nil
	}
	var err error
	f.fromCommit, err = in.Ports.Git.Head(ctx, in.Stage.Repository.Name, branch)
	return err
}

// apply makes the edits on a tree. It may run again on a newer head.
func (e *edits) apply(ctx context.Context, t Tree) error {
	for _, f := range e.files {
		if err := e.file(ctx, t, f); err != nil {
			return located(f.path, err)
		}
	}
	return nil
}

// located puts the file's name before an error that does not have it.
func located(path string, err error) error {
	var e *promo.Error
	if !errors.As(err, &e) || strings.Contains(e.Msg, path) {
		return err
	}
	c := *e
	c.Msg = "file " + path + ": " + e.Msg
	return &c
}

func (e *edits) file(ctx context.Context, t Tree, f fileEdit) error {
	if f.CopyFrom != nil {
		return t.CopyFrom(ctx, f.fromCommit, f.from, f.path)
	}
	data, err := t.Read(f.path)
	if promo.CodeOf(err) == promo.CodeNotFound && err != nil {
		switch e.policy {
		case "skip":
			return nil
		case "create":
			data, err = nil, nil
		default:
			return promo.Errorf(promo.CodeConfiguration, "file %s does not exist", f.path).
				WithHint("onMissingFile: create makes it, skip lets it be")
		}
	}
	if err != nil {
		return err
	}
	out, err := f.edit(data)
	if err != nil {
		return err
	}
	if string(out) == string(data) {
		return nil
	}
	return t.Write(f.path, out)
}

// edit makes the entry's edits in a fixed order: set, remove, append, kustomizeImage, each sorted by path.
func (f fileEdit) edit(data []byte) ([]byte, error) {
	var err error
	for _, p := range sortedKeys(f.Set) {
		if data, err = yamledit.Set(data, p, f.Set[p]); err != nil {
			return nil, err
		}
	}
	for _, p := range f.Remove {
		out, err := yamledit.Remove(data, p)
		if promo.CodeOf(err) == promo.CodeNotFound && err != nil {
			continue // it is away already
		}
		if err != nil {
			return nil, err
		}
		data = out
	}
	for _, p := range sortedKeys(f.Append) {
		if data, err = appendItems(data, p, f.Append[p]); err != nil {
			return nil, err
		}
	}
	if k := f.KustomizeImage; k != nil {
		return yamledit.KustomizeImage(data, yamledit.Image{Name: k.Name, NewName: k.NewName, NewTag: k.NewTag, Digest: k.Digest})
	}
	return data, nil
}

// appendItems adds one item, or each of a list of them, unless an equal one is there: to say it twice is the same
// as to say it once.
func appendItems(data []byte, path string, value any) ([]byte, error) {
	items, ok := value.([]any)
	if !ok {
		items = []any{value}
	}
	for _, item := range items {
		there, _, err := yamledit.Get(data, path)
		if err != nil && promo.CodeOf(err) != promo.CodeNotFound {
			return nil, err
		}
		if has(there, item) {
			continue
		}
		if data, err = yamledit.Append(data, path, item); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func has(list, item any) bool {
	there, ok := list.([]any)
	if !ok {
		return false
	}
	want := plain(item)
	for _, v := range there {
		if reflect.DeepEqual(plain(v), want) {
			return true
		}
	}
	return false
}

// plain brings values of YAML and of JSON into one form.
func plain(v any) any {
	var out any
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &out) != nil {
		return v
	}
	return out
}
