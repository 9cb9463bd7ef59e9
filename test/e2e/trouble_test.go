package e2e

import (
	"context"
	"database/sql"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite" // to make a data directory look newer

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// up runs `davit up` to its end, which must be an early one.
func up(t *testing.T, s *server, flags ...string) result {
	t.Helper()
	return s.cli(t, append([]string{"up"}, flags...)...)
}

// TestStartRefused starts servers that can't start: each says why and what would help, and harms nothing.
func TestStartRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	data := filepath.Join(s.dir, "data")
	up(t, s, "--listen", "127.0.0.1:"+s.port, "--data-dir", t.TempDir()).says(t, 2, s.port, "in use", "--listen")
	up(t, s, "--listen", "127.0.0.1:0", "--data-dir", data).says(t, 2, data, "in use by process", "--data-dir")
	up(t, s, "--listen", "0.0.0.0:0", "--data-dir", t.TempDir()).says(t, 2, "demo users", "127.0.0.1", "--users")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	up(t, s, "--listen", "127.0.0.1:0", "--data-dir", file).says(t, 2, file)

	w := newWorld(t, s)
	w.apply(direct)
	s.kill(syscall.SIGTERM)
	db, err := sql.Open("sqlite", filepath.Join(data, "davit.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)"); err != nil {
		t.Fatal(err)
	}
	up(t, s, "--listen", "127.0.0.1:0", "--data-dir", data).says(t, 2, "newer")
	if _, err := db.ExecContext(t.Context(), "DELETE FROM goose_db_version WHERE version_id = 99999"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if err := s.ready(); err != nil {
		t.Fatal(err)
	}
	w.ends(w.start("direct-"+w.name, "v1.1.0"), promo.PhaseSucceeded)
}

// TestDiskFull runs a server under a file size limit: the store can't grow, the run is refused with a clear word,
// and after a restart with room everything that was acknowledged is there.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("prlimit limits the size of files; it is not here")
	}
	s := newServer(t)
	w := newWorld(t, s)
	w.apply(direct)
	w.ends(w.start("direct-"+w.name, "v1.1.0"), promo.PhaseSucceeded)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.mu.Lock()
	pid := strconv.Itoa(s.cmd.Process.Pid)
	s.mu.Unlock()
	if out, err := exec.CommandContext(ctx, "prlimit", "--pid", pid, "--fsize=4096").CombinedOutput(); err != nil {
		t.Fatalf("prlimit: %v: %s", err, out)
	}
	a, err := s.call(developer, http.MethodPost, "/api/projects/default/pipelines/direct-"+w.name+"/run", api.RunRequest{Inputs: map[string]any{"version": "v1.2.0"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != http.StatusInsufficientStorage || !strings.Contains(a.Body, "no space left for the store") || !strings.Contains(a.Body, "free space") {
		t.Errorf("want a refusal that says what is full, got %+v", a)
	}
	s.kill(syscall.SIGKILL)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if err := s.ready(); err != nil {
		t.Fatal(err)
	}
	w.ends(w.start("direct-"+w.name, "v1.3.0"), promo.PhaseSucceeded)
	w.ends("default/direct-"+w.name+"/1", promo.PhaseSucceeded)
}

// edit is the pipeline direct with another edit than that of the image.
func edit(files string) string {
	a := strings.Index(direct, "            files:\n")
	b := strings.Index(direct, "        - {name: sync")
	return direct[:a] + "            files: [" + files + "]\n" + direct[b:]
}

// TestBadChanges makes changes that can't be made; each message says what is wrong and where.
func TestBadChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	root := "services/" + w.name + "/dev/"
	w.pull()
	w.write(root+"binary.yaml", "a: \x00\x01\n")
	w.write(root+"huge.yaml", "a: 1\n"+strings.Repeat("# padding, padding and padding\n", 6<<20/31))
	if err := os.Symlink("../base/deployment.yaml", filepath.Join(w.clone, root, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	before := w.push("traps")
	for name, tc := range map[string]struct {
		files string
		words []string
	}{
		"MissingFile": {`{path: dev/nowhere.yaml, set: {a: "${{ inputs.version }}"}}`, []string{"nowhere.yaml"}},
		"OtherKind":   {`{path: dev/values.yaml, set: {release: "${{ inputs.version }}"}}`, []string{"values.yaml: line 3, column 3", `"release" is a map`}},
		"Symlink":     {`{path: dev/link.yaml, set: {a: "${{ inputs.version }}"}}`, []string{"link.yaml", "symbolic link"}},
		"Binary":      {`{path: dev/binary.yaml, set: {a: "${{ inputs.version }}"}}`, []string{"binary.yaml"}},
		"Huge":        {`{path: dev/huge.yaml, set: {a: "${{ inputs.version }}"}}`, []string{"huge.yaml", "5"}},
		"NotOwned":    {`{path: "${{ inputs.version }}/values.yaml", set: {a: b}}`, []string{"prod/us/values.yaml"}},
		"Outside":     {`{path: "../${{ inputs.version }}/values.yaml", set: {a: b}}`, []string{".."}},
	} {
		t.Run(name, func(t *testing.T) {
			src := strings.ReplaceAll(edit(tc.files), "direct-<<.Service>>", strings.ToLower(name)+"-<<.Service>>")
			version := "v1.1.0"
			if name == "NotOwned" || name == "Outside" {
				version = "prod/us"
			}
			a, err := w.s.call(admin, http.MethodPost, "/api/projects/default/apply", w.files(src), nil)
			if err != nil {
				t.Fatal(err)
			}
			said := a.Body
			if a.Status == http.StatusOK {
				p := w.ends(w.start(strings.ToLower(name)+"-"+w.name, version), promo.PhaseFailed)
				if p.Error == nil || p.Error.Code != promo.CodeConfiguration {
					t.Errorf("want a Configuration error: %s", describe(p))
				}
				said = describe(p)
			}
			t.Log(said)
			for _, word := range tc.words {
				if !strings.Contains(said, word) {
					t.Errorf("want %q in: %s", word, said)
				}
			}
		})
	}
	if got := w.pull(); got != before {
		t.Errorf("main moved to %s", got)
	}
}

// TestConflict changes the same line between the pull request and its merge: the change is made anew.
func TestConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(prod)
	id := w.start("prod-"+w.name, "v1.1.0")
	w.waits(id)
	w.pull()
	for _, target := range []string{"us", "eu"} {
		name := "services/" + w.name + "/prod/" + target + "/values.yaml"
		w.write(name, "# values of "+w.name+"\nrelease:\n  version: v1.0.5 # by hand\nlimit: 20\n")
	}
	w.push("by hand")
	w.approve(manager, id)
	p := w.reach(id, "has ended or asks again", func(p promo.Promotion) bool {
		return p.Phase.Final() || len(step(p, "prod", "sign-off").Approval.Decisions) > 0 && p.Phase == promo.PhaseWaitingForApproval
	})
	for n := 0; !p.Phase.Final() && n < 3; n++ { // the digest is another: people are asked about what it is now
		w.approve(manager, id)
		p = w.reach(id, "goes on", func(p promo.Promotion) bool {
			a := step(p, "prod", "sign-off").Approval
			return p.Phase.Final() || p.Phase == promo.PhaseWaitingForApproval && a.Decisions[len(a.Decisions)-1].Void != ""
		})
	}
	if p.Phase != promo.PhaseSucceeded {
		t.Fatalf("want it redone and merged: %s", describe(p))
	}
	w.pull()
	b, err := os.ReadFile(filepath.Join(w.clone, "services", w.name, "prod/us/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b); !strings.Contains(got, "version: v1.1.0") || !strings.Contains(got, "limit: 20") {
		t.Errorf("values after the merge:\n%s", got)
	}
}

// TestMergeWaitsForReview merges into a protected branch: the step waits and says what is missing.
func TestMergeWaitsForReview(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(prod)
	w.s.must(t, admin, http.MethodPut, "/api/repositories/"+w.name+"/branches/main/protection", api.ProtectRequest{Protected: true, RequiredReviews: 1}, nil)
	id := w.start("prod-"+w.name, "v1.1.0")
	w.waits(id)
	w.approve(manager, id)
	p := w.reach(id, "says that a review is missing", func(p promo.Promotion) bool {
		if p.Phase.Final() {
			t.Fatalf("ended: %s", describe(p))
		}
		return strings.Contains(step(p, "prod", "merge").Message, "required approvals")
	})
	t.Log(step(p, "prod", "merge").Message)
	for _, pr := range w.pulls("open") {
		w.s.must(t, manager, http.MethodPost, "/api/pull-requests/"+w.name+"/"+strconv.Itoa(pr.Number)+"/review", api.ReviewRequest{State: "approved", Head: pr.HeadSHA}, nil)
	}
	w.ends(id, promo.PhaseSucceeded)
}
