package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
)

// environments are those of one release; the monorepo has files for each.
func environments() []string { return []string{"dev", "qa", "staging"} }

// definitions declares services 0..n-1 of the monorepo, each with a pipeline that pushes through three environments.
func definitions(n int) string {
	var b strings.Builder
	b.WriteString("apiVersion: davit.dev/v1alpha1\nkind: Repository\nmetadata: {name: bench}\nspec: {provider: local}\n")
	for _, e := range environments() {
		fmt.Fprintf(&b, "---\napiVersion: davit.dev/v1alpha1\nkind: Environment\nmetadata: {name: %s}\nspec: {type: PreProduction, targets: [{name: %s, agent: %s}]}\n", e, e, e)
	}
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: davit.dev/v1alpha1\nkind: Service\nmetadata: {name: svc%d}\nspec:\n  repository: bench\n  path: services/svc%d\n  environments:\n", i, i)
		for _, e := range environments() {
			fmt.Fprintf(&b, "    %s: {paths: [%s]}\n", e, e)
		}
		fmt.Fprintf(&b, "---\napiVersion: davit.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: svc%d}\nspec:\n  service: svc%d\n  inputs: {version: {type: string, required: true}}\n  stages:\n", i, i)
		for _, e := range environments() {
			fmt.Fprintf(&b, `    - name: %s
      type: Deployment
      environment: %s
      steps:
        - {name: update, type: UpdateReleaseRepo, spec: {delivery: push, files: [{path: %s/file1.yaml, set: {image: "registry.example.com/acme/svc%d:${{ inputs.version }}"}}]}}
`, e, e, e, i)
		}
	}
	return b.String()
}

// prepareData makes a data directory whose local forge holds the monorepo. The forge takes the directory as it is.
func prepareData(tb testing.TB, files, commits int) (dir, repo string) {
	tb.Helper()
	r := gitserver.New(tb).Repo("bench")
	r.Monorepo(files, commits)
	r.Config("core.logAllRefUpdates", "true") // moves reads it
	dir = tb.TempDir()
	repo = filepath.Join(dir, "forge", "bench.git")
	if err := os.MkdirAll(filepath.Dir(repo), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(r.Dir, repo); err != nil {
		tb.Fatal(err)
	}
	return dir, repo
}

// moves counts how often the branch main was moved since logs are kept.
func moves(tb testing.TB, repo string) int {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join(repo, "logs", "refs", "heads", "main"))
	if err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
	return strings.Count(string(raw), "\n")
}

func (d *davit) run(service int, version string) promo.Promotion {
	d.tb.Helper()
	name := fmt.Sprintf("svc%d", service)
	var p promo.Promotion
	d.call("POST", "/api/projects/default/pipelines/"+name+"/run",
		api.RunRequest{Project: "default", Pipeline: name, Inputs: map[string]any{"version": version}}, &p)
	return p
}

// await polls a promotion until it has ended.
func (d *davit) await(id string) promo.Promotion {
	d.tb.Helper()
	for {
		var p promo.Promotion
		project, rest, _ := strings.Cut(id, "/")
		d.call("GET", "/api/projects/"+project+"/promotions/"+rest, nil, &p)
		if p.Phase.Final() {
			if p.Phase != promo.PhaseSucceeded {
				d.tb.Fatalf("%s ended %s: %s", id, p.Phase, p.Message)
			}
			return p
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// BenchmarkRelease measures one release through three environments by direct push, from the request to the commit of
// the third on the Git server, with everything that `davit up` has on. Promised: 0.6 s on 500 files, 1 s on 50,000.
func BenchmarkRelease(b *testing.B) {
	files, commits := sizes(b)
	program := binary(b)
	for _, n := range files {
		dir, repo := prepareData(b, n, commits)
		d := up(b, program, dir)
		d.call("POST", "/api/projects/default/apply", api.ApplyRequest{
			Project: "default", Files: []api.File{{Path: "bench.yaml", Content: definitions(1)}},
		}, nil)
		d.await(d.run(0, "warm").ID)
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			cpu := d.cpu()
			var times, overhead []time.Duration
			for i := range b.N {
				before := moves(b, repo)
				start := time.Now()
				p := d.run(0, fmt.Sprint("v", i, "-", start.UnixNano()))
				for end := start.Add(time.Minute); moves(b, repo) < before+len(environments()); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						b.Fatalf("%s: three commits have not come", p.ID)
					}
				}
				times = append(times, time.Since(start))
				overhead = append(overhead, gaps(d.await(p.ID))...)
			}
			b.ReportMetric(median(times), "ms-median")
			b.ReportMetric(median(overhead), "ms-between-stages")
			b.ReportMetric((d.cpu()-cpu)/float64(b.N)*1000, "ms-cpu/op")
			b.ReportMetric(d.resident(), "MB-resident")
			b.ReportMetric(load(b), "load")
		})
		d.stop()
	}
}

// gaps are the times between the end of one stage and the start of the next.
func gaps(p promo.Promotion) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(p.Stages); i++ {
		out = append(out, p.Stages[i].StartedAt.Sub(p.Stages[i-1].FinishedAt))
	}
	return out
}

// BenchmarkFifty promotes 50 services of one monorepo at once through three environments. Promised: all done within
// 15 s on two cores.
func BenchmarkFifty(b *testing.B) {
	const services = 50
	files, commits := sizes(b)
	program := binary(b)
	for _, n := range files {
		n = max(n, services*20)
		dir, repo := prepareData(b, n, commits)
		d := up(b, program, dir)
		d.call("POST", "/api/projects/default/apply", api.ApplyRequest{
			Project: "default", Files: []api.File{{Path: "bench.yaml", Content: definitions(services)}},
		}, nil)
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			cpu := d.cpu()
			var times []time.Duration
			for i := range b.N {
				start := time.Now()
				var ids []string
				for s := range services {
					ids = append(ids, d.run(s, fmt.Sprint("v", i, "-", start.UnixNano())).ID)
				}
				for _, id := range ids {
					d.await(id)
				}
				times = append(times, time.Since(start))
			}
			b.ReportMetric(median(times), "ms-median")
			b.ReportMetric((d.cpu()-cpu)/float64(b.N), "s-cpu/op")
			b.ReportMetric(float64(moves(b, repo))/float64(b.N), "pushes/op")
			b.ReportMetric(d.resident(), "MB-resident")
			b.ReportMetric(load(b), "load")
		})
		d.stop()
	}
}

// BenchmarkStart measures a first start on an empty directory, a second one on the same, and the memory some seconds
// later. Promised: ready within 5 s, at most 400 MB idle.
func BenchmarkStart(b *testing.B) {
	program := binary(b)
	var first, second []time.Duration
	var memory float64
	for range b.N {
		dir := b.TempDir()
		d := up(b, program, dir)
		first = append(first, d.ready)
		d.stop()
		d = up(b, program, dir)
		second = append(second, d.ready)
		time.Sleep(10 * time.Second) // idle is what is left when the start has settled
		memory = max(memory, d.resident())
		d.stop()
	}
	b.ReportMetric(median(first), "ms-first-start")
	b.ReportMetric(median(second), "ms-second-start")
	b.ReportMetric(memory, "MB-idle-max")
	b.ReportMetric(load(b), "load")
}
