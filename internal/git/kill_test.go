package git_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/git"
)

// killEnv names the mirrors' directory and the repository's url for the process that is to be killed.
const killEnv = "DAVIT_TEST_KILL"

// TestKilled is both: the process that makes changes, and the one that kills it at random instants and lets it try
// again until every change is made. Each must be one commit.
func TestKilled(t *testing.T) {
	if spec := os.Getenv(killEnv); spec != "" {
		dir, url, _ := strings.Cut(spec, " ")
		victim(t, dir, url)
		return
	}
	t.Parallel()
	f := newFixture(t, git.Options{})
	dir := t.TempDir()
	const changes, kills = 12, 10
	for i := range kills + 1 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", killEnv, dir, f.URL))
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if i < kills {
			time.AfterFunc(20*time.Millisecond+rand.N(300*time.Millisecond), func() { _ = cmd.Process.Kill() })
		}
		if err := cmd.Wait(); err != nil && i == kills {
			t.Fatalf("%v\n%s", err, out.String())
		}
	}
	log := f.Git("log", "--format=%(trailers:key=Davit-Operation,valueonly)", "--all")
	for i := range changes {
		if n := strings.Count(log, fmt.Sprintf("op-%d\n", i)); n != 1 {
			t.Errorf("operation op-%d has %d commits", i, n)
		}
	}
	f.Fsck()
}

// victim makes the changes, one after the other: odd ones on branches of their own.
func victim(t *testing.T, dir, url string) {
	t.Helper()
	m, err := git.NewMirrors(dir, git.Options{LooseLimit: 10})
	for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline); {
		m, err = git.NewMirrors(dir, git.Options{LooseLimit: 10}) // the killed one may hold the lock for an instant
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Open(context.Background(), git.Remote{Name: "x", URL: url})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		req := change(fmt.Sprint("op-", i), fmt.Sprint("file-", i), "x")
		if i%2 == 1 {
			req.Branch, req.Base = fmt.Sprint("davit/b", i), "main"
		}
		mustChange(t, r, req)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
