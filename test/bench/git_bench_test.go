// Package bench measures what the project promises about speed. It runs with `go test -bench`; sizes come from
// the environment, so that a quick run stays quick. Start reading at BenchmarkGitChange.
package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
)

// sizes are the repositories that are measured: DAVIT_BENCH_FILES="500 50000" and DAVIT_BENCH_COMMITS="3000".
func sizes(b *testing.B) (files []int, commits int) {
	b.Helper()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	commits = number(env("DAVIT_BENCH_COMMITS", "300"))
	for f := range strings.FieldsSeq(env("DAVIT_BENCH_FILES", "500 5000")) {
		files = append(files, number(f))
	}
	return files, commits
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// measure reports median, load and CPU seconds (children included) beside the mean that the framework reports.
func measure(b *testing.B, once func(i int)) {
	b.Helper()
	var times []time.Duration
	cpu := cpuSeconds()
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		once(i)
		times = append(times, time.Since(start))
	}
	b.StopTimer()
	b.ReportMetric(median(times), "ms-median")
	b.ReportMetric((cpuSeconds()-cpu)/float64(b.N)*1000, "ms-cpu/op")
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		b.Fatal(err)
	}
	one, err := strconv.ParseFloat(strings.Fields(string(load))[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(one, "load")
}

func cpuSeconds() float64 {
	var sum float64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		}
	}
	return sum
}

// monorepo makes a repository of a size once per benchmark function.
func monorepo(b *testing.B, files, commits int) (*gitserver.Server, *gitserver.Repo) {
	b.Helper()
	s := gitserver.New(b)
	r := s.Repo("deploy")
	r.Monorepo(files, commits)
	return s, r
}

func open(b *testing.B, r *gitserver.Repo) *git.Repo {
	b.Helper()
	m, err := git.NewMirrors(b.TempDir(), git.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	repo, err := m.Open(b.Context(), git.Remote{Name: "deploy", URL: r.URL})
	if err != nil {
		b.Fatal(err)
	}
	return repo
}

func setImage(op string, service int) git.ChangeRequest {
	path := fmt.Sprintf("services/svc%d/dev/file1.yaml", service)
	return git.ChangeRequest{
		Operation: op, Branch: "main", Message: "new image", Author: promo.Principal{Name: "bench"},
		Edit: func(_ context.Context, t *git.Tree) error {
			data, err := t.Read(path)
			if err != nil {
				return err
			}
			lines := strings.Split(string(data), "\n")
			for i, l := range lines {
				if strings.HasPrefix(l, "image: ") {
					lines[i] = "image: registry.example.com/acme/svc:" + op
				}
			}
			return t.Write(path, []byte(strings.Join(lines, "\n")))
		},
	}
}

// BenchmarkGitChange compares one change of one value, push included, with `git push` of a commit that is prepared
// already. The two take turns, so that both see the same load and the same server; each has a branch of its own.
// Promised: davit/git at most 2 on 50,000 files. The server's own part of a push grows with the repository (its
// connectivity check reads every tree), and both pay it.
func BenchmarkGitChange(b *testing.B) {
	files, commits := sizes(b)
	for _, n := range files {
		server, r := monorepo(b, n, commits)
		clone := b.TempDir()
		server.Git("", "clone", "--quiet", "--bare", r.URL, clone)
		repo := open(b, r)
		if _, err := repo.Change(b.Context(), setImage("warm", 0)); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			parent := r.Head("main")
			server.Git(clone, "fetch", "--quiet", "origin", "main")
			r.Git("update-ref", "refs/heads/git", parent)
			r.Git("repack", "-adq")
			r.Git("pack-refs", "--all")
			prepared := make([]string, b.N)
			for i := range prepared {
				parent = prepare(b, server, clone, parent, fmt.Sprint(i, time.Now().UnixNano()))
				prepared[i] = parent
			}
			var pushes, changes []time.Duration
			measure(b, func(i int) {
				start := time.Now()
				server.Git(clone, "push", "--quiet", "origin", prepared[i]+":refs/heads/git")
				between := time.Now()
				if _, err := repo.Change(b.Context(), setImage(fmt.Sprint("op-", i, "-", start.UnixNano()), i%(n/20))); err != nil {
					b.Fatal(err)
				}
				pushes, changes = append(pushes, between.Sub(start)), append(changes, time.Since(between))
			})
			push, change := median(pushes), median(changes)
			b.ReportMetric(push, "ms-git-push")
			b.ReportMetric(change, "ms-davit")
			b.ReportMetric(change/push, "davit/git")
		})
	}
}

// median is in milliseconds.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Microseconds()) / 1000
}

// prepare makes a commit that changes one value, in the clone's object database.
func prepare(b *testing.B, s *gitserver.Server, clone, parent, value string) string {
	b.Helper()
	s.Git(clone, "read-tree", parent)
	file := clone + "/bench-value"
	if err := os.WriteFile(file, []byte("image: "+value+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	blob := strings.TrimSpace(s.Git(clone, "hash-object", "-w", file))
	s.Git(clone, "update-index", "--add", "--cacheinfo", "100644,"+blob+",services/svc1/dev/file1.yaml")
	tree := strings.TrimSpace(s.Git(clone, "write-tree"))
	return strings.TrimSpace(s.Git(clone, "commit-tree", "-p", parent, "-m", "prepared", tree))
}

// BenchmarkGitFirstContact measures a change by a process that has no mirror yet.
func BenchmarkGitFirstContact(b *testing.B) {
	files, commits := sizes(b)
	for _, n := range files {
		_, r := monorepo(b, n, commits)
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			measure(b, func(i int) {
				repo := open(b, r)
				if _, err := repo.Change(b.Context(), setImage(fmt.Sprint("first-", i, "-", time.Now().UnixNano()), 1)); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkGitFifty lands 50 changes that are asked for at once on one branch.
func BenchmarkGitFifty(b *testing.B) {
	files, commits := sizes(b)
	for _, n := range files {
		server, r := monorepo(b, n, commits)
		repo := open(b, r)
		if _, err := repo.Change(b.Context(), setImage("warm", 0)); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			before := server.Requests.Load()
			measure(b, func(i int) {
				var wg sync.WaitGroup
				for k := range 50 {
					wg.Go(func() {
						op := fmt.Sprint("fifty-", i, "-", k, "-", time.Now().UnixNano())
						if _, err := repo.Change(b.Context(), setImage(op, k%(n/20))); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			})
			b.ReportMetric(float64(server.Requests.Load()-before)/float64(b.N), "requests/op")
		})
	}
}
