package policy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

// book is a Recorder that keeps everything.
type book struct {
	mu        sync.Mutex
	decisions map[string]Decision
	inputs    map[string][]byte
	err       error
}

func newBook() *book { return &book{decisions: map[string]Decision{}, inputs: map[string][]byte{}} }

func (b *book) RecordDecision(_ context.Context, d Decision) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decisions[d.ID] = d
	return b.err
}

func (b *book) RecordInput(_ context.Context, hash string, raw []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inputs[hash] = raw
	return nil
}

func at(s string) func() time.Time {
	return func() time.Time {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			panic(err)
		}
		return when
	}
}

func engine(r Recorder) *Engine {
	return NewEngine(r, at("2026-01-02T03:04:05Z"), slog.New(slog.DiscardHandler))
}

func set(name string, on On, action Action, rego string) Set {
	return Set{Name: name, Entity: "pipeline", On: []On{on}, Policies: []Policy{{Rego: "package a\n" + rego, Action: action}}}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	no, fine := `deny contains "no"`, `deny contains "no" if false`
	cases := map[string]struct {
		reason  string
		req     Request
		allowed bool
		deny    []string
		warn    []string
		sets    []string
	}{
		"no sets":           {"nothing forbids", Request{Event: OnRun}, true, nil, nil, nil},
		"denies":            {"action deny", Request{Event: OnRun, Sets: []Set{set("s", OnRun, ActionDeny, no)}}, false, []string{"no"}, nil, []string{"s"}},
		"warns":             {"action warn makes denies warnings", Request{Event: OnRun, Sets: []Set{set("s", OnRun, ActionWarn, no)}}, true, nil, []string{"no"}, []string{"s"}},
		"own warnings":      {"a warn rule never denies", Request{Event: OnRun, Sets: []Set{set("s", OnRun, ActionDeny, `warn contains "hm"`)}}, true, nil, []string{"hm"}, []string{"s"}},
		"passes":            {"nothing matched", Request{Event: OnRun, Sets: []Set{set("s", OnRun, ActionDeny, fine)}}, true, nil, nil, []string{"s"}},
		"another event":     {"passed over", Request{Event: OnSave, Sets: []Set{set("s", OnRun, ActionDeny, no)}}, true, nil, nil, nil},
		"another entity":    {"passed over", Request{Event: OnRun, Entity: "service", Sets: []Set{set("s", OnRun, ActionDeny, no)}}, true, nil, nil, nil},
		"its entity":        {"asked", Request{Event: OnRun, Entity: "pipeline", Sets: []Set{set("s", OnRun, ActionDeny, no)}}, false, []string{"no"}, nil, []string{"s"}},
		"named":             {"whatever its event and entity: a gate is never dropped in silence", Request{Event: OnStep, Entity: "service", Named: true, Sets: []Set{set("s", OnRun, ActionDeny, no)}}, false, []string{"no"}, nil, []string{"s"}},
		"all are asked":     {"every reason at once", Request{Event: OnRun, Sets: []Set{set("s", OnRun, ActionDeny, no), set("t", OnRun, ActionDeny, `deny["also no"] { true }`)}}, false, []string{"also no", "no"}, nil, []string{"s", "t"}},
		"does not compile":  {"fail closed", Request{Event: OnRun, Sets: []Set{set("s", OnRun, ActionDeny, `deny if`)}}, false, []string{"…"}, nil, []string{"s"}},
		"never denies":      {"no deny rule is a mistake", Request{Event: OnRun, Sets: []Set{set("s", OnRun, ActionDeny, `Deny := true`)}}, false, []string{"…"}, nil, []string{"s"}},
		"evaluation fails":  {"fail closed", Request{Event: OnRun, Sets: []Set{set("s", OnRun, ActionDeny, `deny if 1 / 0 == 1`)}}, false, []string{"…"}, nil, []string{"s"}},
		"document unusable": {"fail closed", Request{Event: OnRun, Document: strings.Repeat("x", MaxInputBytes), Sets: []Set{set("s", OnRun, ActionDeny, fine)}}, false, []string{"…"}, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBook()
			d, err := engine(b).Decide(t.Context(), tc.req)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range d.Sets {
				names = append(names, s.Name)
			}
			if len(tc.deny) == 1 && tc.deny[0] == "…" && len(d.Deny) == 1 {
				tc.deny = d.Deny // a reason of the evaluator's own, tested there
			}
			type view struct {
				Allowed    bool
				Deny, Warn []string
				Sets       []string
			}
			want := view{tc.allowed, orNone(tc.deny), orNone(tc.warn), tc.sets}
			if diff := cmp.Diff(want, view{d.Allowed, d.Deny, d.Warn, names}); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(d, b.decisions[d.ID]); diff != "" {
				t.Errorf("recorded another decision: %s", diff)
			}
		})
	}
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func TestDecideRecords(t *testing.T) {
	t.Parallel()
	b := newBook()
	e := engine(b)
	req := Request{Key: "p/1/prod/gate", Event: OnStep, Document: map[string]any{"b": 1, "a": 2}, Sets: []Set{set("s", OnStep, ActionDeny, `deny if input.a == 2`)}}
	first, err := e.Decide(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.Decide(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if first.ID != second.ID || len(b.decisions) != 1 {
		t.Errorf("a repeated activity must not decide twice: %q, %q", first.ID, second.ID)
	}
	req.Event = OnMerge
	if third, _ := e.Decide(t.Context(), req); third.ID == first.ID {
		t.Error("another event is another decision")
	}
	if got := string(b.inputs[first.InputHash]); got != `{"a":2,"b":1}` {
		t.Errorf("recorded input %q", got)
	}
	if first.Sets[0].Hash != req.Sets[0].Hash() || first.At != at("2026-01-02T03:04:05Z")() {
		t.Errorf("got %+v", first)
	}
	raw, err := json.Marshal(first)
	if err != nil || !strings.Contains(string(raw), `"deny":["denied by a.deny"],"warn":[]`) {
		t.Errorf("got %s, %v", raw, err)
	}

	b.err = errors.New("disk full")
	if _, err := e.Decide(t.Context(), req); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("an unrecorded decision is none: %v", err)
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	b := newBook()
	e := engine(b)
	old, err := e.Decide(t.Context(), Request{Event: OnRun, Document: map[string]any{"a": 2}, Sets: []Set{set("s", OnRun, ActionDeny, `deny if input.a == 1`)}})
	if err != nil || !old.Allowed {
		t.Fatalf("got %+v, %v", old, err)
	}
	stricter := []Set{set("s", OnSave, ActionDeny, "deny contains sprintf(\"%d at %d\", [input.a, time.now_ns()]) if input.a > 1")}
	got, err := e.Replay(t.Context(), old, b.inputs[old.InputHash], stricter)
	if err != nil {
		t.Fatal(err)
	}
	if got.Allowed || got.ReplayOf != old.ID || !cmp.Equal(got.Deny, []string{"2 at 1767323045000000000"}) {
		t.Errorf("got %+v", got)
	}
	if len(b.decisions) != 1 {
		t.Error("a replay records nothing")
	}
	if _, err := e.Replay(t.Context(), old, []byte(`{"a":3}`), stricter); promo.CodeOf(err) != promo.CodeConflict {
		t.Errorf("another document: want a conflict, got %v", err)
	}
}

func TestDecideCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := engine(newBook()).Decide(ctx, Request{Event: OnRun, Sets: []Set{set("s", OnRun, ActionDeny, `deny if false`)}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("want the cancellation, got %v", err)
	}
}

func TestCompileSet(t *testing.T) {
	t.Parallel()
	_, err := CompileSet(t.Context(), Set{Name: "gate", On: []On{"saves"}, Policies: []Policy{
		{Module: "one.rego", Rego: "package a\ndeny { ", Action: ActionDeny}, {Rego: "package a\nx := 1", Action: "block"},
	}})
	for _, want := range []string{`policy set "gate"`, `unknown event "saves"`, "one.rego:2:", `unknown action "block"`, `gate/policies[1].rego: package "a" has no rule named deny or warn`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
	if _, err := CompileSet(t.Context(), Set{Name: "gate"}); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("an empty set: %v", err)
	}
}

func TestEngineIsConcurrent(t *testing.T) {
	t.Parallel()
	e := engine(nil)
	s := set("s", OnRun, ActionDeny, `deny contains input.who`)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			who := itoa(i)
			d, err := e.Decide(t.Context(), Request{Event: OnRun, Sets: []Set{s}, Document: map[string]any{"who": who}})
			if err != nil || !cmp.Equal(d.Deny, []string{who}) {
				t.Errorf("got %+v, %v", d.Deny, err)
			}
		})
	}
	wg.Wait()
}
