package local_test

import (
	"testing"
	"testing/fstest"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/forgetest"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/steps"
)

func TestForge(t *testing.T) {
	t.Parallel()
	forgetest.Run(t, func(t *testing.T) forgetest.World {
		t.Helper()
		w := start(t, nil)
		_, err := w.Create(t.Context(), local.CreateSpec{Name: "suite", Seed: fstest.MapFS{"app.yaml": {Data: []byte("a: 1\n"), Mode: 0o644}}, Author: ann()})
		w.ok(err)
		c := clone{t, t.TempDir()}
		c.git("clone", "-q", w.remoteOf("ann", "suite"), ".")
		c.git("config", "user.name", "ann")
		c.git("config", "user.email", "ann@example.com")
		return forgetest.World{
			Forge: w, Repository: "suite", Author: ann(), By: bob(),
			Commit: func(t *testing.T, branch, file, content string) string {
				t.Helper()
				return c.change(branch, file, content, "change "+file)
			},
			Head: func(t *testing.T, branch string) string {
				t.Helper()
				sha, err := w.Head(t.Context(), "suite", branch)
				w.ok(err)
				return sha
			},
		}
	})
}

// TestStepsSpeakTheSameWords converts between the types of steps and forge; it fails to compile when they drift apart.
func TestStepsSpeakTheSameWords(t *testing.T) {
	t.Parallel()
	pr := steps.PullRequest(forge.PullRequest{Number: 7, Checks: forge.ChecksGreen})
	spec := forge.Spec(steps.PullRequestSpec{Head: "h"})
	merge := forge.MergeSpec(steps.MergeSpec{ExpectHead: "e"})
	if pr.Number != 7 || spec.Head != "h" || merge.ExpectHead != "e" {
		t.Fatal(pr, spec, merge)
	}
}
