package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// answerTime is how long a person has to answer a question that no step's timeout was meant for.
const answerTime = 24 * time.Hour

// runGate runs a gate: the closed set of steps that workflow code runs itself.
func (s *stageRun) runGate(ctx workflow.Context, st *plan.Step, u unit, call plan.Call, entry *promo.Step) (plan.Result, *promo.Error) {
	switch st.Type {
	case "Approval":
		return s.approve(ctx, st, u, call, entry)
	case "Wait":
		return s.pauseFor(ctx, st, call, entry)
	case "WaitForPR":
		return s.waitForPR(ctx, st, u, call, entry)
	case "Rollback":
		return s.rollBackStep(ctx, call, entry)
	default:
		return plan.Result{}, errorf(promo.CodeConfiguration, "step %q: no gate of type %q in this version", st.Name, st.Type)
	}
}

func (s *stageRun) pauseFor(ctx workflow.Context, st *plan.Step, call plan.Call, entry *promo.Step) (plan.Result, *promo.Error) {
	spec, err := plan.Decode[plan.WaitSpec](call.Spec)
	if err != nil {
		return plan.Result{}, fault(err)
	}
	d := time.Duration(spec.Duration)
	if spec.Until != "" {
		until, err := plan.ParseTime(spec.Until)
		if err != nil {
			return plan.Result{}, fault(err)
		}
		d = until.Sub(workflow.Now(ctx))
	}
	left := call.Deadline.Sub(workflow.Now(ctx))
	entry.Message = "waiting until " + workflow.Now(ctx).Add(max(d, 0)).UTC().Format(time.RFC3339)
	s.r.rec.changed()
	if err := workflow.Sleep(ctx, min(max(d, 0), left)); err != nil {
		return plan.Result{}, fault(err)
	}
	if d > left {
		return plan.Result{}, late(st, entry)
	}
	return plan.Result{}, nil
}

// approve asks people. A push that alters the digest voids their decisions, and the gate asks again.
func (s *stageRun) approve(ctx workflow.Context, st *plan.Step, u unit, call plan.Call, entry *promo.Step) (plan.Result, *promo.Error) {
	spec, err := plan.Decode[plan.ApprovalSpec](call.Spec)
	if err != nil {
		return plan.Result{}, fault(err)
	}
	waves := s.undecided(u)
	a := newApproval(spec, s.r.info.PlanHash, call.Deadline)
	if entry.Approval != nil { // asked before: what was decided then stays to be seen
		a.Decisions = void(entry.Approval.Decisions, "asked again")
	}
	entry.Approval = a
	q := &question{stage: s.plan.Name, step: st.Name, wave: u.wave, entry: entry}
	s.show(q, waves)
	if err := s.askPeople(ctx, q, waves, call.Deadline); err != nil {
		return plan.Result{}, err
	}
	if q.rejected != nil {
		v := errorf(promo.CodeApproval, "rejected by %s", q.rejected.User)
		if q.rejected.Comment != "" {
			v.Msg += ": " + q.rejected.Comment
		}
		return plan.Result{Verdict: v}, nil
	}
	if len(q.approvals()) < a.Minimum {
		return plan.Result{Verdict: errorf(promo.CodeApproval, "not approved within %s: %d of %d approvals", plan.Duration(st.Timeout), len(q.approvals()), a.Minimum)}, nil
	}
	for i, w := range waves {
		s.approved[w] = a.Changes[i].Digest // what was looked at, whatever was read since
	}
	return approvalResult(q), nil
}

func newApproval(spec plan.ApprovalSpec, planHash string, expires time.Time) *promo.Approval {
	a := &promo.Approval{
		Groups: spec.Approvers.Groups, Users: spec.Approvers.Users, Minimum: max(spec.Approvers.Minimum, 1),
		DisallowExecutor: spec.Approvers.DisallowExecutor, DisallowAuthor: spec.Approvers.DisallowAuthor,
		Message: spec.Message, PlanHash: planHash, Expires: expires,
	}
	for _, in := range spec.Inputs {
		a.Inputs = append(a.Inputs, promo.ApprovalInput(in))
	}
	return a
}

func approvalResult(q *question) plan.Result {
	var by []string
	var comment string
	inputs := map[string]string{}
	for _, in := range q.entry.Approval.Inputs {
		inputs[in.Name] = in.Default
	}
	for _, d := range q.approvals() {
		by = append(by, d.User)
		comment = d.Comment
		for _, name := range workflow.DeterministicKeys(d.Inputs) {
			inputs[name] = d.Inputs[name] // the last approver's values win
		}
	}
	return plan.Result{
		Message: "approved by " + strings.Join(by, ", "),
		Outputs: plan.Encode(map[string]any{"approvedBy": by, "comment": comment, "inputs": inputs, "digest": q.entry.Approval.Digest}),
	}
}

// changesSeenBy lists the waves whose changes a gate at u looks at, in order.
func (s *stageRun) changesSeenBy(u unit) []int {
	var out []int
	for _, w := range workflow.DeterministicKeys(s.changes) {
		if (u.wave == 0 || w == u.wave || w == 0) && s.changes[w].Changed {
			out = append(out, w)
		}
	}
	return out
}

// undecided lists the waves that people are asked about: those that are not merged yet, if there are such.
func (s *stageRun) undecided(u unit) []int {
	all := s.changesSeenBy(u)
	open := slices.DeleteFunc(slices.Clone(all), func(w int) bool { return s.changes[w].Merged != "" })
	if len(open) == 0 {
		return all
	}
	return open
}

// void marks decisions that still held.
func void(list []promo.ApprovalDecision, why string) []promo.ApprovalDecision {
	out := slices.Clone(list)
	for i := range out {
		if out[i].Void == "" {
			out[i].Void = why
		}
	}
	return out
}

// show puts the changes that people decide about into the question.
func (s *stageRun) show(q *question, waves []int) {
	a := q.entry.Approval
	a.Changes, q.authors = nil, nil
	var digests []string
	for _, w := range waves {
		c := s.changes[w]
		a.Changes = append(a.Changes, changeRef(w, *c))
		digests = append(digests, c.Digest)
		for _, name := range []string{c.Author, c.Foreign} {
			if name != "" && !slices.Contains(q.authors, name) {
				q.authors = append(q.authors, name)
			}
		}
	}
	a.Author = strings.Join(q.authors, ", ")
	a.Digest = plan.CombineDigests(digests)
}

func changeRef(wave int, c plan.Change) promo.ChangeRef {
	return promo.ChangeRef{Wave: wave, PR: c.PR, URL: c.URL, Branch: c.Branch, Head: c.Head, Digest: c.Digest, Diff: c.Diff}
}

// askPeople waits until the question is decided or the time is over, and re-reads the changes whenever their
// pull requests move.
func (s *stageRun) askPeople(ctx workflow.Context, q *question, waves []int, deadline time.Time) *promo.Error {
	b := &s.r.base
	b.asks = append(b.asks, q)
	defer func() { b.asks = slices.DeleteFunc(b.asks, func(o *question) bool { return o == q }) }()
	var events []string
	for _, w := range waves {
		if c := s.changes[w]; c.PR != 0 {
			events = append(events, promo.EventPullRequest(s.r.in.Plan.Repository.Name, c.PR))
		}
	}
	defer b.watch(events...)()
	q.entry.Phase = promo.PhaseWaitingForApproval
	q.entry.Message = waitingFor(q)
	s.r.refresh()
	since := workflow.Now(ctx)
	for !q.done() {
		before := b.seen(events)
		left := deadline.Sub(workflow.Now(ctx))
		if left <= 0 {
			return nil
		}
		_, err := workflow.AwaitWithTimeout(ctx, min(left, poll(ctx, since, slowPoll*10)), func() bool { return q.done() || b.seen(events) != before })
		if err != nil {
			return fault(err)
		}
		if q.done() {
			break
		}
		if err := s.reread(ctx, q, waves); err != nil {
			return err
		}
	}
	q.entry.Phase = promo.PhaseRunning
	s.r.refresh()
	return nil
}

func waitingFor(q *question) string {
	a := q.entry.Approval
	var who []string
	for _, g := range a.Groups {
		who = append(who, "group "+g)
	}
	who = append(who, a.Users...)
	if len(who) == 0 {
		who = []string{"anybody who may approve"}
	}
	what := "1 approval"
	if a.Minimum != 1 {
		what = fmt.Sprintf("%d approvals", a.Minimum)
	}
	return "waiting for " + what + " by " + strings.Join(who, ", ")
}

// reread reads the changes again and voids the decisions about what is no longer there.
func (s *stageRun) reread(ctx workflow.Context, q *question, waves []int) *promo.Error {
	a := q.entry.Approval
	for _, w := range waves {
		got, err := s.readChange(ctx, w)
		if err != nil {
			return err
		}
		if got.State == "closed" {
			return errorf(promo.CodeConflict, "pull request %d was closed by %s while it waited for approval", got.Change.PR, orSomebody(got.ClosedBy))
		}
	}
	old := a.Digest
	s.show(q, waves)
	if a.Digest == old {
		return nil
	}
	why := "a new push altered the change"
	for _, w := range waves {
		if by := s.changes[w].Foreign; by != "" {
			why = "a new push by " + by + " altered the change"
		}
	}
	a.Decisions = void(a.Decisions, why)
	q.entry.Message = why + ": earlier decisions are void; " + waitingFor(q)
	s.r.refresh()
	return nil
}

func orSomebody(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}

// readChange reads the wave's change as it is now and keeps what was read.
func (s *stageRun) readChange(ctx workflow.Context, wave int) (contract.ReadChangeResult, *promo.Error) {
	got, err := contract.ReadChange.Call(ctx, contract.ReadChangeRequest{
		Project: s.r.info.Project, Repository: s.r.in.Plan.Repository.Name, Change: *s.changes[wave], Operation: s.makers[wave].operation,
	})
	if err != nil {
		return got, fault(err)
	}
	s.setChange(wave, got.Change)
	return got, nil
}

// waitForPR waits for what people or checks do to the pull request.
func (s *stageRun) waitForPR(ctx workflow.Context, st *plan.Step, u unit, call plan.Call, entry *promo.Step) (plan.Result, *promo.Error) {
	spec, err := plan.Decode[plan.WaitForPRSpec](call.Spec)
	if err != nil {
		return plan.Result{}, fault(err)
	}
	for _, w := range s.changesSeenBy(u) {
		if err := s.waitForOne(ctx, st, spec, w, call.Deadline, entry); err != nil {
			return plan.Result{}, err
		}
	}
	merged := ""
	for _, w := range s.changesSeenBy(u) {
		merged = s.changes[w].Merged
	}
	return plan.Result{Outputs: plan.Encode(map[string]any{"sha": merged})}, nil
}

func (s *stageRun) waitForOne(ctx workflow.Context, st *plan.Step, spec plan.WaitForPRSpec, wave int, deadline time.Time, entry *promo.Step) *promo.Error {
	pr := s.changes[wave].PR
	if pr == 0 {
		return nil
	}
	events := []string{promo.EventPullRequest(s.r.in.Plan.Repository.Name, pr)}
	defer s.r.watch(events...)()
	pushed := s.makers[wave].left.Digest
	if a := s.approved[wave]; a != "" {
		pushed = a
	}
	since := workflow.Now(ctx)
	for {
		before := s.r.seen(events)
		got, err := s.readChange(ctx, wave)
		if err != nil {
			return err
		}
		done, err := reached(spec, got, pushed)
		if done || err != nil {
			if m := s.makers[wave]; done && spec.ForeignCommits == "allow" {
				m.left.Head, m.left.Digest = got.Change.Head, got.Change.Digest
				s.makers[wave] = m
			}
			return err
		}
		entry.Message = fmt.Sprintf("waiting until pull request %d is %s", pr, waitWord(spec.Until))
		s.r.rec.changed()
		left := deadline.Sub(workflow.Now(ctx))
		if left <= 0 {
			return late(st, entry)
		}
		if err := s.r.wait(ctx, min(left, poll(ctx, since, slowPoll)), events, before); err != nil {
			return err
		}
	}
}

func waitWord(until string) string {
	if until == "checks" {
		return "green"
	}
	return until
}

// reached says whether the pull request is where the step waits for it to be.
func reached(spec plan.WaitForPRSpec, got contract.ReadChangeResult, pushed string) (bool, *promo.Error) {
	c := got.Change
	if c.Foreign != "" && c.Digest != pushed && spec.ForeignCommits != "allow" {
		return false, &promo.Error{
			Code: promo.CodeConflict, Msg: fmt.Sprintf("%s pushed to %s, the branch of pull request %d", c.Foreign, c.Branch, c.PR),
			Hint: "say foreignCommits: allow if people may change Davit's pull requests",
		}
	}
	switch {
	case spec.Until == "closed" && got.State != "open":
		return true, nil
	case got.State == "closed":
		return false, errorf(promo.CodeConflict, "pull request %d was closed by %s", c.PR, orSomebody(got.ClosedBy))
	case got.State == "merged":
		return true, nil
	case spec.Until == "checks" && got.Checks == "failed":
		return false, errorf(promo.CodeConflict, "checks of pull request %d failed", c.PR)
	case spec.Until == "checks":
		return got.Checks == "green" || got.Checks == "none", nil
	default:
		return false, nil
	}
}

// askAboutVerdict asks a person whether the run goes on although a step could not say so itself.
func (s *stageRun) askAboutVerdict(ctx workflow.Context, st *plan.Step, u unit, ask plan.Ask, entry *promo.Step) *promo.Error {
	deadline := workflow.Now(ctx).Add(answerTime)
	entry.Approval = &promo.Approval{Minimum: 1, Message: ask.Question, PlanHash: s.r.info.PlanHash, Expires: deadline}
	q := &question{stage: s.plan.Name, step: st.Name, wave: u.wave, entry: entry}
	if err := s.askPeople(ctx, q, nil, deadline); err != nil {
		return err
	}
	if q.rejected == nil && q.done() {
		s.tainted = "step " + st.Name + " was passed by a person, not by evidence"
		return nil
	}
	v := ask.Otherwise
	if q.rejected == nil {
		v.Msg += "; nobody answered in time"
	}
	return &v
}
