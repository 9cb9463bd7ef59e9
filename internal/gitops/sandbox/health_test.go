package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

func TestHealthOfKinds(t *testing.T) {
	t.Parallel()
	job := func(more string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  " + more +
			"\n  template: {metadata: {annotations: {}}, spec: {containers: [{name: a, image: i}]}}\n"
	}
	cases := map[string]struct {
		manifest string
		after    time.Duration
		health   promo.Health
		message  string
	}{
		"config has no health":       {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", time.Second, promo.HealthHealthy, ""},
		"custom kinds have none":     {"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: c}\n", time.Second, promo.HealthHealthy, ""},
		"paused":                     {strings.Replace(workload("Deployment", "1", 1, ""), "spec:\n", "spec:\n  paused: true\n", 1), 5 * time.Second, promo.HealthSuspended, "Deployment is paused"},
		"suspended CronJob":          {"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {suspend: true}\n", time.Second, promo.HealthSuspended, "CronJob is suspended"},
		"job runs":                   {job("backoffLimit: 0"), time.Second, promo.HealthProgressing, "Job shop/j"},
		"job is done":                {job("backoffLimit: 0"), 3 * time.Second, promo.HealthHealthy, ""},
		"job fails":                  {strings.Replace(job("backoffLimit: 0"), "annotations: {}", "annotations: {davit.dev/sandbox-fail: crashloop}", 1), 10 * time.Second, promo.HealthDegraded, "Job has reached the specified backoff limit"},
		"daemon set":                 {workload("DaemonSet", "1", 3, ""), time.Second, promo.HealthProgressing, `Waiting for daemon set "checkout" rollout to finish: 1 of 3 updated pods are available...`},
		"stateful set":               {workload("StatefulSet", "1", 3, ""), 5 * time.Second, promo.HealthHealthy, ""},
		"no replicas":                {workload("Deployment", "1", 0, ""), time.Second, promo.HealthHealthy, ""},
		"annotation of the workload": {strings.Replace(workload("Deployment", "1", 1, ""), "name: checkout}", "name: checkout, annotations: {davit.dev/sandbox-fail: hang}}", 1), 10 * time.Second, promo.HealthDegraded, "exceeded its progress deadline"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.commit(map[string]string{"app/o.yaml": tc.manifest})
			ref := w.declare("app", "")
			w.sync(ref, "a", "", promo.SyncOptions{})
			w.advance(tc.after)
			a := w.get(ref)
			if a.Sync != promo.SyncSynced || a.Health != tc.health || !strings.Contains(a.HealthMessage, tc.message) {
				t.Errorf("got %s, %q", brief(a), a.HealthMessage)
			}
		})
	}
}

func TestAggregate(t *testing.T) {
	t.Parallel()
	r := func(kind string, h promo.Health) promo.Resource {
		group := ""
		if kind == "Deployment" {
			group = "apps"
		}
		return promo.Resource{Group: group, Kind: kind, Name: "x", Health: h}
	}
	cases := map[string]struct {
		in   []promo.Resource
		want promo.Health
	}{
		"nothing":                      {nil, promo.HealthHealthy},
		"no health counts as healthy":  {[]promo.Resource{r("ConfigMap", "")}, promo.HealthHealthy},
		"the worst":                    {[]promo.Resource{r("Deployment", promo.HealthProgressing), r("Deployment", promo.HealthDegraded)}, promo.HealthDegraded},
		"suspended is not so bad":      {[]promo.Resource{r("Deployment", promo.HealthProgressing), r("Deployment", promo.HealthSuspended)}, promo.HealthProgressing},
		"missing without a check":      {[]promo.Resource{r("ConfigMap", promo.HealthMissing), r("Service", promo.HealthHealthy)}, promo.HealthHealthy},
		"missing with a check":         {[]promo.Resource{r("Deployment", promo.HealthMissing), r("Service", promo.HealthHealthy)}, promo.HealthMissing},
		"all missing, none has checks": {[]promo.Resource{r("ConfigMap", promo.HealthMissing)}, promo.HealthMissing},
		"unknown is the worst":         {[]promo.Resource{r("Deployment", promo.HealthDegraded), r("Deployment", promo.HealthUnknown)}, promo.HealthUnknown},
	}
	for name, tc := range cases {
		if got, _ := aggregate(tc.in); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
	many := make([]promo.Resource, 8)
	for i := range many {
		many[i] = r("Deployment", promo.HealthDegraded)
	}
	if _, message := aggregate(many); !strings.HasSuffix(message, "; and 3 more") {
		t.Errorf("got %q", message)
	}
}
