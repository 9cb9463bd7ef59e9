package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/git/yamledit"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// UpdateReleaseRepoSpec is the spec of an UpdateReleaseRepo.
type UpdateReleaseRepoSpec struct {
	// Repository is the service's; another one cannot be written.
	Repository string `json:"repository,omitempty"`
	// Branch that the change is for; the service's by default.
	Branch string `json:"branch,omitempty"`
	// Path is the folder that file paths are relative to; the service's by default.
	Path string `json:"path,omitempty"`
	// Files are the files to change.
	Files []FileEdit `json:"files" jsonschema:"required,minItems=1"`
	// Delivery opens a pull request, or pushes to the branch.
	Delivery string `json:"delivery,omitempty" jsonschema:"enum=pull-request,enum=push"`
	// Title of the pull request.
	Title string `json:"title,omitempty"`
	// Body of the pull request.
	Body string `json:"body,omitempty"`
	// CommitMessage is the message of the commit; a trailer with the operation's id is added.
	CommitMessage string `json:"commitMessage,omitempty"`
	// Labels of the pull request.
	Labels []string `json:"labels,omitempty"`
	// Reviewers who are asked to review the pull request.
	Reviewers []string `json:"reviewers,omitempty"`
	// Draft opens the pull request as a draft.
	Draft bool `json:"draft,omitempty"`
	// OnNoChange says what becomes of the step when every file already is as wanted.
	OnNoChange string `json:"onNoChange,omitempty" jsonschema:"enum=succeed,enum=fail"`
	// OnMissingFile says what becomes of a file that is not there.
	OnMissingFile string `json:"onMissingFile,omitempty" jsonschema:"enum=fail,enum=skip,enum=create"`
	// Separate keeps this step's edits in a commit of their own.
	Separate bool `json:"separate,omitempty"`
}

// FileEdit is the change of one file. Every other byte of the file stays: comments, order, quotes, line ends.
type FileEdit struct {
	// Path of the file, relative to the service's folder.
	Path string `json:"path" jsonschema:"required"`
	// Set gives values at paths such as image.tag, list[0].x, list[name=web].image or a."b.c".
	Set map[string]any `json:"set,omitempty"`
	// Remove deletes the entries at paths; what is not there stays away.
	Remove []string `json:"remove,omitempty"`
	// Append adds items to the lists at paths, unless an equal item is there.
	Append map[string]any `json:"append,omitempty"`
	// KustomizeImage sets an entry of a kustomization's images.
	KustomizeImage *KustomizeImage `json:"kustomizeImage,omitempty"`
	// CopyFrom makes the file, or folder, what another path is.
	CopyFrom *CopyFrom `json:"copyFrom,omitempty"`
	// Shared says that the file is below the service's shared paths.
	Shared bool `json:"shared,omitempty"`
}

// KustomizeImage is an entry of a kustomization's images.
type KustomizeImage struct {
	// Name of the image in the manifests.
	Name string `json:"name" jsonschema:"required"`
	// NewName replaces the name.
	NewName string `json:"newName,omitempty"`
	// NewTag replaces the tag.
	NewTag string `json:"newTag,omitempty"`
	// Digest pins the image.
	Digest string `json:"digest,omitempty"`
}

// CopyFrom names a path at a commit.
type CopyFrom struct {
	// Path of the file or folder, relative to the service's folder.
	Path string `json:"path" jsonschema:"required"`
	// Commit that it is taken from; the branch's head by default.
	Commit string `json:"commit,omitempty"`
}

// UpdateReleaseRepo edits files of the release repository and opens a pull request, or pushes.
func UpdateReleaseRepo() Type {
	return Type{
		Kind:    "UpdateReleaseRepo",
		Summary: "edits files of the release repository and opens a pull request, or pushes",
		Scope:   plan.ScopeChange,
		Class:   plan.ClassChange,
		Mutates: pushes,
		Timeout: 10 * time.Minute, // a slow Git server, twice
		Config: func() any {
			return &UpdateReleaseRepoSpec{Delivery: "pull-request", OnNoChange: "succeed", OnMissingFile: "fail"}
		},
		Check:   checkUpdateReleaseRepo,
		Outputs: changeOutputs(),
		Run:     runUpdateReleaseRepo,
	}
}

func changeOutputs() map[string]string {
	return map[string]string{
		"pr.number": "number of the pull request",
		"pr.url":    "address of the pull request",
		"branch":    "branch that holds the change",
		"headSHA":   "commit that holds the change",
		"digest":    "digest of the change: path, old and new content of every changed file",
		"changed":   "false where every file already was as wanted",
		"diff":      "digest of the diff in the store",
	}
}

// pushes tells a direct push, which changes the environment, from a pull request, which does not.
func pushes(spec json.RawMessage) bool {
	var s UpdateReleaseRepoSpec
	return json.Unmarshal(spec, &s) != nil || s.Delivery == "push"
}

func checkUpdateReleaseRepo(cfg any) []Problem {
	c, ok := cfg.(*UpdateReleaseRepoSpec)
	if !ok {
		return nil
	}
	var out []Problem
	if len(c.Files) == 0 {
		out = append(out, Problem{Path: "files", Msg: "no file is changed", Hint: "name at least one, such as {path: prod/values.yaml, set: {image.tag: v1}}"})
	}
	for i, f := range c.Files {
		out = append(out, f.check(fmt.Sprintf("files[%d]", i))...)
	}
	if c.Delivery == "push" && (c.Title != "" || c.Body != "" || c.Draft || len(c.Labels)+len(c.Reviewers) > 0) {
		out = append(out, Problem{Path: "delivery", Msg: "title, body, labels, reviewers and draft are for pull requests", Hint: "remove them, or say delivery: pull-request"})
	}
	return out
}

func (f FileEdit) check(at string) []Problem {
	var out []Problem
	if why := plan.BadPath(f.Path); why != "" && !unresolved(f.Path) {
		out = append(out, Problem{Path: at + ".path", Msg: fmt.Sprintf("path %q %s", f.Path, why), Hint: "write a plain path, such as prod/values.yaml"})
	}
	edits := len(f.Set) + len(f.Remove) + len(f.Append)
	if f.KustomizeImage != nil {
		edits++
		if k := f.KustomizeImage; k.NewName == "" && k.NewTag == "" && k.Digest == "" {
			out = append(out, Problem{Path: at + ".kustomizeImage", Msg: "nothing is set", Hint: "newName, newTag or digest"})
		}
	}
	switch {
	case f.CopyFrom != nil && edits > 0:
		out = append(out, Problem{Path: at + ".copyFrom", Msg: "copyFrom and edits exclude each other in one entry", Hint: "write two entries; they are applied in order"})
	case f.CopyFrom != nil:
		if why := plan.BadPath(f.CopyFrom.Path); why != "" && !unresolved(f.CopyFrom.Path) {
			out = append(out, Problem{Path: at + ".copyFrom.path", Msg: fmt.Sprintf("path %q %s", f.CopyFrom.Path, why)})
		}
	case edits == 0:
		out = append(out, Problem{Path: at, Msg: "nothing is changed", Hint: "say set, remove, append, kustomizeImage or copyFrom"})
	}
	return append(out, f.checkPaths(at)...)
}

// checkPaths tries the paths on an empty file: only their grammar can be wrong there.
func (f FileEdit) checkPaths(at string) []Problem {
	var out []Problem
	try := func(field, path string) {
		if unresolved(path) {
			return
		}
		if _, _, err := yamledit.Get(nil, path); promo.CodeOf(err) == promo.CodeConfiguration {
			out = append(out, Problem{Path: at + "." + field, Msg: err.Error()})
		}
	}
	for _, p := range sortedKeys(f.Set) {
		try("set", p)
	}
	for _, p := range f.Remove {
		try("remove", p)
	}
	for _, p := range sortedKeys(f.Append) {
		try("append", p)
	}
	return out
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func runUpdateReleaseRepo(ctx context.Context, in In) (Out, error) {
	c, err := readConfig[UpdateReleaseRepoSpec](UpdateReleaseRepo(), in)
	if err != nil {
		return Out{}, err
	}
	if err := need(in.Ports.Git != nil && in.Ports.Blobs != nil && (c.Delivery == "push" || in.Ports.Forge != nil), in, "Git, a forge and a store"); err != nil {
		return Out{}, err
	}
	e, err := newEdits(ctx, in, c)
	if err != nil {
		return Out{}, err
	}
	req := GitChange{
		Repository: in.Stage.Repository.Name, Operation: in.Operation, Branch: BranchName(in.Operation), Base: e.base,
		Author: in.Run.TriggeredBy, Message: firstText(c.CommitMessage, commitMessage(in)), Edit: e.apply, Rebuild: true,
	}
	if c.Delivery == "push" {
		req.Branch, req.Base, req.Rebuild = e.base, "", false
	}
	got, err := in.Ports.Git.Change(ctx, req)
	if err != nil {
		return Out{}, err
	}
	change := Change{Branch: req.Branch, Base: e.base, Head: got.Head, Digest: got.Digest, Changed: got.Changed, Author: in.Run.TriggeredBy.Name}
	if !got.Changed {
		return unchanged(in, c, change)
	}
	if change.Diff, err = in.Ports.Blobs.Put(ctx, "text/x-diff", []byte(got.Diff)); err != nil {
		return Out{}, err
	}
	if c.Delivery == "push" {
		change.Merged = got.Head
		return changed(change, "pushed %s to %s: %s", short(got.Head), e.base, fileList(got.Files))
	}
	pr, err := in.Ports.Forge.Open(ctx, pullRequest(in, c, change))
	if err != nil {
		return Out{}, err
	}
	change.PR, change.URL = pr.Number, pr.URL
	return changed(change, "opened pull request %d: %s", pr.Number, fileList(got.Files))
}

// unchanged answers where every file already was as wanted: the head that was looked at holds the release.
func unchanged(in In, c *UpdateReleaseRepoSpec, change Change) (Out, error) {
	if c.OnNoChange == "fail" {
		return Out{}, promo.Errorf(promo.CodeConfiguration, "step %q changes nothing: every file at %s already is as wanted", in.Stage.Step, short(change.Head)).
			WithHint("onNoChange: succeed lets it pass")
	}
	change.Branch, change.Merged = change.Base, change.Head
	return changed(change, "nothing to change: %s already is as wanted", short(change.Head))
}

func changed(c Change, format string, a ...any) (Out, error) {
	outputs := map[string]any{"branch": c.Branch, "headSHA": c.Head, "digest": c.Digest, "changed": c.Changed, "diff": c.Diff}
	if c.PR != 0 {
		outputs["pr"] = map[string]any{"number": c.PR, "url": c.URL}
	}
	out, err := answer(outputs, format, a...)
	out.Change = &c
	return out, err
}

func pullRequest(in In, c *UpdateReleaseRepoSpec, change Change) PullRequestSpec {
	return PullRequestSpec{
		Repository: in.Stage.Repository.Name, Head: change.Branch, Base: change.Base,
		Title: firstText(c.Title, title(in)), Body: firstText(c.Body, prBody(in)),
		Labels: c.Labels, Reviewers: c.Reviewers, Draft: c.Draft, Author: in.Run.TriggeredBy,
	}
}

// title is one line that says what goes where: "Promote checkout v1.2.0 to prod (us-east)".
func title(in In) string {
	t := strings.TrimSpace("Promote " + in.Stage.Service.Name + " " + in.Run.Version)
	if in.Stage.Environment != nil {
		t += " to " + in.Stage.Environment.Name
	}
	if in.Wave > 0 && len(in.WaveTargets) > 0 {
		t += " (" + strings.Join(TargetNames(in.WaveTargets), ", ") + ")"
	}
	return t
}

func commitMessage(in In) string {
	return title(in) + "\n\nPromotion " + in.Run.ID + ", started by " + in.Run.TriggeredBy.Name + "."
}

func prBody(in In) string {
	run := in.Run.ID
	if in.Run.URL != "" {
		run = "[" + run + "](" + in.Run.URL + ")"
	}
	return fmt.Sprintf("%s\n\nPromotion %s, stage `%s`, started by %s.\n\nDavit-Operation: %s\n",
		title(in), run, in.Stage.Name, in.Run.TriggeredBy.Name, in.Operation)
}

func fileList(files []string) string {
	const shown = 5
	if len(files) > shown {
		return fmt.Sprintf("%s and %d more files", strings.Join(files[:shown], ", "), len(files)-shown)
	}
	return strings.Join(files, ", ")
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func short(commit string) string { return commit[:min(len(commit), 7)] }
