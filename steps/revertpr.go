package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// RevertPRSpec is the spec of a RevertPR.
type RevertPRSpec struct {
	// Commit whose change is undone, a merge commit too; the stage's merge by default.
	Commit string `json:"commit,omitempty"`
	// Merge merges the pull request; false leaves that to a person.
	Merge bool `json:"merge"`
	// Title of the pull request.
	Title string `json:"title,omitempty"`
	// Body of the pull request.
	Body string `json:"body,omitempty"`
	// Labels of the pull request.
	Labels []string `json:"labels,omitempty"`
	// Reviewers who are asked to review the pull request.
	Reviewers []string `json:"reviewers,omitempty"`
	MergeOptions
}

// RevertPR opens a pull request that undoes a merged change, and merges it.
func RevertPR() Type {
	return Type{
		Kind:    "RevertPR",
		Summary: "opens a pull request that undoes a merged change",
		Scope:   plan.ScopeChange,
		Class:   plan.ClassChange,
		Mutates: revertMerges,
		Timeout: time.Hour, // as MergePR
		Config:  func() any { return &RevertPRSpec{Merge: true, MergeOptions: defaultMerge()} },
		Check: func(cfg any) []Problem {
			c, ok := cfg.(*RevertPRSpec)
			if !ok {
				return nil
			}
			if c.Commit != "" && !unresolved(c.Commit) && !isCommit(c.Commit) {
				return append(c.check(), Problem{Path: "commit", Msg: fmt.Sprintf("%q is no commit", c.Commit), Hint: "write its full hash"})
			}
			return c.check()
		},
		Outputs: map[string]string{
			"pr.number": "number of the pull request",
			"pr.url":    "address of the pull request",
			"sha":       "commit on the target branch that undoes the change",
		},
		Run: runRevertPR,
	}
}

func isCommit(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}

func revertMerges(spec json.RawMessage) bool {
	s := struct {
		Merge *bool `json:"merge"`
	}{}
	return json.Unmarshal(spec, &s) != nil || s.Merge == nil || *s.Merge
}

// runRevertPR works in two calls, so that each can find its own work: the first makes the commit and the pull
// request, later ones merge that pull request and never look at the branch, which the merge deletes.
func runRevertPR(ctx context.Context, in In) (Out, error) {
	c, err := readConfig[RevertPRSpec](RevertPR(), in)
	if err != nil {
		return Out{}, err
	}
	if err := need(in.Ports.Git != nil && in.Ports.Forge != nil && in.Ports.Blobs != nil, in, "Git, a forge and a store"); err != nil {
		return Out{}, err
	}
	state, err := readState[mergeState](in)
	if err != nil {
		return Out{}, err
	}
	if state.Change != nil {
		return finishRevert(ctx, in, c, state)
	}
	change, err := openRevert(ctx, in, c)
	if err != nil {
		return Out{}, err
	}
	if !change.Changed || !c.Merge {
		return reverted(change, "")
	}
	return again(Again{After: time.Millisecond}, mergeState{Change: &change}, "opened pull request %d", change.PR)
}

func openRevert(ctx context.Context, in In, c *RevertPRSpec) (Change, error) {
	commit := firstText(c.Commit, in.Change.Merged)
	if commit == "" {
		return Change{}, promo.Errorf(promo.CodeConfiguration, "step %q has nothing to undo: stage %q has merged nothing", in.Stage.Step, in.Stage.Name).
			WithHint("name the commit, or put a MergePR before it")
	}
	subject := fmt.Sprintf("Undo %s: %s", short(commit), title(in))
	base := firstText(in.Change.Base, in.Stage.Service.Branch)
	got, err := in.Ports.Git.Change(ctx, GitChange{
		Repository: in.Stage.Repository.Name, Operation: in.Operation, Branch: BranchName(in.Operation), Base: base,
		Author: in.Run.TriggeredBy, Undo: commit, Rebuild: true,
		Message: subject + "\n\nThis undoes commit " + commit + ".\n\nPromotion " + in.Run.ID + ".",
	})
	if err != nil {
		return Change{}, err
	}
	change := Change{Branch: BranchName(in.Operation), Base: base, Head: got.Head, Digest: got.Digest, Changed: got.Changed, Author: in.Run.TriggeredBy.Name}
	if !got.Changed {
		change.Branch, change.Merged = base, got.Head // it is undone already
		return change, nil
	}
	if change.Diff, err = in.Ports.Blobs.Put(ctx, "text/x-diff", []byte(got.Diff)); err != nil {
		return Change{}, err
	}
	pr, err := in.Ports.Forge.Open(ctx, PullRequestSpec{
		Repository: in.Stage.Repository.Name, Head: change.Branch, Base: base, Title: firstText(c.Title, subject),
		Body: firstText(c.Body, "Undoes "+commit+".\n\n"+prBody(in)), Labels: c.Labels, Reviewers: c.Reviewers, Author: in.Run.TriggeredBy,
	})
	change.PR, change.URL = pr.Number, pr.URL
	return change, err
}

func finishRevert(ctx context.Context, in In, c *RevertPRSpec, state mergeState) (Out, error) {
	in.Approved = "" // what was approved is the change that is undone
	m := merger{in: in, opts: c.MergeOptions, change: *state.Change, state: state}
	out, err := m.run(ctx)
	if err != nil || out.Change == nil {
		return out, err
	}
	return reverted(*out.Change, out.Message)
}

func reverted(c Change, message string) (Out, error) {
	outputs := map[string]any{"sha": c.Merged}
	switch {
	case c.PR == 0:
		message = "nothing to undo: " + short(c.Head) + " does not hold the change any more"
	case message == "":
		message = fmt.Sprintf("opened pull request %d", c.PR)
	}
	if c.PR != 0 {
		outputs["pr"] = map[string]any{"number": c.PR, "url": c.URL}
	}
	out, err := answer(outputs, "%s", message)
	out.Change = &c
	return out, err
}
