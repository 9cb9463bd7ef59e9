package activities_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/davit-cd/davit/activities"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	vars := `{"inputs":{"version":"v1.2.3","count":3,"on":true,"list":["a","b"],"map":{"k":1}},"target":{"name":"us"},"steps":{"ask":{"outputs":{"n":5}}}}`
	both := []plan.Target{{Name: "us", Region: "us-east-1"}, {Name: "eu", Region: "eu-west-1"}}
	for name, tc := range map[string]struct {
		reason  string
		when    string
		specs   []string
		targets []plan.Target
		want    string
		skipped bool
		code    promo.Code
		message string
	}{
		"types are kept": {
			reason: "a value that is one whole expression keeps its type; inside text it becomes text",
			specs:  []string{`{"a":"${{ inputs.count }}","b":"${{ inputs.on }}","c":"${{ inputs.list }}","d":"${{ inputs.map }}","e":"n${{ inputs.count }}","f":1}`},
			want:   `{"a":3,"b":true,"c":["a","b"],"d":{"k":1},"e":"n3","f":1}`,
		},
		"when true":         {reason: "the condition holds", when: "steps.ask.outputs.n == 5", specs: []string{`{"a":1}`}, want: `{"a":1}`},
		"when false":        {reason: "the spec of a skipped step is not looked at", when: "inputs.count > 5", specs: []string{`{"a":"${{ nonsense( }}"}`}, skipped: true},
		"when is no bool":   {reason: "a condition must be true or false", when: "inputs.count", code: promo.CodeConfiguration, message: "stage prod, step x: when"},
		"unknown name":      {reason: "what is not there is an error that names the place", specs: []string{`{"a":"${{ steps.nope.outputs.x.y }}"}`}, code: promo.CodeConfiguration, message: "stage prod, step x"},
		"folded edits":      {reason: "the files of folded edits are joined in order", specs: []string{`{"title":"t","files":[{"path":"a"}]}`, `{"files":[{"path":"b"},{"path":"c"}]}`}, want: `{"files":[{"path":"a"},{"path":"b"},{"path":"c"}],"title":"t"}`},
		"one target":        {reason: "in a target's own step `target` is that target", specs: []string{`{"files":[{"path":"${{ target.name }}.yaml"}]}`}, want: `{"files":[{"path":"us.yaml"}]}`},
		"a file per target": {reason: "an entry that speaks of target becomes one per target", targets: both, specs: []string{`{"files":[{"path":"base"},{"path":"${{ target.name }}.yaml","set":{"region":"${{ target.region }}"}}]}`}, want: `{"files":[{"path":"base"},{"path":"us.yaml","set":{"region":"us-east-1"}},{"path":"eu.yaml","set":{"region":"eu-west-1"}}]}`},
		"no spec":           {reason: "a condition alone", when: "inputs.on", want: ""},
		"empty spec":        {reason: "a step without spec", specs: []string{""}, want: "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := contract.ResolveRequest{When: tc.when, Vars: json.RawMessage(vars), Targets: tc.targets, Where: "stage prod, step x"}
			for _, s := range tc.specs {
				req.Specs = append(req.Specs, json.RawMessage(s))
			}
			res, err := activities.Resolve(t.Context(), req)
			if tc.code != "" {
				if err == nil || promo.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.message) {
					t.Errorf("%s: got %v, want %s with %q", tc.reason, err, tc.code, tc.message)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if res.Run == tc.skipped || string(res.Spec) != tc.want {
				t.Errorf("%s: run %t, spec %s, want %s", tc.reason, res.Run, res.Spec, tc.want)
			}
		})
	}
}

func TestResolveKeepsVariables(t *testing.T) {
	t.Parallel()
	vars := json.RawMessage(`{"inputs":{"a":1}}`)
	before := string(vars)
	for range 2 {
		res, err := activities.Resolve(t.Context(), contract.ResolveRequest{
			Vars: vars, Specs: []json.RawMessage{json.RawMessage(`{"files":[{"p":"${{ target.name }}${{ inputs.a }}"}]}`)}, Targets: []plan.Target{{Name: "x"}, {Name: "y"}},
		})
		if err != nil || string(res.Spec) != `{"files":[{"p":"x1"},{"p":"y1"}]}` || string(vars) != before {
			t.Fatalf("got %s, %v; variables %s", res.Spec, err, vars)
		}
	}
}
