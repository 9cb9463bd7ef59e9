package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// manySteps is a pipeline of n steps that touch nothing outside the process: what they take is the engine's.
func manySteps(n int) string {
	var b strings.Builder
	b.WriteString(definitions(1))
	b.WriteString("---\napiVersion: davit.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: steps}\nspec:\n  service: svc0\n  stages:\n")
	b.WriteString("    - name: dev\n      type: Deployment\n      environment: dev\n      steps:\n")
	for i := range n {
		fmt.Fprintf(&b, "        - {name: look%d, type: FetchLinkedApps, spec: {requireAny: false}}\n", i)
	}
	return b.String()
}

// BenchmarkStep measures what the engine adds to a step: resolving, the trip through the task queue, recording.
// Promised: median at most 30 ms.
func BenchmarkStep(b *testing.B) {
	const steps = 20
	d := up(b, binary(b), b.TempDir())
	d.call("POST", "/api/projects/default/apply", api.ApplyRequest{
		Project: "default", Files: []api.File{{Path: "bench.yaml", Content: manySteps(steps)}},
	}, nil)
	var each []time.Duration
	cpu := d.cpu()
	for range b.N {
		var p promo.Promotion
		d.call("POST", "/api/projects/default/pipelines/steps/run", api.RunRequest{Project: "default", Pipeline: "steps"}, &p)
		for _, st := range d.await(p.ID).Stages[0].Steps {
			each = append(each, st.FinishedAt.Sub(st.StartedAt))
		}
	}
	b.ReportMetric(median(each), "ms-per-step-median")
	b.ReportMetric((d.cpu()-cpu)/float64(b.N*steps)*1000, "ms-cpu/step")
	b.ReportMetric(load(b), "load")
}
