package steps_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
	"github.com/davit-cd/davit/steps/stepstest"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		d       decider
		code    promo.Code
		verdict bool
		says    string
	}{
		"Allow":  {"nothing denies", decider{PolicyDecision: steps.PolicyDecision{ID: "d"}}, "", false, "allowed by gate"},
		"Warn":   {"warnings don't deny", decider{PolicyDecision: steps.PolicyDecision{ID: "d", Warn: []string{"on a Friday"}}}, "", false, "on a Friday"},
		"Deny":   {"every reason is named", decider{PolicyDecision: steps.PolicyDecision{Deny: []string{"no tests", "no owner"}}}, promo.CodePolicy, true, "no tests; no owner"},
		"Broken": {"evaluation that errors denies", decider{err: promo.Errorf(promo.CodeSync, "division by zero")}, promo.CodePolicy, true, "could not be evaluated: division by zero"},
		"Away":   {"a store that is away is tried again", decider{err: promo.Errorf(promo.CodeConnectivity, "store")}, promo.CodeConnectivity, false, "store"},
		"NoSet":  {"a set that doesn't exist is a mistake", decider{err: promo.Errorf(promo.CodeNotFound, "no set")}, promo.CodeNotFound, false, "no set"},
		"Many":   {"messages stay short", decider{PolicyDecision: steps.PolicyDecision{Deny: strings.Fields(strings.Repeat("r ", 500))}}, promo.CodePolicy, true, "…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := stepstest.World{Ports: steps.Ports{Policy: &tc.d}}
			out, err := steps.EvaluatePolicy().Run(t.Context(), w.In("gate", `{"sets":["gate"],"input":{"a":[1]}}`))
			switch {
			case tc.verdict:
				if err != nil || out.Verdict == nil {
					t.Fatalf("%s: %v %+v", tc.reason, err, out)
				}
				failsWith(t, tc.reason, out.Verdict, tc.code, tc.says)
			case tc.code != "":
				failsWith(t, tc.reason, err, tc.code, tc.says)
			case err != nil || out.Verdict != nil || !strings.Contains(out.Message, tc.says):
				t.Errorf("%s: %v %+v", tc.reason, err, out)
			}
			want := steps.PolicyRequest{
				Project: "shop", Sets: []string{"gate"}, Event: "step", Operation: "shop/checkout/7/dev.1/gate", Run: "shop/checkout/7", Stage: "dev", Step: "gate", Target: "dev-1",
				Input: []byte(`{"a":[1]}`), By: promo.Principal{Name: "dana", Email: "dana@example.com"},
			}
			if d := cmp.Diff(want, tc.d.got); d != "" {
				t.Errorf("request: -want +got:\n%s", d)
			}
		})
	}
	if got := steps.EvaluatePolicy().Check(&steps.PolicySpec{}); len(got) != 1 || got[0].Path != "sets" {
		t.Errorf("no sets: %+v", got)
	}
}
