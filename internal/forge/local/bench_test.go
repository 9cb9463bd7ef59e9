package local_test

import (
	"fmt"
	"testing"

	"github.com/davit-cd/davit/internal/forge"
)

// BenchmarkPullRequest measures one change's way: push (by the git program), open, merge.
func BenchmarkPullRequest(b *testing.B) {
	w := start(b, nil)
	c := w.clone("ann")
	for i := 0; b.Loop(); i++ {
		branch := fmt.Sprint("b", i)
		c.git("switch", "-q", "-c", branch)
		c.git("commit", "-q", "--allow-empty", "-m", branch)
		c.git("push", "-q", "origin", "HEAD")
		pr := w.propose(branch)
		if _, err := w.merge(forge.MergeSpec{Number: pr.Number, ExpectHead: pr.HeadSHA, DeleteBranch: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPush measures git push alone, for the share of the forge in it.
func BenchmarkPush(b *testing.B) {
	w := start(b, nil)
	c := w.clone("ann")
	for b.Loop() {
		b.StopTimer()
		c.git("commit", "-q", "--allow-empty", "-m", "x")
		b.StartTimer()
		c.git("push", "-q", "origin", "HEAD:main")
	}
}

// BenchmarkGet measures what a waiting step asks again and again.
func BenchmarkGet(b *testing.B) {
	w := start(b, nil)
	w.clone("ann").change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	for b.Loop() {
		if _, err := w.Get(b.Context(), "deploy", pr.Number); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPushWithManyOpen measures a push to the base of 50 open pull requests.
func BenchmarkPushWithManyOpen(b *testing.B) {
	w := start(b, nil)
	c := w.clone("ann")
	for i := range 50 {
		branch := fmt.Sprint("b", i)
		c.git("branch", branch, "origin/main")
		c.git("switch", "-q", branch)
		c.git("commit", "-q", "--allow-empty", "-m", branch)
	}
	c.git("push", "-q", "origin", "--all")
	for i := range 50 {
		w.propose(fmt.Sprint("b", i))
	}
	c.git("switch", "-q", "main")
	for b.Loop() {
		b.StopTimer()
		c.git("commit", "-q", "--allow-empty", "-m", "x")
		b.StartTimer()
		c.git("push", "-q", "origin", "HEAD:main")
	}
}
