package workflows_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/activities"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/workflows"
)

// world answers every activity of package contract, typed, and writes down what it was asked in order.
type world struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment

	mu       sync.Mutex
	log      []string
	calls    map[string][]plan.Call
	counts   map[string]int
	running  int
	most     int // the most step activities at once
	records  []promo.Promotion
	backs    []promo.Rollback
	marks    []plan.MarkRequest
	holds    []promo.Hold
	cleaned  []contract.CleanUpRequest
	lane     []contract.LaneMessage
	replies  map[string]contract.DecideReply
	refusals map[string]error

	// What tests set. n counts the calls of that activity (or step) from 1.
	do       map[string]func(n int, c plan.Call) (plan.Result, error) // by step name
	ordered  bool                                                     // the transcript is not sorted: nothing runs at once
	change   func(n int, r contract.ReadChangeRequest) (contract.ReadChangeResult, error)
	presence func(n int) contract.PresenceResult
	hold     func(n int) *promo.Hold
	policy   func(r contract.DecideRequest) contract.DecideResult
	preview  func(r plan.RollbackTarget) (promo.Preview, error)
	write    func(n int, r plan.RollbackWrite) (plan.RollbackWritten, error)
	record   func(n int) error
	tell     func(m contract.LaneMessage) // in place of a lane that grants at once
}

func newWorld(t *testing.T) *world {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &world{
		t: t, env: suite.NewTestWorkflowEnvironment(), calls: map[string][]plan.Call{}, counts: map[string]int{},
		replies: map[string]contract.DecideReply{}, refusals: map[string]error{},
		do: map[string]func(int, plan.Call) (plan.Result, error){},
	}
	w.env.SetTestTimeout(20 * time.Second)
	w.env.RegisterWorkflowWithOptions(workflows.Promotion, workflow.RegisterOptions{Name: contract.PromotionWorkflow})
	w.env.RegisterWorkflowWithOptions(func(ctx workflow.Context, st contract.LaneState) error {
		w.note("lane-run")
		return workflows.Lane(ctx, st)
	}, workflow.RegisterOptions{Name: contract.LaneWorkflow})
	w.env.RegisterWorkflowWithOptions(workflows.Rollback, workflow.RegisterOptions{Name: contract.RollbackWorkflow})
	w.register()
	return w
}

// note writes a line of the transcript and counts its first word.
func (w *world) note(format string, a ...any) int {
	line := fmt.Sprintf(format, a...)
	word, _, _ := strings.Cut(line, " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, line)
	w.counts[word]++
	return w.counts[word]
}

func answer[Req, Resp any](w *world, a contract.Activity[Req, Resp], fn func(ctx context.Context, r Req) (Resp, error)) {
	a.Register(w.env, func(ctx context.Context, r Req) (Resp, error) {
		resp, err := fn(ctx, r)
		if temporal.IsTimeoutError(err) { // what Temporal itself says
			return resp, err
		}
		return resp, contract.Wire(err)
	})
}

func (w *world) register() {
	answer(w, contract.Resolve, activities.Resolve)
	answer(w, contract.Record, w.onRecord)
	answer(w, contract.TellLane, w.onTell)
	answer(w, contract.ReadHold, func(context.Context, contract.LaneID) (contract.HoldResult, error) {
		n := w.note("hold.read")
		if w.hold == nil {
			return contract.HoldResult{}, nil
		}
		return contract.HoldResult{Hold: w.hold(n)}, nil
	})
	answer(w, contract.SetHold, func(_ context.Context, h promo.Hold) (contract.Nothing, error) {
		w.note("hold.set %s", h.Environment)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.holds = append(w.holds, h)
		return contract.Nothing{}, nil
	})
	answer(w, contract.ReadChange, func(_ context.Context, r contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
		n := w.note("change.read %d", r.Change.PR)
		if w.change == nil {
			return contract.ReadChangeResult{Change: r.Change, State: "open", Checks: "green"}, nil
		}
		return w.change(n, r)
	})
	answer(w, contract.CleanUp, func(_ context.Context, r contract.CleanUpRequest) (contract.Nothing, error) {
		for _, c := range r.Changes {
			w.note("cleanup %d", c.PR)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cleaned = append(w.cleaned, r)
		return contract.Nothing{}, nil
	})
	answer(w, contract.Decide, func(_ context.Context, r contract.DecideRequest) (contract.DecideResult, error) {
		w.note("decide %s %s", r.Event, strings.Join(r.Sets, ","))
		if w.policy == nil {
			return contract.DecideResult{ID: "1"}, nil
		}
		return w.policy(r), nil
	})
	answer(w, contract.Presence, func(_ context.Context, r contract.PresenceRequest) (contract.PresenceResult, error) {
		w.mu.Lock()
		w.counts["presence"]++
		n := w.counts["presence"]
		w.mu.Unlock()
		if w.presence == nil {
			return contract.PresenceResult{Known: true, Connected: true}, nil
		}
		return w.presence(n), nil
	})
	answer(w, contract.Baseline, func(_ context.Context, r plan.BaselineRequest) (contract.Nothing, error) {
		w.note("baseline %s", r.Environment)
		return contract.Nothing{}, nil
	})
	answer(w, contract.MarkCommit, func(_ context.Context, r plan.MarkRequest) (plan.MarkResult, error) {
		w.note("mark %s %s good=%t", r.Entry.Environment, r.Entry.Commit, r.Entry.KnownGood)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.marks = append(w.marks, r)
		return plan.MarkResult{KnownGood: r.Entry.KnownGood}, nil
	})
	answer(w, contract.PreviewRollback, func(_ context.Context, r plan.RollbackTarget) (promo.Preview, error) {
		w.note("preview %s", r.Environment)
		if w.preview == nil {
			return promo.Preview{To: "good", From: "bad", Version: "v1.0.0", Files: []string{"prod/values.yaml"}}, nil
		}
		return w.preview(r)
	})
	answer(w, contract.WriteRollback, func(_ context.Context, r plan.RollbackWrite) (plan.RollbackWritten, error) {
		n := w.note("write %s shared=%t", r.To, r.IncludeShared)
		if w.write == nil {
			return plan.RollbackWritten{Commit: "back", Changed: true, Merged: true}, nil
		}
		return w.write(n, r)
	})
	answer(w, contract.RunAlive, func(_ context.Context, r contract.RunAliveRequest) (contract.RunAliveResult, error) {
		return contract.RunAliveResult{Alive: !strings.Contains(r.ID, "gone")}, nil
	})
	for kind, k := range kinds() {
		if !k.gate {
			answer(w, contract.Step(kind, k.class), func(_ context.Context, c plan.Call) (plan.Result, error) { return w.step(kind, c) })
		}
	}
}

func (w *world) onRecord(_ context.Context, r contract.RecordRequest) (contract.Nothing, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts["record"]++
	if w.record != nil {
		if err := w.record(w.counts["record"]); err != nil {
			return contract.Nothing{}, err
		}
	}
	if len(r.Promotion) > 0 {
		p, err := plan.Decode[promo.Promotion](r.Promotion)
		w.records = append(w.records, p)
		return contract.Nothing{}, err
	}
	b, err := plan.Decode[promo.Rollback](r.Rollback)
	w.backs = append(w.backs, b)
	return contract.Nothing{}, err
}

func (w *world) onTell(_ context.Context, r contract.TellLaneRequest) (contract.Nothing, error) {
	m := r.Message
	w.note("lane.%s %s", m.Kind, r.Lane.Environment)
	w.mu.Lock()
	w.lane = append(w.lane, m)
	w.mu.Unlock()
	switch {
	case w.tell != nil:
		w.tell(m)
	case m.Kind == contract.LaneTake || m.Kind == contract.LanePreempt:
		w.grant(m)
	case m.Kind == contract.LanePass:
		w.env.RegisterDelayedCallback(func() {
			_ = w.env.SignalWorkflowByID(m.Member, contract.SignalLane, contract.LaneAnswer{Lane: m.Lane, Token: m.MemberToken, Kind: contract.LaneGranted})
		}, 0)
	}
	return contract.Nothing{}, nil
}

func (w *world) grant(m contract.LaneMessage) {
	w.say(contract.LaneAnswer{Lane: m.Lane, Token: m.Token, Kind: contract.LaneGranted})
}

// say signals the run under test on behalf of its lane.
func (w *world) say(a contract.LaneAnswer) {
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(contract.SignalLane, a) }, 0)
}

func place(c plan.Call) string {
	switch {
	case c.Target != nil:
		return c.Target.Name
	case c.Wave > 0:
		return fmt.Sprintf("wave-%d", c.Wave)
	default:
		return "stage"
	}
}

// step is every step type: what the test says, or what the type answers on a good day.
func (w *world) step(kind string, c plan.Call) (plan.Result, error) {
	w.mu.Lock()
	w.log = append(w.log, kind+" "+c.Stage.Name+"/"+c.Stage.Step+" "+place(c))
	w.calls[c.Stage.Step] = append(w.calls[c.Stage.Step], c)
	n := len(w.calls[c.Stage.Step])
	fn := w.do[c.Stage.Step]
	w.running++
	w.most = max(w.most, w.running)
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.running--; w.mu.Unlock() }()
	if fn != nil {
		return fn(n, c)
	}
	return goodDay(kind, c), nil
}

func goodDay(kind string, c plan.Call) plan.Result {
	switch kind {
	case "UpdateReleaseRepo":
		ch := plan.Change{Branch: "davit/" + c.Operation, Base: "main", Head: "head-" + place(c), Digest: "digest-" + place(c), PR: 1 + c.Wave, Changed: true, Author: c.Run.TriggeredBy.Name}
		return plan.Result{Change: &ch, Outputs: plan.Encode(map[string]any{"pr": map[string]any{"number": ch.PR}, "headSHA": ch.Head, "changed": true})}
	case "MergePR":
		ch := c.Change
		ch.Merged = "merged-" + c.Stage.Name + "-" + place(c)
		return plan.Result{Change: &ch, Outputs: plan.Encode(map[string]any{"sha": ch.Merged})}
	case "Sync":
		return plan.Result{Outputs: plan.Encode(map[string]any{"revision": c.Change.Merged, "health": "Healthy"})}
	default:
		return plan.Result{Message: "done"}
	}
}

// run runs the promotion to its end and returns what was recorded last.
func (w *world) run(in contract.PromotionInput) promo.Promotion {
	w.t.Helper()
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: contract.PromotionID(in.Run.ID), TaskQueue: contract.TaskQueue})
	w.env.ExecuteWorkflow(contract.PromotionWorkflow, in)
	if !w.env.IsWorkflowCompleted() {
		w.t.Fatalf("the promotion did not end; transcript: %v", w.transcript())
	}
	if err := w.env.GetWorkflowError(); err != nil {
		w.t.Fatalf("the promotion broke: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.records) == 0 {
		w.t.Fatal("nothing was recorded")
	}
	p := w.records[len(w.records)-1]
	if p.FinishedAt.IsZero() || !p.Phase.Final() {
		w.t.Fatalf("the end was not recorded: phase %s, finished %v", p.Phase, p.FinishedAt)
	}
	return p
}

// at runs fn when that much of the workflow's time has passed.
func (w *world) at(d time.Duration, fn func()) { w.env.RegisterDelayedCallback(fn, d) }

type callbacks struct {
	reject   func(error)
	complete func(any, error)
}

func (c callbacks) Accept()                      {}
func (c callbacks) Reject(err error)             { c.reject(err) }
func (c callbacks) Complete(result any, e error) { c.complete(result, e) }

// decide sends a decision; its answer is kept under the name.
func (w *world) decide(name string, m contract.DecideMessage) {
	w.update(contract.UpdateDecide, name, m)
}

func (w *world) abort(name string, m contract.AbortMessage) {
	w.update(contract.UpdateAbort, name, m)
}

func (w *world) update(kind, name string, m any) {
	w.env.UpdateWorkflow(kind, name, callbacks{
		reject: func(err error) { w.refusals[name] = err },
		complete: func(r any, err error) {
			if err != nil {
				w.refusals[name] = err
			}
			reply, _ := r.(contract.DecideReply)
			w.replies[name] = reply
		},
	}, m)
}

// refused tells with which code a message was refused, "" where it was taken.
func (w *world) refused(name string) promo.Code {
	err := w.refusals[name]
	if err == nil {
		if _, ok := w.replies[name]; !ok {
			w.t.Errorf("message %s was never answered", name)
		}
		return ""
	}
	return contract.Unwire(err).Code
}

// transcript is what was asked, without the looks at holds; neighbours of one kind are sorted, because what runs at
// once has no order.
func (w *world) transcript() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, l := range w.log {
		if !strings.HasPrefix(l, "hold.read") {
			out = append(out, l)
		}
	}
	if w.ordered {
		return out
	}
	head := func(s string) string { k, _, _ := strings.Cut(s, " "); return k }
	for i := 0; i < len(out); {
		j := i
		for j < len(out) && head(out[j]) == head(out[i]) {
			j++
		}
		slices.Sort(out[i:j])
		i = j
	}
	return out
}

func phases(p promo.Promotion) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", p.Phase)
	for _, s := range p.Stages {
		fmt.Fprintf(&b, " %s=%s", s.Name, s.Phase)
	}
	return b.String()
}

func stepOf(t *testing.T, p promo.Promotion, stage, name, target string) promo.Step {
	t.Helper()
	for _, s := range p.Stages {
		for _, st := range s.Steps {
			if s.Name == stage && st.Name == name && st.Target == target {
				return st
			}
		}
	}
	t.Fatalf("no step %s/%s of %q", stage, name, target)
	return promo.Step{}
}
