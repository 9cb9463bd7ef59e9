package policy

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stages builds a pipeline's stages with the given types and one Sync step each.
func stages(types ...string) *Pipeline {
	p := &Pipeline{Name: "checkout", Project: "shop", Org: "acme"}
	for i, t := range types {
		p.Stages = append(p.Stages, Stage{Name: "s" + string(rune('0'+i)), Type: t, Steps: []Node{{Name: "sync", Type: "Sync"}}})
	}
	return p
}

// withSteps builds a pipeline of one Deployment stage.
func withSteps(s Stage) *Pipeline {
	s.Name, s.Type, s.Environment = "prod", "Deployment", "prod"
	return &Pipeline{Name: "checkout", Stages: []Stage{s}}
}

func byUser(name string) Event {
	return Event{Metadata: Metadata{Action: "run", User: User{Name: name}}}
}

// TestExamples holds the eight examples that people bring with them to what was measured for them, in both
// dialects, each as the same module text that a person would write.
func TestExamples(t *testing.T) {
	t.Parallel()
	http := []Node{{Name: "call", Type: "Http"}}
	const noHTTP = "Deployment pipeline should not have HTTP step"
	cases := map[string]struct {
		reason string
		module string
		input  any
		deny   []string
	}{
		"E1/plain":            {"a step of the list is seen", "e1_no_http", Build(withSteps(Stage{Steps: http}), Event{}), []string{noHTTP}},
		"E1/custom stage":     {"only Deployment stages matter", "e1_no_http", Build(&Pipeline{Stages: []Stage{{Type: "Custom", Steps: http}}}, Event{}), []string{}},
		"E1/parallel":         {"known evasion of the nested form", "e1_no_http", Build(withSteps(Stage{Steps: []Node{{Parallel: http}}}), Event{}), []string{}},
		"E1/group":            {"known evasion of the nested form", "e1_no_http", Build(withSteps(Stage{Steps: []Node{{Name: "g", Group: http}}}), Event{}), []string{}},
		"E1/rollback":         {"known evasion of the nested form", "e1_no_http", Build(withSteps(Stage{RollbackSteps: http}), Event{}), []string{}},
		"E1 flat/plain":       {"flattened steps hold the list", "e1_flat", Build(withSteps(Stage{Steps: http}), Event{}), []string{noHTTP}},
		"E1 flat/parallel":    {"flattened steps hold parallel ones", "e1_flat", Build(withSteps(Stage{Steps: []Node{{Parallel: http}}}), Event{}), []string{noHTTP}},
		"E1 flat/group":       {"flattened steps hold grouped ones", "e1_flat", Build(withSteps(Stage{Steps: []Node{{Name: "g", Group: http}}}), Event{}), []string{noHTTP}},
		"E1 flat/nested":      {"any depth", "e1_flat", Build(withSteps(Stage{Steps: []Node{{Name: "g", Group: []Node{{Parallel: []Node{{Name: "h", Group: http}}}}}}}), Event{}), []string{noHTTP}},
		"E1 flat/rollback":    {"flattened steps hold rollbackSteps", "e1_flat", Build(withSteps(Stage{RollbackSteps: http}), Event{}), []string{noHTTP}},
		"E1 flat/other stage": {"only Deployment stages matter", "e1_flat", Build(&Pipeline{Stages: []Stage{{Type: "Custom", Steps: http}}}, Event{}), []string{}},
		"E2":                  {"no deny rule: nothing is denied", "e2_values", map[string]any{"user": "alex", "tokens": 200}, []string{}},
		"E3":                  {"allow is not asked for", "e3_allow", map[string]any{"user": "bob"}, []string{}},
		"E4/developer":        {"true names the rule", "e4_delete_by_admin", map[string]any{"action": "delete", "role": "developer"}, []string{"denied by example.deny"}},
		"E4/no role":          {"an absent role is not admin", "e4_delete_by_admin", map[string]any{"action": "delete"}, []string{"denied by example.deny"}},
		"E4/admin":            {"helpers of the package do not leak into the result", "e4_delete_by_admin", map[string]any{"action": "delete", "role": "admin"}, []string{}},
		"E4/view":             {"another action", "e4_delete_by_admin", map[string]any{"action": "view"}, []string{}},
		"E5/owner":            {"in the set", "e5_code_owners", Build(nil, byUser("beth")), []string{}},
		"E5/stranger":         {"not in the set", "e5_code_owners", Build(nil, byUser("dave")), []string{"user 'dave' is not in the code owners group"}},
		"E6/last":             {"an empty set passes", "e6_last_stage_approval", Build(stages("Deployment", "Approval"), Event{}), []string{}},
		"E6/not last":         {"order matters", "e6_last_stage_approval", Build(stages("Approval", "Deployment"), Event{}), []string{"Last stage must be an approval stage"}},
		"E6/none":             {"no stage at all", "e6_last_stage_approval", Build(stages(), Event{}), []string{"Last stage must be an approval stage"}},
		"E7/followed":         {"each Deployment has its Approval", "e7_deployment_then_approval", Build(stages("Deployment", "Approval", "Deployment", "Approval"), Event{}), []string{}},
		"E7/not followed": {"each one without is named, sorted", "e7_deployment_then_approval", Build(stages("Deployment", "Deployment"), Event{}), []string{
			"deployment stage 's0' must be followed by an approval stage", "deployment stage 's1' must be followed by an approval stage",
		}},
		"E8": {"both ways of access", "e8_access", map[string]any{}, []string{"beth is too young"}},
	}
	for name, tc := range cases {
		for _, dialect := range []Dialect{DialectV0, DialectV1} {
			t.Run(string(dialect)+"/"+name, func(t *testing.T) {
				t.Parallel()
				m := load(t, "testdata/"+string(dialect)+"/"+tc.module+".rego")
				if want := dialect; m.Dialect != want && tc.module != "e2_values" {
					t.Errorf("dialect: want %s, got %s", want, m.Dialect)
				}
				got, err := m.Eval(t.Context(), tc.input)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(Result{Deny: tc.deny, Warn: []string{}}, got); diff != "" {
					t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
				}
			})
		}
	}
}

func load(t *testing.T, path string) *Module {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, path, string(raw))
}

func compile(t *testing.T, name, source string) *Module {
	t.Helper()
	m, err := Compile(t.Context(), Source{Name: name, Rego: source})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
