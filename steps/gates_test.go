package steps_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/steps"
)

// TestGateChecks reads each spec over the type's defaults, as the compiler does.
func TestGateChecks(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		typ    steps.Type
		spec   string
		want   []string // "path: beginning of the message"
	}{
		"Groups":         {"a group is enough", steps.Approval(), `{"approvers":{"groups":["ops"]}}`, nil},
		"Nobody":         {"somebody must be able to approve", steps.Approval(), `{}`, []string{"approvers: nobody may approve"}},
		"TooFew":         {"named people must suffice", steps.Approval(), `{"approvers":{"users":["ann"],"minimum":2}}`, []string{"approvers.minimum: needs 2 people where only 1"}},
		"GroupAndMore":   {"a group may hold any number", steps.Approval(), `{"approvers":{"users":["ann"],"groups":["ops"],"minimum":2}}`, nil},
		"Inputs":         {"names, defaults and patterns of inputs", steps.Approval(), `{"approvers":{"users":["ann"]},"inputs":[{"name":"a","allowed":["x"],"default":"y"},{"name":"a"},{"name":"B"},{"name":"c","pattern":"["},{"name":"d","pattern":"x+","default":"xy"}]}`, []string{`inputs[0].default: default "y"`, `inputs[1].name: input "a" is declared twice`, `inputs[2].name: "B" is no name`, "inputs[3].pattern: pattern does not compile", "inputs[4].default: default \"xy\" does not match"}},
		"Wait":           {"a duration", steps.Wait(), `{"duration":"5m"}`, nil},
		"WaitUntil":      {"a time", steps.Wait(), `{"until":"2026-01-31T09:00:00+01:00"}`, nil},
		"WaitExpression": {"a time that is known later", steps.Wait(), `{"until":"${{ inputs.at }}"}`, nil},
		"WaitBoth":       {"one of the two", steps.Wait(), `{"duration":"5m","until":"2026-01-31T09:00:00Z"}`, []string{"until: duration and until exclude"}},
		"WaitNoTime":     {"no time", steps.Wait(), `{"until":"noon"}`, []string{`until: "noon" is no time`}},
		"KnownGood":      {"the default", steps.Rollback(), `{}`, nil},
		"Commit":         {"a commit", steps.Rollback(), `{"to":"0123abc"}`, nil},
		"NoCommit":       {"a branch is no commit", steps.Rollback(), `{"to":"main"}`, []string{`to: "main" is no commit`}},
		"RollbackLater":  {"a commit that is known later", steps.Rollback(), `{"to":"${{ inputs.commit }}"}`, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := tc.typ.Config()
			if err := json.Unmarshal([]byte(tc.spec), cfg); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range tc.typ.Check(cfg) {
				got = append(got, p.Path+": "+p.Msg)
			}
			if len(got) != len(tc.want) {
				t.Fatalf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("%s: got %q, want %q", tc.reason, got[i], tc.want[i])
				}
			}
		})
	}
}

// TestGates demands what the workflows rely on: no Run, stage scope, a time limit.
func TestGates(t *testing.T) {
	t.Parallel()
	mutates := map[string]bool{}
	for _, typ := range []steps.Type{steps.Approval(), steps.WaitForPR(), steps.Wait(), steps.Rollback()} {
		if !typ.Gate || typ.Run != nil || typ.Scope != plan.ScopeStage || typ.Timeout <= 0 || typ.Summary == "" {
			t.Errorf("%s is no proper gate: %+v", typ.Kind, typ)
		}
		mutates[typ.Kind] = typ.Mutates(json.RawMessage(`{}`))
	}
	want := map[string]bool{"Approval": false, "WaitForPR": false, "Wait": false, "Rollback": true}
	if diff := cmp.Diff(want, mutates); diff != "" {
		t.Errorf("which gates change the environment:\n%s", diff)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]steps.Text{
		`"plain"`: {Value: "plain"}, `{"secret":"token"}`: {Secret: "token"}, `""`: {},
	} {
		var got steps.Text
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s reads %+v, %v", in, got, err)
		}
		back, err := json.Marshal(got)
		if err != nil || string(back) != in {
			t.Errorf("%s is written %s, %v", in, back, err)
		}
	}
	for _, in := range []string{`5`, `{"secret":""}`, `{"env":"HOME"}`, `[]`} {
		var got steps.Text
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("%s reads %+v, want an error", in, got)
		}
	}
}
