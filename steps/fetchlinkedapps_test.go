package steps_test

import (
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
	"github.com/davit-cd/davit/steps/stepstest"
)

func TestFetchLinkedApps(t *testing.T) {
	t.Parallel()
	labelled := func(name string, labels map[string]string) promo.Application {
		a := stepstest.App(name, before)
		a.Labels = labels
		return a
	}
	other := stepstest.App("elsewhere", before)
	other.Agent = "other"
	cases := map[string]struct {
		reason   string
		apps     []promo.Application
		spec     string
		selector map[string]string
		want     string // names, in order
		code     promo.Code
		says     string
	}{
		"Labels":      {reason: "the default labels, sorted by name", apps: []promo.Application{stepstest.App("b", before), stepstest.App("a", before), other, labelled("c", nil)}, want: "a b"},
		"Selector":    {reason: "the service's own selector", apps: []promo.Application{stepstest.App("b", before), labelled("c", map[string]string{"app": "checkout", steps.LabelEnvironment: "dev", steps.LabelTarget: "dev-1"}), labelled("d", map[string]string{"app": "checkout", steps.LabelEnvironment: "dev", steps.LabelTarget: "dev-2"})}, selector: map[string]string{"app": "checkout"}, want: "c"},
		"None":        {reason: "none is an error that says what was looked for", code: promo.CodeNotFound, says: "davit.dev/environment=dev,davit.dev/service=checkout,davit.dev/target=dev-1"},
		"NoneFine":    {reason: "unless none is required", spec: `{"requireAny":false}`, want: ""},
		"Names":       {reason: "by name", apps: []promo.Application{stepstest.App("b", before), stepstest.App("a", before)}, spec: `{"from":"names","names":["b","argocd/a"]}`, want: "a b"},
		"NameUnknown": {reason: "an unknown name", spec: `{"from":"names","names":["zz"]}`, code: promo.CodeNotFound, says: "zz"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := stepstest.NewEngine()
			for _, a := range tc.apps {
				e.Add(a)
			}
			w := stepstest.World{Ports: steps.Ports{Apps: e}}
			in := w.In("apps", tc.spec)
			in.Stage.Service.Selector = tc.selector
			out, err := steps.FetchLinkedApps().Run(t.Context(), in)
			if tc.code != "" {
				failsWith(t, tc.reason, err, tc.code, tc.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, part := range strings.Split(string(out.Outputs), `"name":"`)[1:] {
				got = append(got, part[:strings.IndexByte(part, '"')])
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%s: %s", tc.reason, out.Outputs)
			}
		})
	}
	check := steps.FetchLinkedApps().Check
	if len(check(&steps.FetchLinkedAppsSpec{From: "names"})) != 1 || len(check(&steps.FetchLinkedAppsSpec{From: "labels", Names: []string{"a"}})) != 1 {
		t.Error("names without from: names, or the reverse, pass")
	}
	in := (&stepstest.World{}).In("apps", "")
	in.Target = nil
	_, err := steps.FetchLinkedApps().Run(t.Context(), in)
	failsWith(t, "no target", err, promo.CodeConfiguration, "no environment")
}
