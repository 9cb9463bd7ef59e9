package spec_test

import (
	"encoding/json"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/steps"
)

// types are the step types of the tests.
func types() []steps.Type {
	always := func(json.RawMessage) bool { return true }
	never := func(json.RawMessage) bool { return false }
	type merge struct {
		Method string `json:"method,omitempty" jsonschema:"enum=merge,enum=squash,enum=rebase"`
	}
	type sync struct {
		Prune bool `json:"prune"`
	}
	type metric struct {
		Name      string `json:"name" jsonschema:"required"`
		Connector string `json:"connector" jsonschema:"required"`
		Query     string `json:"query" jsonschema:"required"`
		FailIf    string `json:"failIf" davit:"expr=value"`
	}
	type window struct {
		Duration steps.Duration `json:"duration,omitempty"`
	}
	type verify struct {
		Window  window   `json:"window"`
		Metrics []metric `json:"metrics,omitempty"`
	}
	type policy struct {
		Sets []string `json:"sets" jsonschema:"required,minItems=1"`
	}
	type call struct {
		URL     string                `json:"url" jsonschema:"required"`
		Headers map[string]steps.Text `json:"headers,omitempty"`
	}
	return []steps.Type{
		steps.UpdateReleaseRepo(), steps.Approval(), steps.WaitForPR(), steps.Wait(), steps.Rollback(),
		{Kind: "MergePR", Scope: plan.ScopeChange, Class: plan.ClassNetwork, Mutates: always, Timeout: time.Hour, Config: func() any { return &merge{Method: "merge"} }, Outputs: map[string]string{"sha": "merge commit"}},
		{Kind: "Sync", Scope: plan.ScopeTarget, Class: plan.ClassSync, Agent: true, Mutates: always, Timeout: 10 * time.Minute, Config: func() any { return &sync{} }, Outputs: map[string]string{"revision": "synced"}},
		{Kind: "Verify", Scope: plan.ScopeTarget, Class: plan.ClassNetwork, Mutates: never, Timeout: time.Hour, Config: func() any { return &verify{} }, Outputs: map[string]string{"verdict": "pass or fail"}},
		{Kind: "Policy", Scope: plan.ScopeStage, Class: plan.ClassQuick, Mutates: never, Timeout: time.Minute, Config: func() any { return &policy{} }},
		{Kind: "Http", Scope: plan.ScopeStage, Class: plan.ClassNetwork, Mutates: never, Timeout: time.Minute, Config: func() any { return &call{} }},
	}
}
