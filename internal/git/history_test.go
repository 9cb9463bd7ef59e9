package git_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
)

func TestRelation(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, f *fixture, r *git.Repo) {
		wanted := f.Head("main")
		dev, prod := "services/checkout/dev", "services/checkout/prod"
		var last string
		for i := range 5 {
			last = f.Commit("main", fmt.Sprint("elsewhere ", i), gitserver.Text(map[string]string{"other": fmt.Sprint(i)}))
		}
		culprit := f.Commit("main", "hot fix", gitserver.Text(map[string]string{dev + "/values.yaml": "image: hot\n"}))
		f.Commit("main", "again", gitserver.Text(map[string]string{dev + "/values.yaml": "image: hotter\n"}))
		got := f.Commit("main", "after", gitserver.Text(map[string]string{"other": "z"}))
		f.Git("branch", "side", wanted)
		side := f.Commit("side", "side", gitserver.Text(map[string]string{"side": "1"}))
		orphan := strings.TrimSpace(f.Git("commit-tree", "-m", "orphan", "main^{tree}"))
		f.Git("update-ref", "refs/heads/orphan", orphan)
		for name, tc := range map[string]struct {
			reason      string
			wanted, got string
			paths       []string
			kind        git.RelationKind
			by          string
		}{
			"same":             {"one commit", wanted, wanted, []string{dev}, git.Same, ""},
			"equal":            {"others have changed other paths", wanted, got, []string{prod}, git.DescendantEqual, ""},
			"equal, near":      {"not yet changed", wanted, last, []string{dev, prod}, git.DescendantEqual, ""},
			"differs":          {"someone has changed ours", wanted, got, []string{prod, dev}, git.DescendantDiffers, culprit},
			"differs anywhere": {"no paths are all", last, got, nil, git.DescendantDiffers, culprit},
			"missing then":     {"a path that was not there", wanted, got, []string{"other"}, git.DescendantDiffers, ""},
			"missing both":     {"a path that is nowhere", wanted, got, []string{"nope"}, git.DescendantEqual, ""},
			"ancestor":         {"behind", got, wanted, []string{dev}, git.Ancestor, ""},
			"beside":           {"two branches", got, side, []string{dev}, git.Unrelated, ""},
			"orphan":           {"no common history", got, orphan, []string{dev}, git.Unrelated, ""},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rel, err := r.Relation(t.Context(), tc.wanted, tc.got, tc.paths)
				if err != nil {
					t.Fatal(err)
				}
				if rel.Kind != tc.kind || tc.by != "" && rel.By.ID != tc.by {
					t.Errorf("%s: %+v, want %s by %s", tc.reason, rel, tc.kind, tc.by)
				}
			})
		}
	})
}

func TestLogAndFind(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, f *fixture, r *git.Repo) {
		from := f.Head("main")
		a := mustChange(t, r, change("op-a", "services/a/image", "1"))
		f.Commit("main", "foreign", gitserver.Text(map[string]string{"services/b/image": "1"}))
		b := mustChange(t, r, change("op-b", "services/a/image", "2"))
		log, err := r.Log(t.Context(), from, b.Head, []string{"services/a"}, 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range log {
			got = append(got, c.ID+" "+c.Author+" "+c.Operation+" "+c.Subject)
		}
		want := []string{b.Head + " Alice Example op-b set services/a/image", a.Head + " Alice Example op-a set services/a/image"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		all, err := r.Log(t.Context(), from, b.Head, nil, 2)
		if err != nil || len(all) != 2 || all[1].Subject != "foreign" || all[1].Author != "Someone Else" {
			t.Errorf("log of all: %+v, %v", all, err)
		}
		for name, tc := range map[string]struct{ base, op, want string }{
			"there":          {from, "op-a", a.Head},
			"no base":        {"", "op-a", a.Head},
			"behind base":    {a.Head, "op-a", ""},
			"base is head":   {b.Head, "op-b", ""},
			"nowhere":        {"", "op-c", ""},
			"part of a name": {"", "op-", ""},
		} {
			id, found, err := r.FindOperation(t.Context(), "main", tc.base, tc.op)
			if err != nil || id != tc.want || found != (tc.want != "") {
				t.Errorf("%s: %s %t %v", name, id, found, err)
			}
		}
		_, _, err = r.FindOperation(t.Context(), "nope", "", "op-a")
		wantCode(t, err, promo.CodeNotFound, `"nope"`)
	})
}

func TestDiffOfIsThreeDots(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, f *fixture, r *git.Repo) {
		base := f.Head("main")
		req := change("op-1", "services/checkout/dev/values.yaml", "image: v2\n")
		req.Branch, req.Base = "davit/pr", "main"
		pr := mustChange(t, r, req)
		moved := f.Commit("main", "meanwhile", map[string]gitserver.File{"README.md": {Data: "moved\n"}, "bin": {Data: "\x00\x01"}})
		got, err := r.DiffOf(t.Context(), moved, pr.Head)
		if err != nil {
			t.Fatal(err)
		}
		if got.Base != base || got.Digest != pr.Digest || got.Diff != pr.Diff || len(got.Files) != 1 {
			t.Errorf("diff is %+v, want that of %+v", got, pr)
		}
		none, err := r.DiffOf(t.Context(), moved, pr.Head, "services/checkout/prod", "run.sh")
		if err != nil || none.Changed || len(none.Files) != 0 {
			t.Errorf("diff of other paths: %+v, %v", none, err)
		}
		other, err := r.DiffOf(t.Context(), base, moved)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(other.Diff, "Binary files /dev/null and b/bin differ") || !strings.Contains(other.Diff, "-hello\n+moved\n") {
			t.Errorf("diff is\n%s", other.Diff)
		}
		hash, err := r.TreeHash(t.Context(), pr.Head, "services/checkout/prod")
		if err != nil || hash != strings.TrimSpace(f.Git("rev-parse", base+":services/checkout/prod")) {
			t.Errorf("tree is %s, %v", hash, err)
		}
	})
}

func TestDigestCoversModes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	base := f.Head("main")
	var digests []string
	for i, mode := range []string{"100644", "100755", "120000"} {
		branch := fmt.Sprint("mode", i)
		f.Git("branch", branch, base)
		head := f.Commit(branch, "mode", map[string]gitserver.File{"README.md": {Data: "same", Mode: mode}})
		c, err := r.DiffOf(t.Context(), base, head)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, c.Digest)
	}
	if digests[0] == digests[1] || digests[1] == digests[2] || digests[0] == digests[2] {
		t.Errorf("digests are equal: %q", digests)
	}
}
