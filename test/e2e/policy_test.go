package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// guard is a policy set of the world's own; only things named after the world feel it.
func (w *world) guard(on, rego string) string {
	return "apiVersion: davit.dev/v1alpha1\nkind: PolicySet\nmetadata: {name: guard-" + on + "-" + w.name + "}\nspec:\n  entity: pipeline\n  on: [" + on +
		"]\n  policies:\n    - action: deny\n      rego: |\n        " + strings.ReplaceAll(strings.TrimSpace(rego), "\n", "\n        ") + "\n"
}

// TestPolicy refuses a save, a run and a step, with reasons; what was refused changed nothing.
func TestPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(direct, prod)
	before := w.pull()

	w.apply(w.guard("save", `package guard
import rego.v1
deny contains msg if {
	endswith(input.pipeline.name, "`+w.name+`")
	input.metadata.action == "save"
	some step in input.steps
	step.type == "Http"
	msg := sprintf("step %q calls out", [step.name])
}
deny contains "only admins delete" if {
	endswith(input.pipeline.name, "`+w.name+`")
	input.metadata.action == "delete"
	input.metadata.user.name != "nobody"
}`))
	calls := direct + "        - {name: call, type: Http, spec: {url: \"https://example.com/\"}}\n"
	w.s.refused(t, admin, http.MethodPost, "/api/projects/default/apply", w.files(calls), http.StatusForbidden, `{"deny":["step \"call\" calls out"]}`)
	var d api.Definition
	w.s.must(t, admin, http.MethodGet, "/api/projects/default/definitions/Pipeline/direct-"+w.name, nil, &d)
	if strings.Contains(d.Source, "Http") {
		t.Error("the refused pipeline was saved")
	}
	w.s.refused(t, developer, http.MethodDelete, "/api/projects/default/definitions/Pipeline/direct-"+w.name, nil, http.StatusForbidden, developer, "definition:delete")
	w.s.refused(t, admin, http.MethodDelete, "/api/projects/default/definitions/Pipeline/direct-"+w.name, nil, http.StatusForbidden, `{"deny":["only admins delete"]}`)

	w.apply(w.guard("run", `package guard
import rego.v1
deny contains "no releases of v0" if {
	endswith(input.pipeline.name, "`+w.name+`")
	startswith(input.run.inputs.version, "v0")
}`))
	w.s.refused(t, developer, http.MethodPost, "/api/projects/default/pipelines/direct-"+w.name+"/run", api.RunRequest{Inputs: map[string]any{"version": "v0.9.0"}},
		http.StatusForbidden, `{"deny":["no releases of v0"]}`)
	w.s.cli(t, "--as", developer, "run", "direct-"+w.name, "--input", "version=v0.9.0").says(t, 1, "no releases of v0")
	var list []promo.Promotion
	w.s.must(t, developer, http.MethodGet, "/api/projects/default/promotions?pipeline=direct-"+w.name, nil, &list)
	if len(list) != 0 {
		t.Errorf("a refused run is listed: %s", toJSON(list))
	}

	w.apply(strings.ReplaceAll(w.guard("step", `package guard
import rego.v1
deny contains msg if {
	input.stage.environmentType == "Production"
	msg := sprintf("%s is closed for %s", [input.stage.environment, input.release.version])
}`), "guard-step-", "closed-"))
	w.apply(strings.Replace(prod, "        - name: sign-off", "        - {name: gate, type: Policy, spec: {sets: [closed-<<.Service>>]}}\n        - name: sign-off", 1))
	p := w.ends(w.start("prod-"+w.name, "v1.1.0"), promo.PhaseFailed)
	if p.Error == nil || p.Error.Code != promo.CodePolicy || !strings.Contains(p.Error.Msg, w.env("prod")+" is closed for v1.1.0") {
		t.Errorf("want the verdict Policy: %s", describe(p))
	}
	if got := w.pull(); got != before {
		t.Errorf("main moved to %s", got)
	}
	if open := w.pulls("open"); len(open) > 0 {
		t.Errorf("pull requests left open: %s", toJSON(open))
	}
	var decisions []api.Decision
	w.s.must(t, admin, http.MethodGet, "/api/projects/default/decisions?denied=true", nil, &decisions)
	if len(decisions) < 4 {
		t.Errorf("recorded denials: %s", toJSON(decisions))
	}
	w.s.refused(t, admin, http.MethodPost, "/api/projects/default/apply", w.files(w.guard("save", "package guard\nimport rego.v1\ndeny contains x if { y }")), http.StatusUnprocessableEntity, "rego", "unsafe")
}
