package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/plan"
)

func samplePlan() *plan.Plan {
	step := func(name string) *plan.Step {
		return &plan.Step{Name: name, Path: name, Type: "Sync", Scope: plan.ScopeTarget, Spec: json.RawMessage(`{"prune":true}`), Timeout: time.Minute}
	}
	return &plan.Plan{
		Version: plan.Version, Project: "shop", Pipeline: "release", Labels: map[string]string{"b": "2", "a": "1", "c": "3"},
		Service: plan.Service{Name: "checkout", Branch: "main", Owned: map[string][]string{"prod": {"prod"}, "dev": {"dev"}}},
		Inputs:  map[string]any{"version": "1.2.3", "count": 3.0, "nested": map[string]any{"y": true, "x": nil}},
		Stages: []plan.Stage{{
			Name: "dev", Targets: []plan.Target{{Name: "eu", Agent: "a"}, {Name: "us", Agent: "b"}},
			Nodes: []plan.Node{
				{Kind: plan.NodeStep, Name: "first", Step: step("first")},
				{Kind: plan.NodeParallel, Name: "group", Nodes: []plan.Node{
					{Kind: plan.NodeStep, Name: "left", Step: step("left")},
					{Kind: plan.NodeSequence, Nodes: []plan.Node{{Kind: plan.NodeGate, Step: step("deep")}, {Kind: plan.NodeSequence}}},
				}},
				{Kind: plan.NodeGate, Name: "last", Step: step("last")},
			},
		}},
	}
}

func hashOf(t *testing.T, p *plan.Plan) string {
	t.Helper()
	h, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHashIsStable(t *testing.T) {
	t.Parallel()
	// Approvals and histories of runs that are under way name this hash: a change of it is a change of schema.
	const frozen = "04553fac6f991651d13669da613582643276bdc5f09ecdced494ea4b7bd1955b"
	want := hashOf(t, samplePlan())
	if want != frozen {
		t.Errorf("the hash of the same plan was %s in earlier versions, is %s", frozen, want)
	}
	for range 50 { // maps are walked in another order each time
		if got := hashOf(t, samplePlan()); got != want {
			t.Fatalf("equal plans have hashes %s and %s", want, got)
		}
	}
	raw, err := json.Marshal(samplePlan())
	if err != nil {
		t.Fatal(err)
	}
	var back plan.Plan
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if got := hashOf(t, &back); got != want {
		t.Errorf("stored and read back, the plan has another hash: %s, was %s", got, want)
	}
}

func TestHashSeesEverything(t *testing.T) {
	t.Parallel()
	seen := map[string]string{hashOf(t, samplePlan()): "the plan itself"}
	for name, change := range map[string]func(*plan.Plan){
		"version":      func(p *plan.Plan) { p.Version++ },
		"input":        func(p *plan.Plan) { p.Inputs["version"] = "1.2.4" },
		"label":        func(p *plan.Plan) { p.Labels["a"] = "x" },
		"owned path":   func(p *plan.Plan) { p.Service.Owned["prod"] = []string{"other"} },
		"target order": func(p *plan.Plan) { t := p.Stages[0].Targets; t[0], t[1] = t[1], t[0] },
		"agent":        func(p *plan.Plan) { p.Stages[0].Targets[0].Agent = "evil" },
		"spec":         func(p *plan.Plan) { p.Stages[0].Nodes[0].Step.Spec = json.RawMessage(`{"prune":false}`) },
		"deep step":    func(p *plan.Plan) { p.Stages[0].Nodes[1].Nodes[1].Nodes[0].Step.Timeout++ },
		"policies":     func(p *plan.Plan) { p.Policies = []string{"x"} },
		"stage policy": func(p *plan.Plan) { p.Stages[0].Policies = []string{"x"} },
		"gate gone":    func(p *plan.Plan) { p.Stages[0].Nodes = p.Stages[0].Nodes[:2] },
	} {
		p := samplePlan()
		change(p)
		h := hashOf(t, p)
		if other, ok := seen[h]; ok {
			t.Errorf("a change of the %s has the hash of %s", name, other)
		}
		seen[h] = name
	}
}

func TestHashOfWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := samplePlan()
	p.Inputs["version"] = make(chan int)
	if h, err := p.Hash(); err == nil {
		t.Errorf("got hash %s for a plan that can't be stored", h)
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	p := samplePlan()
	var names []string
	for _, s := range plan.Steps(p.Stages[0].Nodes) {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"first", "left", "deep", "last"}, names); diff != "" {
		t.Errorf("declared order, groups flattened: -want +got:\n%s", diff)
	}
	if got := plan.Steps(p.Stages[0].Nodes)[2]; got != p.Stages[0].Nodes[1].Nodes[1].Nodes[0].Step {
		t.Error("steps are copies: a change to one would be lost")
	}
	if got := plan.Steps(nil); len(got) != 0 {
		t.Errorf("no nodes have steps %v", got)
	}
}

func TestLookUps(t *testing.T) {
	t.Parallel()
	p := samplePlan()
	st, ok := p.Stage("dev")
	if !ok || st != &p.Stages[0] {
		t.Errorf("stage dev: got %v %v, want the plan's own", st, ok)
	}
	if _, ok := p.Stage("Dev"); ok {
		t.Error("a stage of another name was found")
	}
	if got, ok := st.Target("us"); !ok || got.Agent != "b" {
		t.Errorf("target us: got %+v %v", got, ok)
	}
	if _, ok := st.Target("none"); ok {
		t.Error("a target that is not there was found")
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		errors []string
		code   string
		want   bool
	}{
		"named":           {[]string{"Timeout", "Health"}, "Health", true},
		"not named":       {[]string{"Timeout"}, "Health", false},
		"all":             {[]string{"All"}, "Verification", true},
		"all among some":  {[]string{"Timeout", "All"}, "Sync", true},
		"nothing":         {nil, "Timeout", false},
		"case counts":     {[]string{"timeout"}, "Timeout", false},
		"part of a name":  {[]string{"Time"}, "Timeout", false},
		"nothing is none": {[]string{"Timeout"}, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (plan.Strategy{Errors: tc.errors}).Matches(tc.code); got != tc.want {
				t.Errorf("%v on %q: got %v", tc.errors, tc.code, got)
			}
		})
	}
}

func TestCombineDigests(t *testing.T) {
	t.Parallel()
	if got := plan.CombineDigests(nil); got != "" {
		t.Errorf("no change has digest %q", got)
	}
	if got := plan.CombineDigests([]string{"sha256:a"}); got != "sha256:a" {
		t.Errorf("one change has digest %q, want its own", got)
	}
	seen := map[string]bool{}
	for _, list := range [][]string{{"a", "b"}, {"b", "a"}, {"a", "b", "c"}, {"ab", ""}, {"a", "a"}, {"", "ab"}, {"a", ""}} {
		d := plan.CombineDigests(list)
		if len(d) != 64 || seen[d] {
			t.Errorf("digest of %q is %q: too short or another list's", list, d)
		}
		seen[d] = true
		if again := plan.CombineDigests(list); again != d {
			t.Errorf("digest of %q is %q, then %q", list, d, again)
		}
	}
}
