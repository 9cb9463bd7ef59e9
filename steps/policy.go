package steps

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// PolicySpec is the spec of a Policy.
type PolicySpec struct {
	// Sets are the policy sets to evaluate.
	Sets []string `json:"sets" jsonschema:"required,minItems=1"`
	// Input replaces the run's own document.
	Input any `json:"input,omitempty"`
	// OnError says what an evaluation that errors becomes.
	OnError string `json:"onError,omitempty" jsonschema:"enum=deny"`
}

// EvaluatePolicy evaluates policy sets on a given input; its kind is Policy, as the port is called already.
func EvaluatePolicy() Type {
	return Type{
		Kind:    "Policy",
		Summary: "evaluates policy sets on a given input",
		Scope:   plan.ScopeStage,
		Class:   plan.ClassQuick,
		Mutates: never,
		Timeout: 2 * time.Minute, // a set is bounded to a second; the rest is the store being away
		Config:  func() any { return &PolicySpec{OnError: "deny"} },
		Check: func(cfg any) []Problem {
			if c, ok := cfg.(*PolicySpec); ok && len(c.Sets) == 0 {
				return []Problem{{Path: "sets", Msg: "no policy set is named", Hint: "a gate without policies would let everything pass"}}
			}
			return nil
		},
		Outputs: map[string]string{
			"decision": "id of the recorded decision",
			"warnings": "what the policies warn of",
		},
		Run: runPolicy,
	}
}

func runPolicy(ctx context.Context, in In) (Out, error) {
	c, err := readConfig[PolicySpec](EvaluatePolicy(), in)
	if err != nil {
		return Out{}, err
	}
	if err := need(in.Ports.Policy != nil, in, "policies"); err != nil {
		return Out{}, err
	}
	req := PolicyRequest{
		Project: in.Run.Project, Sets: c.Sets, Event: "step", Operation: in.Operation, Run: in.Run.ID, Stage: in.Stage.Name, Step: in.Stage.Step, By: in.Run.TriggeredBy,
	}
	if in.Target != nil {
		req.Target = in.Target.Name
	}
	if c.Input != nil {
		if req.Input, err = json.Marshal(c.Input); err != nil {
			return Out{}, promo.Errorf(promo.CodeConfiguration, "input of step %q: %w", in.Stage.Step, err)
		}
	}
	d, err := in.Ports.Policy.Decide(ctx, req)
	if err != nil {
		return policyTrouble(in, err)
	}
	if len(d.Deny) > 0 {
		return Out{
			Outputs: plan.Encode(map[string]any{"decision": d.ID, "warnings": d.Warn}),
			Verdict: promo.Errorf(promo.CodePolicy, "denied: %s", shortList(d.Deny)),
		}, nil
	}
	message := "allowed by " + strings.Join(c.Sets, ", ")
	if len(d.Warn) > 0 {
		message += "; warnings: " + shortList(d.Warn)
	}
	return answer(map[string]any{"decision": d.ID, "warnings": d.Warn}, "%s", message)
}

// policyTrouble denies where policies could not be evaluated, and leaves to a retry what a retry can mend.
func policyTrouble(in In, err error) (Out, error) {
	var e *promo.Error
	if !errors.As(err, &e) || e.Code.Retryable() || e.Code == promo.CodeNotFound || e.Code == promo.CodeConfiguration {
		return Out{}, err
	}
	return Out{Verdict: promo.Errorf(promo.CodePolicy, "denied, because the policies of step %q could not be evaluated: %s", in.Stage.Step, e)}, nil
}

// shortList joins reasons and keeps the message readable; the decision holds them all.
func shortList(reasons []string) string {
	const most = 20
	if len(reasons) > most {
		return strings.Join(reasons[:most], "; ") + "; …"
	}
	return strings.Join(reasons, "; ")
}
