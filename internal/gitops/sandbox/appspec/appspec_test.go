package appspec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/gitops/sandbox/appspec"
	"github.com/davit-cd/davit/internal/promo"
)

const full = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: checkout-prod
  namespace: gitops
  labels: {davit.dev/service: checkout}
  annotations: {davit.dev/promote: shop/checkout/prod}
spec:
  project: shop
  source: {repoURL: "https://example.com/deploy.git", path: overlays/prod, targetRevision: main, directory: {recurse: true}}
  destination: {server: "https://kubernetes.default.svc", namespace: checkout}
  revisionHistoryLimit: 3
  syncPolicy:
    automated: {prune: true, selfHeal: true}
    syncOptions: [CreateNamespace=true, PrunePropagationPolicy=foreground, ServerSideApply=true]
    retry: {limit: 2, backoff: {duration: 1s, factor: 3, maxDuration: 1m}}
`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := appspec.Parse([]byte(full + "---\n---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: b}\nspec: {source: {repoURL: r, path: .}, syncPolicy: {automated: {}, retry: {}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []appspec.Application{{
		Name: "checkout-prod", Namespace: "gitops", Project: "shop", HistoryLimit: 3,
		Labels: map[string]string{"davit.dev/service": "checkout"}, Annotations: map[string]string{"davit.dev/promote": "shop/checkout/prod"},
		Source:      appspec.Source{RepoURL: "https://example.com/deploy.git", Path: "overlays/prod", TargetRevision: "main", Recurse: true},
		Destination: appspec.Destination{Server: "https://kubernetes.default.svc", Namespace: "checkout", Line: 11},
		SyncPolicy: appspec.SyncPolicy{
			Automated: true, Prune: true, SelfHeal: true, CreateNamespace: true,
			Retry: appspec.Retry{Limit: 2, Wait: time.Second, Factor: 3, Max: time.Minute},
		},
	}, {
		Name: "b", Namespace: "argocd", Project: "default", HistoryLimit: 10,
		Source:     appspec.Source{RepoURL: "r", Path: ".", TargetRevision: "HEAD"},
		SyncPolicy: appspec.SyncPolicy{Automated: true, Retry: appspec.Retry{Limit: 5, Wait: 5 * time.Second, Factor: 2, Max: 3 * time.Minute}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ old, text, want string }{
		"helm":             {"directory: {recurse: true}", "helm: {}", "line 10: spec.source.helm is not supported"},
		"kustomize":        {"directory: {recurse: true}", "kustomize: {}", "line 10: spec.source.kustomize is not supported"},
		"several sources":  {"  project: shop", "  sources: []", "line 9: spec.sources is not supported"},
		"finalizers":       {"  namespace: gitops", "  finalizers: []", "line 5: metadata.finalizers is not supported"},
		"status":           {"kind: Application", "kind: Application\nstatus: {}", "line 3: status is not supported"},
		"other kind":       {"kind: Application", "kind: ApplicationSet", "line 2: kind is \"ApplicationSet\""},
		"other version":    {"v1alpha1", "v1", "line 1: apiVersion is \"argoproj.io/v1\""},
		"option":           {"ServerSideApply=true", "RespectIgnoreDifferences=true", "line 15: spec.syncPolicy.syncOptions[2]"},
		"boolean":          {"prune: true", "prune: 1", "line 14: spec.syncPolicy.automated.prune must be true or false"},
		"allowEmpty":       {"prune: true", "allowEmpty: true", "line 14: spec.syncPolicy.automated.allowEmpty is not supported"},
		"bad duration":     {"duration: 1s", "duration: soon", "line 16: spec.syncPolicy.retry.backoff.duration is \"soon\""},
		"negative limit":   {"limit: 2", "limit: -1", "line 16: spec.syncPolicy.retry.limit must be a number"},
		"name":             {"name: checkout-prod", "name: ../x", "metadata.name is \"../x\""},
		"no repository":    {`repoURL: "https://example.com/deploy.git", `, "", "spec.source.repoURL is missing"},
		"twice":            {"  project: shop", "  project: shop\n  project: b", "line 10: spec.project is given twice"},
		"mapping expected": {"{server: \"https://kubernetes.default.svc\", namespace: checkout}", "here", "spec.destination must be a mapping"},
		"no yaml":          {"spec:", "spec: [", "yaml"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(full, tc.old, tc.text, 1)
			if text == full {
				t.Fatalf("%q is not in the manifest", tc.old)
			}
			_, err := appspec.Parse([]byte(text))
			if err == nil || promo.CodeOf(err) != promo.CodeConfiguration || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("a: &a [*a]\n---\n? [x]\n: y\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		apps, err := appspec.Parse(data)
		if err != nil && promo.CodeOf(err) != promo.CodeConfiguration {
			t.Errorf("got %v", err)
		}
		for _, a := range apps {
			if a.Name == "" || a.Source.RepoURL == "" {
				t.Errorf("accepted %+v", a)
			}
		}
	})
}

func TestParseReportsEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := appspec.Parse([]byte(strings.NewReplacer("project: shop", "info: []", "prune: true", "prune: maybe").Replace(full)))
	if err == nil || !strings.Contains(err.Error(), "spec.info") || !strings.Contains(err.Error(), "automated.prune") {
		t.Errorf("got %v, want both problems", err)
	}
}
