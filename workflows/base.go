package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// slowPoll is the fallback of every wait for an event: an event may be lost with a process, the truth is not.
const slowPoll = time.Minute

// ending says why a run ends before its work is done.
type ending struct {
	phase promo.Phase // Aborted or Superseded
	why   string
}

// base is what promotions and rollbacks share: events that wake, questions to people, the record, the end.
type base struct {
	info     plan.RunInfo
	rec      *recorder
	wakes    map[string]int // events seen so far, by name
	interest map[string]int // events waited for, by name
	waitsFor *[]string      // where the state shows interest
	asks     []*question
	answered map[string]contract.DecideReply // decided requests, by request id
	aborts   map[string]bool                 // abort requests, by request id
	end      *ending
	cancel   workflow.CancelFunc // cancels the run's work
	closing  bool                // set when no message can change anything any more
	slots    workflow.Semaphore  // bounds the step activities under way
}

// maxActivities keeps a run far below Temporal's limit of 2,000 pending activities, past which a workflow hangs.
const maxActivities = 500

func newBase(ctx workflow.Context, info plan.RunInfo, rec *recorder, waitsFor *[]string) base {
	return base{
		slots: workflow.NewSemaphore(ctx, maxActivities),
		info:  info, rec: rec, waitsFor: waitsFor,
		wakes: map[string]int{}, interest: map[string]int{},
		answered: map[string]contract.DecideReply{}, aborts: map[string]bool{},
	}
}

// listen receives wake signals until the workflow ends.
func (b *base) listen(ctx workflow.Context) {
	ch := workflow.GetSignalChannel(ctx, contract.SignalWake)
	workflow.Go(detached(ctx), func(ctx workflow.Context) {
		for {
			var event string
			if !ch.Receive(ctx, &event) {
				return
			}
			b.wakes[event]++
		}
	})
}

// watch shows interest in events until the returned function is called.
func (b *base) watch(events ...string) (done func()) {
	b.count(events, 1)
	return func() { b.count(events, -1) }
}

func (b *base) count(events []string, by int) {
	for _, e := range events {
		b.interest[e] += by
		if b.interest[e] == 0 {
			delete(b.interest, e)
		}
	}
	*b.waitsFor = workflow.DeterministicKeys(b.interest)
	b.rec.changed()
}

// seen sums up how often the events were seen; a wait compares it with an earlier sum, so that no event between
// reading the truth and waiting is lost.
func (b *base) seen(events []string) int {
	n := 0
	for _, e := range events {
		n += b.wakes[e]
	}
	return n
}

// poll is how long a wait that began at since sleeps before it looks again without an event: base at first, later a
// twentieth of the time it has lasted. So a wait of a week is a few hundred looks, not ten thousand.
func poll(ctx workflow.Context, since time.Time, base time.Duration) time.Duration {
	return max(base, min(workflow.Now(ctx).Sub(since)/20, time.Hour))
}

// wait returns when the time is over, when one of the events was seen since the sum `before`, or with "stopped".
func (b *base) wait(ctx workflow.Context, d time.Duration, events []string, before int) *promo.Error {
	_, err := workflow.AwaitWithTimeout(ctx, d, func() bool { return b.seen(events) != before })
	return fault(err)
}

// serve registers the updates of people. Handlers stand before the first blocking call.
func (b *base) serve(ctx workflow.Context) error {
	err := workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateDecide, b.decide,
		workflow.UpdateHandlerOptions{Validator: b.mayDecide})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateAbort, b.abort,
		workflow.UpdateHandlerOptions{Validator: b.mayAbort})
}

func (b *base) mayAbort(m contract.AbortMessage) error {
	if b.aborts[m.RequestID] {
		return nil
	}
	if b.closing || b.end != nil {
		return refuse(promo.CodeConflict, "%s is already ending", b.info.ID)
	}
	return nil
}

func (b *base) abort(_ workflow.Context, m contract.AbortMessage) error {
	if b.aborts[m.RequestID] {
		return nil
	}
	b.aborts[m.RequestID] = true
	why := "aborted by " + m.By.Name
	if m.Reason != "" {
		why += ": " + m.Reason
	}
	b.stop(promo.PhaseAborted, why)
	return nil
}

// stop ends the run's work; the first reason counts.
func (b *base) stop(phase promo.Phase, why string) {
	if b.end != nil || b.closing {
		return
	}
	b.end = &ending{phase: phase, why: why}
	b.rec.changed()
	b.cancel()
}

// question is a step that waits for people.
type question struct {
	stage, step string
	wave        int
	entry       *promo.Step
	authors     []string // of the changes that are asked about
	rejected    *promo.ApprovalDecision
}

// approvals counts the decisions that still hold.
func (q *question) approvals() []promo.ApprovalDecision {
	return slices.DeleteFunc(slices.Clone(q.entry.Approval.Decisions), func(d promo.ApprovalDecision) bool {
		return !d.Approve || d.Void != ""
	})
}

func (q *question) done() bool {
	return q.rejected != nil || len(q.approvals()) >= q.entry.Approval.Minimum
}

// find returns the question that a message is about.
func (b *base) find(m contract.DecideMessage) (*question, error) {
	var open []*question
	for _, q := range b.asks {
		if !q.done() && (m.Stage == "" || q.stage == m.Stage) && (m.Step == "" || q.step == m.Step) &&
			(m.Wave == 0 || q.wave == m.Wave) && (m.Target == "" || q.entry.Target == m.Target) {
			open = append(open, q)
		}
	}
	switch {
	case len(open) == 1 || sameButTarget(open):
		return open[0], nil // several targets that ask the same are answered one after the other
	case len(open) == 0 && m.Step != "":
		return nil, refuse(promo.CodeConflict, "step %q of %s does not wait for a decision", m.Step, b.info.ID)
	case len(open) == 0:
		return nil, refuse(promo.CodeConflict, "nothing in %s waits for a decision", b.info.ID)
	default:
		return nil, refuse(promo.CodeConfiguration, "%d steps of %s wait for a decision: say which by stage, step, wave and target",
			len(open), b.info.ID)
	}
}

func sameButTarget(open []*question) bool {
	for _, q := range open {
		if q.stage != open[0].stage || q.step != open[0].step || q.wave != open[0].wave {
			return false
		}
	}
	return len(open) > 0
}

func (b *base) mayDecide(m contract.DecideMessage) error {
	if _, ok := b.answered[m.RequestID]; ok && m.RequestID != "" {
		return nil
	}
	if b.closing || b.end != nil {
		return refuse(promo.CodeConflict, "%s is already ending", b.info.ID)
	}
	q, err := b.find(m)
	if err != nil {
		return err
	}
	return q.allows(m, b.info.TriggeredBy.Name)
}

// allows checks a decision against the rules of the approval. Whether the person may decide at all, by role, the
// server has checked before.
func (q *question) allows(m contract.DecideMessage, executor string) error {
	a := q.entry.Approval
	switch {
	case len(a.Groups)+len(a.Users) > 0 && !slices.Contains(a.Users, m.By.Name) && !overlap(a.Groups, m.By.Groups):
		return refuse(promo.CodeAuthorization, "%s is not among the approvers of step %q (groups %v, users %v)",
			m.By.Name, q.step, a.Groups, a.Users)
	case a.DisallowExecutor && m.Approve && m.By.Name == executor:
		return refuse(promo.CodeAuthorization, "%s started this promotion and may not approve it", m.By.Name)
	case a.DisallowAuthor && m.Approve && slices.Contains(q.authors, m.By.Name):
		return refuse(promo.CodeAuthorization, "%s is the author of this change and may not approve it", m.By.Name)
	case m.Digest != "" && m.Digest != a.Digest:
		return refuse(promo.CodeConflict, "the change is not the one you looked at any more: look again")
	}
	for _, d := range a.Decisions {
		if d.User == m.By.Name && d.Void == "" {
			return refuse(promo.CodeConflict, "%s has already decided", m.By.Name)
		}
	}
	if !m.Approve {
		return nil
	}
	for _, in := range a.Inputs {
		v, given := m.Inputs[in.Name]
		if in.Required && in.Default == "" && v == "" {
			return refuse(promo.CodeConfiguration, "input %q is required to approve", in.Name)
		}
		if given && len(in.Allowed) > 0 && !slices.Contains(in.Allowed, v) {
			return refuse(promo.CodeConfiguration, "input %q may not be %q: one of %v", in.Name, v, in.Allowed)
		}
	}
	return nil
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func (b *base) decide(ctx workflow.Context, m contract.DecideMessage) (contract.DecideReply, error) {
	if r, ok := b.answered[m.RequestID]; ok && m.RequestID != "" {
		return r, nil
	}
	q, err := b.find(m)
	if err != nil {
		return contract.DecideReply{}, err
	}
	a := q.entry.Approval
	d := promo.ApprovalDecision{
		User: m.By.Name, Approve: m.Approve, Comment: m.Comment, Inputs: m.Inputs, At: workflow.Now(ctx), RequestID: m.RequestID,
	}
	a.Decisions = append(a.Decisions, d)
	if !m.Approve {
		q.rejected = &d
	}
	b.rec.changed()
	r := contract.DecideReply{Stage: q.stage, Step: q.step, Target: q.entry.Target, Approved: len(q.approvals()), Minimum: a.Minimum, Done: q.done()}
	if m.RequestID != "" {
		b.answered[m.RequestID] = r
	}
	return r, nil
}
