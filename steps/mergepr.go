package steps

import (
	"context"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// MergePRSpec is the spec of a MergePR.
type MergePRSpec struct {
	MergeOptions
}

// MergeOptions say how a pull request is merged.
type MergeOptions struct {
	// Method of the merge.
	Method string `json:"method,omitempty" jsonschema:"enum=merge,enum=squash,enum=rebase"`
	// DeleteBranch deletes the pull request's branch after the merge.
	DeleteBranch bool `json:"deleteBranch"`
	// RequireChecks waits for required checks, up to the step's timeout.
	RequireChecks bool `json:"requireChecks"`
	// MergeQueue uses the forge's merge queue where the branch has one.
	MergeQueue string `json:"mergeQueue,omitempty" jsonschema:"enum=auto"`
	// Bypass merges although reviews or checks are missing; it needs the permission pullrequest:bypass and is audited.
	Bypass bool `json:"bypass,omitempty"`
	// CommitMessage is the message of the merge commit.
	CommitMessage string `json:"commitMessage,omitempty"`
}

func defaultMerge() MergeOptions {
	return MergeOptions{Method: "merge", DeleteBranch: true, RequireChecks: true, MergeQueue: "auto"}
}

// MergePR merges the stage's pull request.
func MergePR() Type {
	return Type{
		Kind:    "MergePR",
		Summary: "merges the stage's pull request",
		Scope:   plan.ScopeChange,
		Class:   plan.ClassNetwork,
		Mutates: always,
		Timeout: time.Hour, // required checks: a long test suite
		Config:  func() any { return &MergePRSpec{MergeOptions: defaultMerge()} },
		Check: func(cfg any) []Problem {
			if c, ok := cfg.(*MergePRSpec); ok {
				return c.check()
			}
			return nil
		},
		Outputs: map[string]string{
			"sha":      "commit on the target branch that holds the change",
			"mergedAt": "when it was merged",
		},
		Run: runMergePR,
	}
}

func (o MergeOptions) check() []Problem {
	if o.Method == "rebase" && o.CommitMessage != "" {
		return []Problem{{Path: "commitMessage", Msg: "a rebase keeps the commits' own messages", Hint: "remove it, or choose merge or squash"}}
	}
	return nil
}

func runMergePR(ctx context.Context, in In) (Out, error) {
	c, err := readConfig[MergePRSpec](MergePR(), in)
	if err != nil {
		return Out{}, err
	}
	if in.Change.Merged != "" { // pushed, or nothing was to change
		out, err := answer(map[string]any{"sha": in.Change.Merged}, "%s holds %s already", firstText(in.Change.Base, "the branch"), short(in.Change.Merged))
		out.Change = &in.Change
		return out, err
	}
	if in.Change.PR == 0 {
		return Out{}, promo.Errorf(promo.CodeConfiguration, "step %q finds no pull request in stage %q", in.Stage.Step, in.Stage.Name).
			WithHint("put an UpdateReleaseRepo or RevertPR before it")
	}
	if err := need(in.Ports.Git != nil && in.Ports.Forge != nil, in, "Git and a forge"); err != nil {
		return Out{}, err
	}
	m := merger{in: in, opts: c.MergeOptions, change: in.Change}
	if m.state, err = readState[mergeState](in); err != nil {
		return Out{}, err
	}
	return m.run(ctx)
}

// merger merges one pull request: it looks, and either merges, waits, or says why it cannot be.
type merger struct {
	in     In
	opts   MergeOptions
	change Change
	state  mergeState
}

// mergeState is what a merge remembers between calls.
type mergeState struct {
	// Refused counts merges in a row that the forge refused without a reason that can be seen.
	Refused int `json:"refused,omitempty"`
	// Change is set where it isn't the stage's own (RevertPR).
	Change *Change `json:"change,omitempty"`
}

// mostRefusals bounds merges that the forge refuses while it shows nothing in the way: forges recompute
// mergeability after every push to the base, which takes them seconds.
const mostRefusals = 12

func (m *merger) run(ctx context.Context) (Out, error) {
	pr, err := m.in.Ports.Forge.Get(ctx, m.in.Stage.Repository.Name, m.change.PR)
	if err != nil {
		return Out{}, err
	}
	if pr.State == "closed" {
		return Out{}, promo.Errorf(promo.CodeConflict, "pull request %d was closed by %s", pr.Number, firstText(pr.ClosedBy, "somebody"))
	}
	if err := m.sameChange(ctx, pr); err != nil {
		return Out{}, err
	}
	if pr.State == "merged" {
		return m.done(pr)
	}
	if pr.Conflicts {
		return Out{}, promo.Errorf(promo.CodeConflict, "pull request %d conflicts with %s", pr.Number, pr.Base).
			WithHint("the change is made anew on the present head when the step that made it runs again")
	}
	if missing := m.missing(pr); len(missing) > 0 {
		if pr.Checks == "failed" && m.opts.RequireChecks {
			return Out{}, promo.Errorf(promo.CodeConflict, "checks of pull request %d failed: %s", pr.Number, strings.Join(missing, ", "))
		}
		m.state.Refused = 0
		return m.wait(pr, 30*time.Second, "pull request %d waits for %s", pr.Number, strings.Join(missing, ", ")) // the event wakes earlier
	}
	return m.merge(ctx, pr)
}

// sameChange refuses to merge, or to take as merged, anything else than what was looked at.
func (m *merger) sameChange(ctx context.Context, pr PullRequest) error {
	want := firstText(m.in.Approved, m.change.Digest)
	if pr.State == "merged" && pr.HeadSHA == m.change.Head && want == m.change.Digest {
		return nil
	}
	// The head alone says nothing: where the base was rewritten, the same head brings in more than was looked at.
	got, err := m.in.Ports.Git.Diff(ctx, m.in.Stage.Repository.Name, pr.BaseSHA, pr.HeadSHA)
	if err != nil {
		return err
	}
	if got.Digest == want {
		return nil // a rebase by Davit keeps the digest
	}
	what := "what Davit pushed"
	if m.in.Approved != "" {
		what = "what was approved"
	}
	return promo.Errorf(promo.CodeConflict, "pull request %d is at %s, whose change is not %s", pr.Number, short(pr.HeadSHA), what).
		WithHint("look at the commits that others pushed to %s", pr.Head)
}

// missing lists what stands between the pull request and its merge.
func (m *merger) missing(pr PullRequest) []string {
	if pr.Draft {
		return []string{"being marked as ready: it is a draft"}
	}
	if m.opts.Bypass {
		return nil
	}
	missing := append([]string(nil), pr.Blocked...)
	if m.opts.RequireChecks && (pr.Checks == "pending" || pr.Checks == "failed") && len(missing) == 0 {
		missing = append(missing, "checks")
	}
	return missing
}

func (m *merger) wait(pr PullRequest, after time.Duration, format string, a ...any) (Out, error) {
	return again(Again{After: after, Wake: []string{promo.EventPullRequest(m.in.Stage.Repository.Name, pr.Number)}}, m.state, format, a...)
}

func (m *merger) merge(ctx context.Context, pr PullRequest) (Out, error) {
	message := firstText(m.opts.CommitMessage, commitMessage(m.in)) + "\n\nDavit-Operation: " + m.in.Operation
	if m.opts.Method == "rebase" {
		message = ""
	}
	merged, err := m.in.Ports.Forge.Merge(ctx, MergeSpec{
		Repository: m.in.Stage.Repository.Name, Number: pr.Number, ExpectHead: pr.HeadSHA, Method: m.opts.Method,
		Message: message, DeleteBranch: m.opts.DeleteBranch, Bypass: m.opts.Bypass, By: m.in.Run.TriggeredBy,
	})
	if err == nil {
		return m.done(merged)
	}
	// A refusal says only that the forge saw something else than we did a moment ago: look again.
	if promo.CodeOf(err) != promo.CodeConflict || m.state.Refused >= mostRefusals {
		return Out{}, err
	}
	m.state.Refused++
	return m.wait(pr, 2*time.Second, "the forge refused to merge pull request %d: %s", pr.Number, err)
}

func (m *merger) done(pr PullRequest) (Out, error) {
	if pr.MergeSHA == "" {
		return m.wait(pr, time.Second, "pull request %d is merged; its commit is not known yet", pr.Number)
	}
	change := m.change
	change.Merged, change.Head = pr.MergeSHA, firstText(pr.HeadSHA, change.Head)
	out, err := answer(map[string]any{"sha": pr.MergeSHA, "mergedAt": pr.MergedAt.UTC()}, "merged pull request %d as %s", pr.Number, short(pr.MergeSHA))
	out.Change = &change
	return out, err
}
