package steps_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
	"github.com/davit-cd/davit/steps"
	"github.com/davit-cd/davit/steps/stepstest"
)

func failsWith(t *testing.T, what string, err error, code promo.Code, says string) {
	t.Helper()
	var e *promo.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Error(), says) {
		t.Errorf("%s: got %v (%s), want %s with %q", what, err, promo.CodeOf(err), code, says)
	}
}

func TestUpdateReleaseRepo(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		spec string
		file string
		want string
	}{
		"Set":       {`{"files":[{"path":"dev/values.yaml","set":{"image.tag":"v1.1.0","replicas":2}}]}`, "services/checkout/dev/values.yaml", "# dev\nimage:\n  tag: v1.1.0 # by Davit\nreplicas: 2\n"},
		"Kustomize": {`{"files":[{"path":"dev/kustomization.yaml","kustomizeImage":{"name":"checkout","newTag":"1.1"}}]}`, "services/checkout/dev/kustomization.yaml", "images:\n- name: checkout\n  newTag: \"1.1\"\n"},
		"Remove":    {`{"files":[{"path":"dev/values.yaml","remove":["replicas","not.there"]}]}`, "services/checkout/dev/values.yaml", "# dev\nimage:\n  tag: v1.0.0 # by Davit\n"},
		"Append":    {`{"files":[{"path":"dev/values.yaml","append":{"hosts":["a","a"]}}]}`, "services/checkout/dev/values.yaml", "# dev\nimage:\n  tag: v1.0.0 # by Davit\nreplicas: 1\nhosts:\n- a\n"},
		"Create":    {`{"onMissingFile":"create","files":[{"path":"dev/new.yaml","set":{"a.b":"x"}}]}`, "services/checkout/dev/new.yaml", "a:\n  b: x\n"},
		"Copy":      {`{"files":[{"path":"dev/values.yaml","copyFrom":{"path":"prod/values.yaml"}}]}`, "services/checkout/dev/values.yaml", "# prod\r\nimage: {tag: 'v0.9.0'}\r\n"},
		"CopyEdit":  {`{"files":[{"path":"dev/values.yaml","copyFrom":{"path":"prod/values.yaml"}},{"path":"dev/values.yaml","set":{"image.tag":"v2"}}]}`, "services/checkout/dev/values.yaml", "# prod\r\nimage: {tag: 'v2'}\r\n"},
		"Shared":    {`{"path":"base","files":[{"path":"common.yaml","shared":true,"set":{"shared":false}}]}`, "base/common.yaml", "shared: false\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := stepstest.NewWorld(t)
			main := w.Repo.Head("main")
			out, err := steps.UpdateReleaseRepo().Run(t.Context(), w.In("update", tc.spec))
			if err != nil {
				t.Fatal(err)
			}
			c := out.Change
			if c == nil || !c.Changed || c.PR != 1 || c.Digest == "" || c.Diff == "" || c.Merged != "" || w.Repo.Head(c.Branch) != c.Head {
				t.Fatalf("change %+v", c)
			}
			if d := cmp.Diff(tc.want, w.Repo.Git("show", c.Head+":"+tc.file)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if got := w.Repo.Git("diff", "--name-only", main, c.Head); got != tc.file+"\n" {
				t.Errorf("files changed: %q", got)
			}
			if msg := w.Repo.Git("log", "-1", "--format=%B", c.Head); !strings.Contains(msg, "Promote checkout v1.1.0 to dev") || !strings.Contains(msg, "Davit-Operation: shop/checkout/7/dev.1/update") {
				t.Errorf("message %q", msg)
			}
			if w.Repo.Head("main") != main {
				t.Error("main was pushed")
			}
		})
	}
}

func TestUpdateReleaseRepoRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		spec string
		says string
	}{
		"OtherEnvironment": {`{"files":[{"path":"prod/values.yaml","set":{"image.tag":"x"}}]}`, "outside the paths"},
		"Leaves":           {`{"files":[{"path":"../../README.md","set":{"a":"x"}}]}`, "leaves the tree"},
		"SharedUndeclared": {`{"path":"base","files":[{"path":"common.yaml","set":{"shared":false}}]}`, "shared: true"},
		"NotShared":        {`{"files":[{"path":"dev/values.yaml","shared":true,"set":{"a":1}}]}`, "outside the shared paths"},
		"Kind":             {`{"files":[{"path":"dev/values.yaml","set":{"image.tag":{"a":1}}}]}`, "services/checkout/dev/values.yaml: line 3, column 8"},
		"Missing":          {`{"files":[{"path":"dev/nope.yaml","set":{"a":1}}]}`, "services/checkout/dev/nope.yaml does not exist"},
		"NoChange":         {`{"onNoChange":"fail","files":[{"path":"dev/values.yaml","set":{"image.tag":"v1.0.0"}}]}`, "changes nothing"},
		"Symlink":          {`{"files":[{"path":"dev/link.yaml","set":{"a":1}}]}`, "link.yaml"},
		"Huge":             {`{"files":[{"path":"dev/huge.yaml","set":{"a":1}}]}`, "huge.yaml"},
		"Binary":           {`{"files":[{"path":"dev/bin.yaml","set":{"a":1}}]}`, "bin.yaml"},
		"OtherRepository":  {`{"repository":"other","files":[{"path":"dev/values.yaml","set":{"a":1}}]}`, "only the service's own"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := stepstest.NewWorld(t)
			w.Repo.Commit("main", "traps", map[string]gitserver.File{
				"services/checkout/dev/link.yaml": {Data: "../prod/values.yaml", Mode: "120000"},
				"services/checkout/dev/huge.yaml": {Data: "a: " + strings.Repeat("x", 6<<20)},
				"services/checkout/dev/bin.yaml":  {Data: "a: \xff\x00"},
			})
			before := w.Snapshot()
			_, err := steps.UpdateReleaseRepo().Run(t.Context(), w.In("update", tc.spec))
			failsWith(t, name, err, promo.CodeConfiguration, tc.says)
			if d := cmp.Diff(before, w.Snapshot()); d != "" {
				t.Errorf("the world changed:\n%s", d)
			}
		})
	}
}

func TestUpdateReleaseRepoOutcomes(t *testing.T) {
	t.Parallel()
	w := stepstest.NewWorld(t)
	head := w.Repo.Head("main")
	out, err := steps.UpdateReleaseRepo().Run(t.Context(), w.In("same", `{"files":[{"path":"dev/values.yaml","set":{"image.tag":"v1.0.0"}}]}`))
	if err != nil || out.Change == nil || out.Change.Changed || out.Change.Merged != head || out.Change.PR != 0 {
		t.Errorf("no change: %v %+v", err, out.Change)
	}
	out, err = steps.UpdateReleaseRepo().Run(t.Context(), w.In("skip", `{"onMissingFile":"skip","files":[{"path":"dev/nope.yaml","set":{"a":1}}]}`))
	if err != nil || out.Change.Changed {
		t.Errorf("skipped file: %v %+v", err, out.Change)
	}
	in := w.In("push", `{"delivery":"push","files":[{"path":"dev/values.yaml","set":{"image.tag":"v3"}}]}`)
	out, err = steps.UpdateReleaseRepo().Run(t.Context(), in)
	if err != nil || out.Change.Merged != w.Repo.Head("main") || out.Change.Merged == head {
		t.Errorf("push: %v %+v", err, out.Change)
	}
	in.Stage.Environment = nil
	_, err = steps.UpdateReleaseRepo().Run(t.Context(), in)
	failsWith(t, "stage without environment", err, promo.CodeConfiguration, "no environment")
}

func TestBranchName(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]string{
		"shop/checkout/7/prod.1/update/wave-1": "davit/shop/checkout/7/prod.1/update/wave-1",
		"a/.b/c.lock/d..e":                     "davit/a/b/c/d-e",
		"a b~^:?*[\\":                          "davit/a-b------",
	} {
		if got := steps.BranchName(op); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, want %q", op, got, want)
		}
	}
	a, b := steps.BranchName("x/"+strings.Repeat("y", 300)), steps.BranchName("x/"+strings.Repeat("y", 301))
	if a == b || len(a) > 200 {
		t.Errorf("long ids: %d characters, equal %v", len(a), a == b)
	}
	if steps.BranchName("a b") == steps.BranchName("a-b") {
		t.Error("two ids share a branch")
	}
}

func TestCheckUpdateReleaseRepo(t *testing.T) {
	t.Parallel()
	check := func(s steps.UpdateReleaseRepoSpec) []steps.Problem { return steps.UpdateReleaseRepo().Check(&s) }
	set := map[string]any{"a": 1}
	cases := map[string]struct {
		spec steps.UpdateReleaseRepoSpec
		at   string
	}{
		"NoFiles":    {steps.UpdateReleaseRepoSpec{}, "files"},
		"NoEdit":     {steps.UpdateReleaseRepoSpec{Files: []steps.FileEdit{{Path: "a"}}}, "files[0]"},
		"BadPath":    {steps.UpdateReleaseRepoSpec{Files: []steps.FileEdit{{Path: "../a", Set: set}}}, "files[0].path"},
		"BadSetPath": {steps.UpdateReleaseRepoSpec{Files: []steps.FileEdit{{Path: "a", Set: map[string]any{"a..b": 1}}}}, "files[0].set"},
		"CopyAndSet": {steps.UpdateReleaseRepoSpec{Files: []steps.FileEdit{{Path: "a", Set: set, CopyFrom: &steps.CopyFrom{Path: "b"}}}}, "files[0].copyFrom"},
		"BadCopy":    {steps.UpdateReleaseRepoSpec{Files: []steps.FileEdit{{Path: "a", CopyFrom: &steps.CopyFrom{Path: "/b"}}}}, "files[0].copyFrom.path"},
		"EmptyImage": {steps.UpdateReleaseRepoSpec{Files: []steps.FileEdit{{Path: "a", KustomizeImage: &steps.KustomizeImage{Name: "x"}}}}, "files[0].kustomizeImage"},
		"PushTitle":  {steps.UpdateReleaseRepoSpec{Delivery: "push", Title: "x", Files: []steps.FileEdit{{Path: "a", Set: set}}}, "delivery"},
	}
	for name, tc := range cases {
		if got := check(tc.spec); len(got) != 1 || got[0].Path != tc.at {
			t.Errorf("%s: %+v", name, got)
		}
	}
	ok := steps.UpdateReleaseRepoSpec{Files: []steps.FileEdit{{Path: "${{ target.name }}/../x", Set: map[string]any{"${{ inputs.key }}..": 1, "l[name=a].b": 2}}}}
	if got := check(ok); len(got) != 0 {
		t.Errorf("unresolved expressions: %+v", got)
	}
}

func TestMergePR(t *testing.T) {
	t.Parallel()
	foreign := func(w *stepstest.World, c plan.Change) {
		w.Repo.Commit(c.Branch, "by somebody else", gitserver.Text(map[string]string{"services/checkout/dev/values.yaml": "evil: true\n"}))
	}
	conflict := func(w *stepstest.World, _ plan.Change) {
		w.Repo.Commit("main", "meanwhile", gitserver.Text(map[string]string{"services/checkout/dev/values.yaml": "# dev\nimage:\n  tag: v7\nreplicas: 1\n"}))
	}
	edit := func(change func(*steps.PullRequest)) func(*stepstest.World, plan.Change) {
		return func(w *stepstest.World, _ plan.Change) { w.Forge.Edit(1, change) }
	}
	cases := map[string]struct {
		reason string
		spec   string
		before func(*stepstest.World, plan.Change)
		code   promo.Code // of the error
		says   string     // in the error, or in the message of what waits
	}{
		"Foreign":   {"another commit on the branch", `{}`, foreign, promo.CodeConflict, "not what Davit pushed"},
		"Conflict":  {"main has changed the same line", `{}`, conflict, promo.CodeConflict, "conflicts with main"},
		"Closed":    {"somebody closed it", `{}`, edit(func(p *steps.PullRequest) { p.State, p.ClosedBy = "closed", "erin" }), promo.CodeConflict, "erin"},
		"Failed":    {"a check failed", `{}`, edit(func(p *steps.PullRequest) { p.Checks, p.Blocked = "failed", []string{"check unit"} }), promo.CodeConflict, "check unit"},
		"Pending":   {"checks run", `{}`, edit(func(p *steps.PullRequest) { p.Checks = "pending" }), "", "waits for checks"},
		"Reviews":   {"reviews are missing", `{}`, edit(func(p *steps.PullRequest) { p.Blocked = []string{"a review"} }), "", "waits for a review"},
		"Draft":     {"a draft", `{}`, edit(func(p *steps.PullRequest) { p.Draft = true }), "", "draft"},
		"NotNeeded": {"checks that nobody asked for", `{"requireChecks":false}`, edit(func(p *steps.PullRequest) { p.Checks = "failed" }), "", "merged pull request 1"},
		"Bypass":    {"reviews are bypassed", `{"bypass":true}`, edit(func(p *steps.PullRequest) { p.Blocked = []string{"a review"} }), "", "merged pull request 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := stepstest.NewWorld(t)
			in := w.In("merge", tc.spec)
			in.Change = opened(t, w)
			tc.before(w, in.Change)
			out, err := steps.MergePR().Run(t.Context(), in)
			if tc.code != "" {
				failsWith(t, tc.reason, err, tc.code, tc.says)
				return
			}
			if err != nil || !strings.Contains(out.Message, tc.says) {
				t.Fatalf("%s: %v, message %q", tc.reason, err, out.Message)
			}
			if waits := strings.Contains(tc.says, "wait") || name == "Draft"; waits != (out.Again != nil) {
				t.Errorf("%s: %+v", tc.reason, out)
			}
		})
	}
}

func TestMergePRMore(t *testing.T) {
	t.Parallel()
	w := stepstest.NewWorld(t)
	in := w.In("merge", `{}`)
	_, err := steps.MergePR().Run(t.Context(), in)
	failsWith(t, "no pull request", err, promo.CodeConfiguration, "no pull request")

	in.Change = opened(t, w)
	in.Approved = "sha256:other"
	_, err = steps.MergePR().Run(t.Context(), in)
	failsWith(t, "another digest was approved", err, promo.CodeConflict, "not what was approved")

	// A rebase keeps the digest, so that what was approved may be merged at another head.
	in.Approved = in.Change.Digest
	tree := strings.TrimSpace(w.Repo.Git("rev-parse", in.Change.Head+"^{tree}"))
	rebased := strings.TrimSpace(w.Repo.Git("commit-tree", tree, "-p", w.Repo.Head("main"), "-m", "rebased"))
	w.Repo.Git("update-ref", "refs/heads/"+in.Change.Branch, rebased)
	refused := 0
	w.Forge.Refuse = func(steps.PullRequest) error {
		if refused++; refused < 3 {
			return promo.Errorf(promo.CodeConflict, "please try again later")
		}
		return nil
	}
	var out steps.Out
	for range 3 {
		if out, err = steps.MergePR().Run(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if out.Again != nil {
			in.State = out.Again.State
		}
	}
	if out.Change == nil || out.Change.Merged != w.Repo.Head("main") || w.Repo.Head(in.Change.Branch) != "" {
		t.Errorf("merge after refusals: %+v", out)
	}

	w = stepstest.NewWorld(t)
	in = w.In("merge", `{}`)
	in.Change = opened(t, w)
	w.Forge.Refuse = func(steps.PullRequest) error { return promo.Errorf(promo.CodeConflict, "never") }
	for range 20 {
		if out, err = steps.MergePR().Run(t.Context(), in); err != nil {
			break
		}
		in.State = out.Again.State
	}
	failsWith(t, "a forge that always refuses", err, promo.CodeConflict, "never")
}

func TestRevertPR(t *testing.T) {
	t.Parallel()
	w := stepstest.NewWorld(t)
	before := w.Repo.Git("rev-parse", "main^{tree}")
	in := w.In("revert", `{}`)
	_, err := steps.RevertPR().Run(t.Context(), in)
	failsWith(t, "nothing merged", err, promo.CodeConfiguration, "nothing to undo")
	in.Change = merged(t, w)
	in.Approved = in.Change.Digest // of the change that is undone: it says nothing about the undoing
	out := stepstest.Run(t, w, steps.RevertPR(), in)
	if w.Repo.Git("rev-parse", "main^{tree}") != before || out.Change.Merged != w.Repo.Head("main") {
		t.Errorf("main is not what it was: %+v", out.Change)
	}

	in = w.In("again", `{"merge":false}`)
	in.Change = plan.Change{Base: "main", Merged: out.Change.Merged}
	out = stepstest.Run(t, w, steps.RevertPR(), in)
	if out.Change.PR == 0 || out.Change.Merged != "" {
		t.Errorf("merge: false: %+v", out.Change)
	}
}
