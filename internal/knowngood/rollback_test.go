package knowngood_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/knowngood"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
)

// release promotes all of prod to a version and marks it.
func (w *world) release(promotion, version string) string {
	w.t.Helper()
	head := w.promote("shop/"+promotion+"/prod.1/update/0", map[string]string{
		"prod/values.yaml": "all: " + version + "\n", "prod/us/values.yaml": "us: " + version + "\n", "prod/eu/values.yaml": "eu: " + version + "\n",
	})
	if res := w.mark(head, promotion, everywhere(head)); !res.KnownGood {
		w.t.Fatalf("release %s is not known-good: %s", version, res.Reason)
	}
	return head
}

func TestPreviewChooses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.release("p1", "1.0")
	two := w.release("p2", "2.0")
	w.promote("shop/p2x", map[string]string{"qa/values.yaml": "qa: x\n"})
	same := w.repo.Head("main") // the same files in prod as two
	w.mark(same, "p2x", everywhere(same))
	three := w.release("p3", "3.0")
	bad := w.promote("shop/p4", map[string]string{"prod/values.yaml": "all: 4.0\n"})
	req := w.markRequest(bad, "p4", everywhere(bad))
	req.Entry.KnownGood = false
	if _, err := w.keeper.Mark(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	pinned := w.promote("shop/p5", map[string]string{"prod/values.yaml": "all: 5.0\n"})
	if err := w.Store.Pin(t.Context(), "shop", "checkout", "prod", pinned); err != nil {
		t.Fatal(err)
	}
	head := w.promote("shop/p6", map[string]string{"prod/values.yaml": "all: 6.0\n"})
	cases := map[string]struct {
		reason  string
		to, not string
		want    string
		refusal string
	}{
		"newest that differs":         {reason: "a pin counts like a proof", want: pinned},
		"without the one that failed": {reason: "the next newest", not: pinned, want: three},
		"by commit":                   {reason: "whole", to: one, want: one},
		"by the beginning":            {reason: "short ids are enough", to: two[:12], want: two},
		"pinned by name":              {reason: "a pin is enough", to: pinned[:20], want: pinned},
		"not known-good":              {reason: "it is in the history, but nobody vouches for it", to: bad, refusal: "never known to be good"},
		"never there":                 {reason: "a commit that was never in the environment", to: head, refusal: "not in the history"},
		"no commit":                   {reason: "nonsense", to: "zzzz", refusal: "not in the history"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := w.keeper.Preview(t.Context(), w.target(tc.to, tc.not))
			if err != nil {
				t.Fatal(err)
			}
			if got := w.repo.Head("main"); got != head {
				t.Errorf("a preview moved the branch to %s", got)
			}
			if p.To != tc.want || p.From != head || (tc.refusal == "") != (p.Refusal == "") || !strings.Contains(p.Refusal, tc.refusal) {
				t.Errorf("%s: got to %q from %q, refusal %q; want to %q from %q, refusal %q", tc.reason, p.To, p.From, p.Refusal, tc.want, head, tc.refusal)
			}
		})
	}
	if p := w.preview(w.target(one, "")); p.Version != "v-p1" {
		t.Errorf("the version of the known-good commit is %q", p.Version)
	}
}

func TestPreviewSkipsWhatIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.release("p1", "1.0")
	w.release("p2", "2.0")
	if p := w.preview(w.target("", "")); p.To != one || p.Refusal != "" {
		t.Errorf("the present state is no way back: got %+v", p)
	}
	back := w.write("rollback/1", one, nil)
	w.mark(back.Commit, "rollback/1", everywhere(back.Commit))
	// One back from here is what was before the rollback, not the commit that has the same files.
	if p := w.preview(w.target("", "")); p.Version != "v-p2" {
		t.Errorf("got %+v, want back to 2.0", p)
	}
}

func TestPreviewRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if p := w.preview(w.target("", "")); !strings.Contains(p.Refusal, "no known-good commit") {
		t.Errorf("without history: got %+v", p)
	}
	nothing := w.target("", "")
	nothing.Environment = "staging"
	if p := w.preview(nothing); !strings.Contains(p.Refusal, "owns no paths") {
		t.Errorf("without paths: got %+v", p)
	}
	w.release("p1", "1.0")
	if p := w.preview(w.target("", "")); !strings.Contains(p.Refusal, "no known-good commit") {
		t.Errorf("where only the present state is known: got %+v", p)
	}
	// Two commits that begin alike, as far as the history knows.
	for _, c := range []string{"abcd" + strings.Repeat("0", 36), "abcd" + strings.Repeat("1", 36)} {
		if err := w.Store.Pin(t.Context(), "shop", "checkout", "prod", c); err != nil {
			t.Fatal(err)
		}
	}
	if p := w.preview(w.target("abcd", "")); !strings.Contains(p.Refusal, "ambiguous") {
		t.Errorf("a short id of two commits: got %+v", p)
	}
	if p := w.preview(w.target("", "")); p.Refusal == "" && p.To != "" {
		t.Errorf("a pin on a commit that nobody has: got %+v", p)
	}
}

func TestPreviewDescribes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.release("p1", "1.0")
	w.other("tune by hand", map[string]string{"prod/us/values.yaml": "us: hand\n"})
	w.other("elsewhere", map[string]string{"README.md": "new\n", "qa/values.yaml": "qa: 9\n"})
	w.release("p2", "2.0")
	w.other("common", map[string]string{"base/common.yaml": "common: 2\n"})
	w.promote("shop/p3", map[string]string{"prod/new.yaml": "new: 1\n"})
	p := w.preview(w.target(one, ""))
	if diff := cmp.Diff([]string{"prod/eu/values.yaml", "prod/new.yaml", "prod/us/values.yaml", "prod/values.yaml"}, p.Files); diff != "" {
		t.Errorf("files: -want +got:\n%s", diff)
	}
	for _, line := range []string{"-all: 2.0", "+all: 1.0", "+us: 1.0", "-new: 1"} {
		if !strings.Contains(p.Diff, "\n"+line+"\n") {
			t.Errorf("the diff lacks %q:\n%s", line, p.Diff)
		}
	}
	if strings.Contains(p.Diff, "qa/") || strings.Contains(p.Diff, "README") || strings.Contains(p.Diff, "base/") {
		t.Errorf("the diff shows what is not put back:\n%s", p.Diff)
	}
	if diff := cmp.Diff([]string{"base/common.yaml"}, p.Shared); diff != "" {
		t.Errorf("shared: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"qa"}, p.Readers); diff != "" {
		t.Errorf("readers: -want +got:\n%s", diff)
	}
	if len(p.Foreign) != 1 || p.Foreign[0].Subject != "tune by hand" || !strings.Contains(p.Foreign[0].Author, "Someone Else") || p.Foreign[0].At.IsZero() {
		t.Errorf("other people's commits: got %+v", p.Foreign)
	}
}

func TestPreviewMergedByPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.release("p1", "1.0")
	head := w.Change("deploy", "davit/p2", "main", "shop/p2/prod.1/update/0", map[string]string{"prod/values.yaml": "all: 2.0\n"})
	ana := promo.Principal{Name: "ana"}
	w.other("meanwhile", map[string]string{"README.md": "more\n"})
	pr, err := w.Forge.Open(t.Context(), forge.Spec{Repository: "deploy", Head: "davit/p2", Base: "main", Title: "2.0", Author: ana})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Forge.Merge(t.Context(), forge.MergeSpec{Repository: "deploy", Number: pr.Number, ExpectHead: head, By: ana, Message: "by hand"}); err != nil {
		t.Fatal(err)
	}
	if p := w.preview(w.target(one, "")); len(p.Foreign) != 0 || len(p.Files) != 1 {
		t.Errorf("a person's click on merge is no commit of theirs to lose: %+v", p)
	}
}

// write asks for the commit of a rollback.
func (w *world) write(id, to string, change func(*knowngood.WriteRequest)) knowngood.WriteResult {
	w.t.Helper()
	req := w.writeRequest(id, to)
	if change != nil {
		change(&req)
	}
	res, err := w.keeper.Write(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func (w *world) writeRequest(id, to string) knowngood.WriteRequest {
	return knowngood.WriteRequest{
		RollbackTarget: w.target(to, ""), Operation: id + "/write", ID: id, By: promo.Principal{Name: "ana", Email: "ana@example.com"}, Reason: "errors",
	}
}

// below keeps the files under a folder.
func below(files map[string]string, dir string) map[string]string {
	out := map[string]string{}
	for p, id := range files {
		if strings.HasPrefix(p, dir+"/") {
			out[p] = id
		}
	}
	return out
}

// without drops the files under folders.
func without(files map[string]string, dirs ...string) map[string]string {
	out := maps.Clone(files)
	for _, d := range dirs {
		for p := range below(files, d) {
			delete(out, p)
		}
	}
	return out
}

// mess makes every kind of difference since the known-good commit: content, mode, link, new and lost files.
func (w *world) mess() string {
	w.t.Helper()
	return w.repo.Commit("main", "mess", map[string]gitserver.File{
		"prod/values.yaml": {Data: "all: broken\r\n"}, "prod/run.sh": {Data: "#!/bin/sh\nexit 1\n"}, "prod/link": {Data: "eu/values.yaml"},
		"prod/eu": {Mode: "delete"}, "prod/added/deep/file.yaml": {Data: "x\n"}, "prod/us/values.yaml": {Data: "us: 7\n", Mode: "100755"},
		"qa/values.yaml": {Data: "qa: 7\n"}, "base/common.yaml": {Data: "common: 7\n"}, "base/added.yaml": {Data: "a\n"}, "README.md": {Data: "7\n"},
	})
}

// good is a state with modes, links, odd bytes and no line end.
func (w *world) good() string {
	w.t.Helper()
	head := w.repo.Commit("main", "good", map[string]gitserver.File{
		"prod/values.yaml": {Data: "all: 1\r\n\tmixed: true"}, "prod/run.sh": {Data: "#!/bin/sh\nexit 0\n", Mode: "100755"},
		"prod/link": {Data: "us/values.yaml", Mode: "120000"}, "prod/blob.bin": {Data: "\x00\xff\xfe\x01"},
	})
	w.mark(head, "p1", everywhere(head))
	return head
}

func TestWritePutsBackByteForByte(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"owned paths": false, "shared too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			good := w.good()
			before := w.mess()
			want, was := w.repo.Files(good), w.repo.Files(before)
			res := w.write("shop/checkout/prod/1", good, func(r *knowngood.WriteRequest) { r.IncludeShared = shared })
			head := w.repo.Head("main")
			if res.Commit != head || !res.Changed || !res.Merged || res.Waiting != "" || res.Change.Merged != head {
				t.Fatalf("got %+v, the branch is at %s", res, head)
			}
			got := w.repo.Files(head)
			if diff := cmp.Diff(below(want, "prod"), below(got, "prod")); diff != "" {
				t.Errorf("owned paths: -known-good +now:\n%s", diff)
			}
			owned := []string{"prod"}
			if shared {
				owned = append(owned, "base")
				if diff := cmp.Diff(below(want, "base"), below(got, "base")); diff != "" {
					t.Errorf("shared paths: -known-good +now:\n%s", diff)
				}
			}
			if diff := cmp.Diff(without(was, owned...), without(got, owned...)); diff != "" {
				t.Errorf("something else was touched: -before +after:\n%s", diff)
			}
			if parent := strings.TrimSpace(w.repo.Git("rev-parse", head+"^")); parent != before {
				t.Errorf("the commit stands on %s, not on the head %s", parent, before)
			}
			text := w.repo.Git("log", "-1", "--format=%an <%ae>%n%B", head)
			for _, part := range []string{"ana <ana@example.com>", "Roll checkout in prod back to " + good[:10], "errors", "Davit-Operation: shop/checkout/prod/1/write"} {
				if !strings.Contains(text, part) {
					t.Errorf("the commit does not say %q:\n%s", part, text)
				}
			}
			w.repo.Fsck()
		})
	}
}

func TestWritePathThatWasNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.repo.Commit("main", "no prod", map[string]gitserver.File{"prod": {Mode: "delete"}})
	empty := w.repo.Head("main")
	w.other("prod again", map[string]string{"prod/us/values.yaml": "us: 1\n"})
	res := w.write("r", empty, nil)
	if got := below(w.repo.Files(res.Commit), "prod"); len(got) != 0 || !res.Changed {
		t.Errorf("the path did not exist then and holds %v now", got)
	}
}

func TestWriteTwiceIsOneCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := w.good()
	w.mess()
	one := w.write("r", good, nil)
	two := w.write("r", good, nil)
	if one.Commit != two.Commit || w.repo.Head("main") != one.Commit || !two.Changed || !two.Merged {
		t.Errorf("the same operation gave %+v, then %+v; the branch is at %s", one, two, w.repo.Head("main"))
	}
	// Others go on; a repetition after that still finds its own commit and undoes nothing of theirs.
	later := w.other("fix forward", map[string]string{"prod/values.yaml": "all: fixed\n"})
	three := w.write("r", good, nil)
	if three.Commit != one.Commit || w.repo.Head("main") != later {
		t.Errorf("after another's commit the same operation gave %+v; the branch is at %s, not %s", three, w.repo.Head("main"), later)
	}
}

func TestWriteNothingToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := w.good()
	head := w.other("elsewhere", map[string]string{"qa/values.yaml": "qa: 3\n"})
	for name, delivery := range map[string]string{"push": "", "pull request": "pull-request"} {
		res := w.write("r-"+strings.ReplaceAll(name, " ", "-"), good, func(r *knowngood.WriteRequest) { r.Delivery = delivery })
		if res.Changed || !res.Merged || res.Commit != head || w.repo.Head("main") != head {
			t.Errorf("%s: nothing was to do, got %+v, the branch is at %s", name, res, w.repo.Head("main"))
		}
	}
}

func TestWriteByPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := w.good()
	w.mess()
	ask := func(r *knowngood.WriteRequest) { r.Delivery = "pull-request" }
	res := w.write("shop/checkout/prod/1", good, ask)
	if !res.Merged || res.Waiting != "" || res.Change.PR == 0 || res.Commit != w.repo.Head("main") || res.Change.Digest == "" {
		t.Fatalf("an unprotected branch takes it at once: got %+v", res)
	}
	if diff := cmp.Diff(below(w.repo.Files(good), "prod"), below(w.repo.Files("main"), "prod")); diff != "" {
		t.Errorf("-known-good +now:\n%s", diff)
	}
	head := w.repo.Head("main")
	again := w.write("shop/checkout/prod/1", good, ask)
	if !again.Merged || again.Commit != head || w.repo.Head("main") != head {
		t.Errorf("again: got %+v, the branch is at %s, was at %s", again, w.repo.Head("main"), head)
	}
}

func TestWriteProtectedBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := w.good()
	w.mess()
	before := w.repo.Head("main")
	rule := forge.Protection{RequiredReviews: 1}
	if err := w.Forge.Protect(t.Context(), "deploy", "main", &rule); err != nil {
		t.Fatal(err)
	}
	for range 2 { // asked for again while it waits
		res := w.write("shop/checkout/prod/1", good, nil)
		if res.Merged || res.Commit != "" || !res.Changed || !strings.Contains(res.Waiting, "approvals") || res.Change.PR != 1 || res.Change.Branch != "davit/rollback/shop-checkout-prod-1" {
			t.Fatalf("got %+v, want a pull request that waits for a review", res)
		}
		if got := w.repo.Head("main"); got != before {
			t.Fatalf("the protected branch moved to %s", got)
		}
	}
	pr, err := w.Forge.Details(t.Context(), "deploy", 1)
	if err != nil || pr.Body != "errors" || !strings.Contains(pr.Title, "Roll checkout in prod back") || pr.Author != "ana" {
		t.Fatalf("the pull request is %+v, %v", pr, err)
	}
	if _, err := w.Forge.Review(t.Context(), local.ReviewSpec{
		Repository: "deploy", Number: 1, By: promo.Principal{Name: "bob"}, State: forge.ReviewApproved, HeadSHA: pr.HeadSHA,
	}); err != nil {
		t.Fatal(err)
	}
	res := w.write("shop/checkout/prod/1", good, nil)
	head := w.repo.Head("main")
	if !res.Merged || res.Waiting != "" || res.Commit != head || head == before || res.Change.Merged != head {
		t.Fatalf("reviewed: got %+v, the branch is at %s", res, head)
	}
	if diff := cmp.Diff(below(w.repo.Files(good), "prod"), below(w.repo.Files("main"), "prod")); diff != "" {
		t.Errorf("-known-good +now:\n%s", diff)
	}
	if again := w.write("shop/checkout/prod/1", good, nil); !again.Merged || again.Commit != head || w.repo.Head("main") != head {
		t.Errorf("again: got %+v", again)
	}
}

func TestWriteClosedPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &forge.Protection{RequiredReviews: 1, AllowPush: []string{"nobody"}})
	good := w.repo.Head("main")
	w.other("change", map[string]string{"prod/values.yaml": "all: 2\n"})
	res := w.write("r", good, nil)
	if res.Merged || res.Change.PR == 0 {
		t.Fatalf("got %+v", res)
	}
	if err := w.Forge.CloseBy(t.Context(), "deploy", res.Change.PR, promo.Principal{Name: "bob"}, "no"); err != nil {
		t.Fatal(err)
	}
	before := w.repo.Head("main")
	for range 2 {
		_, err := w.keeper.Write(t.Context(), w.writeRequest("r", good))
		if err == nil || promo.CodeOf(err) != promo.CodeConflict || !strings.Contains(err.Error(), "closed by bob") {
			t.Errorf("a no is a no: got %v", err)
		}
	}
	if list, err := w.Forge.List(t.Context(), forge.Filter{Repository: "deploy"}); err != nil || len(list) != 1 || w.repo.Head("main") != before {
		t.Errorf("there are %d pull requests (%v), the branch is at %s", len(list), err, w.repo.Head("main"))
	}
}
