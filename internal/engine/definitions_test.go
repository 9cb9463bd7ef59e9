package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
)

func diagnostics(err error) []string {
	var d interface{ Diagnostics() []string }
	if errors.As(err, &d) {
		return d.Diagnostics()
	}
	return nil
}

const (
	head       = "apiVersion: davit.dev/v1alpha1\n"
	repository = head + "kind: Repository\nmetadata: {name: deploy}\nspec: {provider: local}\n"
	service    = head + "kind: Service\nmetadata: {name: checkout}\nspec: {repository: deploy, branch: main, environments: {dev: {paths: [dev]}}}\n"
	devEnv     = head + "kind: Environment\nmetadata: {name: dev}\nspec: {type: PreProduction, targets: [{name: dev, agent: dev}]}\n"
)

func change(kind, name, how string) api.DefinitionChange {
	return api.DefinitionChange{Kind: kind, Name: name, Change: how}
}

func sorted(list []api.DefinitionChange) []api.DefinitionChange {
	slices.SortFunc(list, func(a, b api.DefinitionChange) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
	return list
}

func TestApplyTellsWhatChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := map[string]string{"repo.yaml": repository, "service.yaml": service + "---\n" + devEnv}
	dry := request(files)
	dry.DryRun = true
	created := []api.DefinitionChange{change("Environment", "dev", "created"), change("Repository", "deploy", "created"), change("Service", "checkout", "created")}
	res, err := w.defs.Apply(t.Context(), ana(), dry)
	if diff := cmp.Diff(created, sorted(res.Changes)); err != nil || diff != "" {
		t.Fatalf("dry run: %v, -want +got:\n%s", err, diff)
	}
	if g := w.generation(); g != 0 || len(w.audit()) != 0 {
		t.Fatalf("a dry run stored something: generation %d, audit %v", g, w.audit())
	}
	res = w.mustApply(files)
	if diff := cmp.Diff(created, sorted(res.Changes)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "agent dev does not exist yet") {
		t.Errorf("the agent that is not there yet: got warnings %q", res.Warnings)
	}
	if diff := cmp.Diff([]string{"ana definition:apply " + spec.DefaultProject}, w.audit()); diff != "" {
		t.Errorf("audit: -want +got:\n%s", diff)
	}
	before := w.generation()
	for _, c := range w.mustApply(files).Changes {
		if c.Change != "unchanged" {
			t.Errorf("applied again %+v", c)
		}
	}
	if g := w.generation(); g != before || len(w.audit()) != 1 {
		t.Errorf("applied again the generation is %d, was %d; audit %v", g, before, w.audit())
	}
	files["service.yaml"] = strings.Replace(files["service.yaml"], "paths: [dev]", "paths: [deeper/dev]", 1)
	want := []api.DefinitionChange{change("Environment", "dev", "unchanged"), change("Repository", "deploy", "unchanged"), change("Service", "checkout", "updated")}
	if diff := cmp.Diff(want, sorted(w.mustApply(files).Changes)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestApplyShowsAllProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.apply(map[string]string{
		"a.yaml": strings.Replace(repository, "provider: local", "provider: cvs", 1),
		"b.yaml": strings.Replace(service, "branch: main", "brunch: main", 1),
		"c.yaml": devEnv,
	})
	if promo.CodeOf(err) != promo.CodeConfiguration {
		t.Fatalf("got %v", err)
	}
	all := strings.Join(diagnostics(err), "\n")
	for _, part := range []string{"a.yaml:", "cvs", "b.yaml:", "brunch"} {
		if !strings.Contains(all, part) {
			t.Errorf("the problems do not mention %q:\n%s", part, all)
		}
	}
	_, err = w.apply(map[string]string{"b.yaml": service, "c.yaml": devEnv})
	if promo.CodeOf(err) != promo.CodeConfiguration || !strings.Contains(strings.Join(diagnostics(err), "\n"), "deploy") {
		t.Errorf("a repository that is nowhere: got %v", err)
	}
	_, err = w.apply(map[string]string{"a.yaml": strings.Replace(repository, "name: deploy", "name: deploy, project: bank", 1)})
	if promo.CodeOf(err) != promo.CodeConfiguration || !strings.Contains(err.Error(), `"bank"`) {
		t.Errorf("another project's document: got %v", err)
	}
	if g := w.generation(); g != 0 {
		t.Errorf("something was stored: generation %d", g)
	}
}

// noMonday denies what is named monday, saved or deleted; frozen denies every deletion.
const guard = `package guard
import rego.v1
deny contains "no service may be called monday" if input.definition.metadata.name == "monday"
deny contains "nothing goes" if input.metadata.action == "delete"
`

func guardSet(on, policies string) string {
	return head + "kind: PolicySet\nmetadata: {name: guard}\nspec:\n  entity: service\n  on: [" + on + "]\n  policies: [" + policies + "]\n"
}

func TestPoliciesOnSave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustApply(map[string]string{
		"repo.yaml": repository, "dev.yaml": devEnv, "service.yaml": service,
		"gates/set.yaml": guardSet("save", "{module: rego/guard.rego}"), "gates/rego/guard.rego": guard,
	})
	before := w.generation()
	monday := strings.NewReplacer("name: checkout", "name: monday", "paths: [dev]", "paths: [monday]").Replace(service)
	_, err := w.apply(map[string]string{"monday.yaml": monday})
	if promo.CodeOf(err) != promo.CodePolicy || strings.Count(err.Error(), "no service may be called monday") != 1 || w.generation() != before {
		t.Errorf("got %v, generation %d, was %d", err, w.generation(), before)
	}
	err = w.defs.Delete(t.Context(), ana(), api.DefinitionRef{Project: spec.DefaultProject, Kind: "Service", Name: "checkout"})
	if promo.CodeOf(err) != promo.CodePolicy || w.generation() != before {
		t.Errorf("a deletion that a policy denies: got %v", err)
	}
	w.mustApply(map[string]string{"gates/set.yaml": guardSet("save", "{module: rego/guard.rego, action: warn}")})
	res := w.mustApply(map[string]string{"monday.yaml": monday})
	if !slices.ContainsFunc(res.Warnings, func(s string) bool { return strings.Contains(s, "monday") }) {
		t.Errorf("a warning is not passed on: %q", res.Warnings)
	}
}

func TestPolicySetsAreCompiled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := guardSet("save", "{module: guard.rego}")
	for name, files := range map[string]map[string]string{
		"a broken module":   {"gates/set.yaml": set, "gates/guard.rego": "package guard\ndeny contains"},
		"a missing module":  {"gates/set.yaml": set},
		"in another folder": {"gates/set.yaml": set, "guard.rego": guard},
	} {
		if _, err := w.apply(files); promo.CodeOf(err) != promo.CodeConfiguration || err == nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	w.mustApply(map[string]string{"gates/set.yaml": set, "gates/guard.rego": guard})
	before := w.generation()
	if _, err := w.apply(map[string]string{"gates/guard.rego": "package guard\ndeny contains"}); promo.CodeOf(err) != promo.CodeConfiguration || err == nil || w.generation() != before {
		t.Errorf("a broken module alone: got %v, generation %d, was %d", err, w.generation(), before)
	}
	// Moved with its module: the new folder's file counts from now on.
	lax := "package guard\nimport rego.v1\ndeny contains \"never\" if false\n"
	res := w.mustApply(map[string]string{"new/set.yaml": set, "new/guard.rego": lax})
	if diff := cmp.Diff([]api.DefinitionChange{change("Module", "new/guard.rego", "created"), change("PolicySet", "guard", "updated")}, sorted(res.Changes)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.mustApply(map[string]string{"repo.yaml": repository, "dev.yaml": devEnv, "s.yaml": strings.Replace(service, "name: checkout", "name: monday", 1)})
	del := func(name string) error {
		return w.defs.Delete(t.Context(), ana(), api.DefinitionRef{Project: spec.DefaultProject, Kind: catalog.KindModule, Name: name})
	}
	if err := del("new/guard.rego"); promo.CodeOf(err) != promo.CodeConflict {
		t.Errorf("a module that is in use: got %v", err)
	}
	if err := del("gates/guard.rego"); err != nil {
		t.Errorf("a module that nobody names any more: got %v", err)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustApply(map[string]string{"repo.yaml": repository, "dev.yaml": devEnv, "service.yaml": service})
	del := func(kind, name string) error {
		return w.defs.Delete(t.Context(), ana(), api.DefinitionRef{Project: spec.DefaultProject, Kind: kind, Name: name})
	}
	err := del("Repository", "deploy")
	if promo.CodeOf(err) != promo.CodeConflict || !strings.Contains(strings.Join(diagnostics(err), "\n"), "deploy") {
		t.Errorf("in use: got %v, %q", err, diagnostics(err))
	}
	if err := del("Service", "none"); promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("not there: got %v", err)
	}
	w.authz.refused = []auth.Action{auth.ConnectorAdmin}
	if err := del("Repository", "deploy"); promo.CodeOf(err) != promo.CodeAuthorization {
		t.Errorf("without the right: got %v", err)
	}
	w.authz.refused = nil
	for _, step := range [][2]string{{"Service", "checkout"}, {"Repository", "deploy"}} {
		if err := del(step[0], step[1]); err != nil {
			t.Errorf("%v: got %v", step, err)
		}
	}
	list, err := w.defs.List(t.Context(), ana(), api.DefinitionRef{Project: spec.DefaultProject})
	if err != nil || len(list) != 1 || list[0].Kind != "Environment" || list[0].UpdatedBy != "ana" {
		t.Errorf("left is %+v, %v", list, err)
	}
}

func TestAgentsAreGrantedPerProject(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason   string
		agent    *store.Agent
		warnings int
		refused  bool
	}{
		"granted":           {"to this project among others", &store.Agent{Name: "dev", Projects: []string{"bank", spec.DefaultProject}}, 0, false},
		"granted to all":    {"no list is no limit", &store.Agent{Name: "dev"}, 0, false},
		"granted to others": {"its cluster is not ours", &store.Agent{Name: "dev", Projects: []string{"bank"}}, 0, true},
		"not there yet":     {"it may be made next", nil, 1, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tc.agent != nil {
				w.fleet.agents["dev"] = *tc.agent
			}
			res, err := w.apply(map[string]string{"dev.yaml": devEnv})
			if (err != nil) != tc.refused || len(res.Warnings) != tc.warnings {
				t.Errorf("%s: got %+v, %v", tc.reason, res, err)
			}
			if tc.refused && !strings.Contains(strings.Join(diagnostics(err), "\n"), `agent "dev" was not granted`) {
				t.Errorf("the reason is not told: %v, %q", err, diagnostics(err))
			}
		})
	}
}

func TestKindsThatNeedMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.authz.refused = []auth.Action{auth.ConnectorAdmin, auth.AccessAdmin}
	role := head + "kind: Role\nmetadata: {name: ops}\nspec: {permissions: [\"promotion:*\"]}\n"
	_, err := w.apply(map[string]string{"repo.yaml": repository, "role.yaml": role, "dev.yaml": devEnv})
	if promo.CodeOf(err) != promo.CodeAuthorization || len(diagnostics(err)) != 2 || w.generation() != 0 {
		t.Fatalf("got %v, %q", err, diagnostics(err))
	}
	w.authz.refused = nil
	w.mustApply(map[string]string{"repo.yaml": repository, "role.yaml": role})
	w.authz.refused = []auth.Action{auth.ConnectorAdmin, auth.AccessAdmin}
	if _, err := w.apply(map[string]string{"repo.yaml": repository, "role.yaml": role, "dev.yaml": devEnv}); err != nil {
		t.Errorf("what stays as it is needs no right: got %v", err)
	}
	w.authz.refused = nil
	if _, err := w.apply(map[string]string{"role.yaml": strings.Replace(role, "promotion:*", "promotoin:run", 1)}); promo.CodeOf(err) != promo.CodeConfiguration || err == nil {
		t.Errorf("a permission that names nothing: got %v", err)
	}
}
