package git_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
)

func TestTreeRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{MaxFile: 1000})
	r := f.repo(t, f.URL)
	sub := f.Head("main")
	f.Commit("main", "odd things", map[string]gitserver.File{
		"big.yaml":   {Data: strings.Repeat("x", 1001)},
		"inner/link": {Data: "../run.sh", Mode: "120000"},
	})
	f.Git("update-ref", "refs/heads/odd", addSubmodule(f, sub))
	base := f.Head("odd")
	data := []byte("x")
	for name, tc := range map[string]struct {
		reason string
		do     func(tr *git.Tree) error
		code   promo.Code
		word   string
	}{
		"parent":         {"would leave the repository", func(tr *git.Tree) error { return tr.Write("../x", data) }, promo.CodeConfiguration, `"../x"`},
		"inner parent":   {"not in shortest form", func(tr *git.Tree) error { return tr.Write("a/../../x", data) }, promo.CodeConfiguration, "leaves"},
		"absolute":       {"absolute", func(tr *git.Tree) error { return tr.Write("/etc/passwd", data) }, promo.CodeConfiguration, "absolute"},
		"empty name":     {"empty name", func(tr *git.Tree) error { return tr.Write("a//b", data) }, promo.CodeConfiguration, "a//b"},
		"dot git":        {"git's own", func(tr *git.Tree) error { return tr.Write(".git/config", data) }, promo.CodeConfiguration, ".git"},
		"dot git case":   {"git's own on macOS", func(tr *git.Tree) error { return tr.Write("a/.GIT/config", data) }, promo.CodeConfiguration, ".GIT"},
		"dot git hidden": {"git's own on HFS+", func(tr *git.Tree) error { return tr.Write(".g\u200cit/config", data) }, promo.CodeConfiguration, "git itself"},
		"dot git short":  {"git's own on NTFS", func(tr *git.Tree) error { return tr.Write("GIT~1/config", data) }, promo.CodeConfiguration, "GIT~1"},
		"dot git stream": {"git's own on NTFS", func(tr *git.Tree) error { return tr.Write(".git::$INDEX/x", data) }, promo.CodeConfiguration, "git itself"},
		"backslash":      {"a separator elsewhere", func(tr *git.Tree) error { return tr.Write(`a\b`, data) }, promo.CodeConfiguration, "backslash"},
		"zero byte":      {"ends names", func(tr *git.Tree) error { return tr.Write("a\x00b", data) }, promo.CodeConfiguration, "control"},
		"root":           {"is not a file", func(tr *git.Tree) error { return tr.Write("", data) }, promo.CodeConfiguration, "root"},
		"read link":      {"links are not followed", func(tr *git.Tree) error { _, err := tr.Read("link"); return err }, promo.CodeConfiguration, `"link" is a symbolic link`},
		"write link":     {"links are not replaced", func(tr *git.Tree) error { return tr.Write("inner/link", data) }, promo.CodeConfiguration, `"inner/link" is a symbolic link`},
		"through link":   {"links are not followed", func(tr *git.Tree) error { return tr.Write("link/checkout/x", data) }, promo.CodeConfiguration, `"link" is a symbolic link`},
		"read through":   {"links are not followed", func(tr *git.Tree) error { _, err := tr.Read("link/checkout/dev/values.yaml"); return err }, promo.CodeConfiguration, `"link"`},
		"copy link":      {"links are not copied by name", func(tr *git.Tree) error { return tr.CopyFrom(t.Context(), base, "link", "copy") }, promo.CodeConfiguration, `"link"`},
		"submodule":      {"another repository", func(tr *git.Tree) error { return tr.Write("module/x", data) }, promo.CodeConfiguration, `"module" is a submodule`},
		"read submodule": {"another repository", func(tr *git.Tree) error { _, err := tr.Read("module"); return err }, promo.CodeConfiguration, `"module" is a submodule`},
		"through file":   {"a file has nothing below it", func(tr *git.Tree) error { return tr.Write("README.md/x", data) }, promo.CodeConfiguration, `"README.md" is a file`},
		"over directory": {"would remove what is below", func(tr *git.Tree) error { return tr.Write("services", data) }, promo.CodeConfiguration, `"services" is a directory`},
		"read directory": {"is not a file", func(tr *git.Tree) error { _, err := tr.Read("services"); return err }, promo.CodeConfiguration, `"services" is a directory`},
		"missing":        {"is not there", func(tr *git.Tree) error { _, err := tr.Read("nope"); return err }, promo.CodeNotFound, `"nope"`},
		"remove missing": {"is not there", func(tr *git.Tree) error { return tr.Remove("nope") }, promo.CodeNotFound, `"nope"`},
		"large read":     {"over the limit", func(tr *git.Tree) error { _, err := tr.Read("big.yaml"); return err }, promo.CodeConfiguration, "1001 bytes"},
		"large write":    {"over the limit", func(tr *git.Tree) error { return tr.Write("x", make([]byte, 1001)) }, promo.CodeConfiguration, "1001 bytes"},
		"binary":         {"text was asked", func(tr *git.Tree) error { _, err := tr.ReadText("logo.png"); return err }, promo.CodeConfiguration, `"logo.png" is binary`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := change("refused-"+name, "", "")
			req.Branch = "odd"
			req.Edit = func(_ context.Context, tr *git.Tree) error { return tc.do(tr) }
			_, err := r.Change(t.Context(), req)
			if err == nil {
				t.Fatalf("was allowed: %s", tc.reason)
			}
			wantCode(t, err, tc.code, tc.word)
		})
	}
	t.Cleanup(func() {
		if f.Head("odd") != base {
			t.Error("the branch has moved")
		}
	})
}

// addSubmodule makes a commit with a submodule called module on top of main.
func addSubmodule(f *fixture, at string) string {
	index := "GIT_INDEX_FILE=" + f.dir + "/index"
	sh := "export " + index + "; git read-tree main && git update-index --add --cacheinfo 160000," + at + ",module && git commit-tree -p main -m sub $(git write-tree)"
	return strings.TrimSpace(f.Git("-c", "alias.run=!"+sh, "run"))
}

func TestTreeEdits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	good := f.Head("main")
	f.Commit("main", "later", map[string]gitserver.File{
		"services/checkout/dev/values.yaml": {Data: "image: broken\n"},
		"services/checkout/dev/extra.yaml":  {Data: "new: 1\n"},
		"services-x":                        {Data: "sorts between\n"},
		"services.y":                        {Data: "sorts before\n"},
	})
	for name, tc := range map[string]struct {
		reason string
		edit   func(tr *git.Tree) error
		want   []string // lines of git diff --name-status against the branch before
	}{
		"executable stays": {"a file keeps its mode", func(tr *git.Tree) error { return tr.Write("run.sh", []byte("#!/bin/sh\nexit\n")) }, []string{"M\trun.sh"}},
		"deep new file":    {"directories are made", func(tr *git.Tree) error { return tr.Write("a/b/c/d.yaml", []byte("x")) }, []string{"A\ta/b/c/d.yaml"}},
		"remove file":      {"empty directories go", func(tr *git.Tree) error { return tr.Remove("services/checkout/prod/values.yaml") }, []string{"D\tservices/checkout/prod/values.yaml"}},
		"remove directory": {"with all below", func(tr *git.Tree) error { return tr.Remove("services") }, []string{"D\tservices/checkout/dev/extra.yaml", "D\tservices/checkout/dev/values.yaml", "D\tservices/checkout/prod/values.yaml"}},
		"same bytes":       {"no change is no commit", func(tr *git.Tree) error { return tr.Write("README.md", []byte("hello\n")) }, nil},
		"there and back": {"no change is no commit", func(tr *git.Tree) error {
			if err := tr.Write("q/w", []byte("x")); err != nil {
				return err
			}
			return tr.Remove("q/w")
		}, nil},
		"file for directory": {"names sort apart as file and directory", func(tr *git.Tree) error {
			if err := tr.Remove("services"); err != nil {
				return err
			}
			return tr.Write("services", []byte("now a file"))
		}, []string{"A\tservices", "D\tservices/checkout/dev/extra.yaml", "D\tservices/checkout/dev/values.yaml", "D\tservices/checkout/prod/values.yaml"}},
		"copy directory": {"byte for byte, what was added since goes", func(tr *git.Tree) error {
			return tr.CopyFrom(t.Context(), good, "services/checkout/dev", "services/checkout/dev")
		}, []string{"D\tservices/checkout/dev/extra.yaml", "M\tservices/checkout/dev/values.yaml"}},
		"copy file":    {"to another name, with its mode", func(tr *git.Tree) error { return tr.CopyFrom(t.Context(), good, "run.sh", "bin/go.sh") }, []string{"A\tbin/go.sh"}},
		"copy nothing": {"what was not there then is removed", func(tr *git.Tree) error { return tr.CopyFrom(t.Context(), good, "", "services-x") }, []string{"D\tservices-x"}},
		"copy equal":   {"no change is no commit", func(tr *git.Tree) error { return tr.CopyFrom(t.Context(), good, "", "services/checkout/prod") }, nil},
		"copy, then write": {"the copied directory can be edited", func(tr *git.Tree) error {
			if err := tr.CopyFrom(t.Context(), good, "services/checkout/dev", "qa"); err != nil {
				return err
			}
			return tr.Write("qa/values.yaml", []byte("image: v3\n"))
		}, []string{"A\tqa/values.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := change("edit "+name, "", "")
			req.Branch, req.Base = "t/"+strings.NewReplacer(" ", "-", ",", "").Replace(name), "main"
			req.Edit = func(_ context.Context, tr *git.Tree) error { return tc.edit(tr) }
			got := mustChange(t, r, req)
			if len(tc.want) == 0 {
				if got.Changed || f.Head(req.Branch) != "" {
					t.Errorf("%s: made %+v", tc.reason, got)
				}
				return
			}
			lines := strings.Split(strings.TrimSpace(f.Git("diff", "--name-status", "--no-renames", "main", req.Branch)), "\n")
			if d := cmp.Diff(tc.want, lines); d != "" {
				t.Errorf("%s: %s", tc.reason, d)
			}
			if name == "copy file" && !strings.HasPrefix(f.Git("ls-tree", req.Branch, "bin/go.sh"), "100755 ") {
				t.Error("copied file has lost its mode")
			}
			var paths []string
			for _, c := range got.Files {
				paths = append(paths, c.Path)
			}
			if len(paths) != len(tc.want) {
				t.Errorf("change names files %q, git %q", paths, lines)
			}
		})
	}
	t.Cleanup(f.Fsck)
}

func TestPrefetchIsOneRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	tr, err := r.Tree(t.Context(), f.Head("main"))
	if err != nil {
		t.Fatal(err)
	}
	before := f.server.Requests.Load()
	if err := tr.Prefetch("services/checkout/dev", "README.md", "nope", "link"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"services/checkout/dev/values.yaml", "README.md"} {
		if _, err := tr.Read(p); err != nil {
			t.Error(err)
		}
	}
	if n := f.server.Requests.Load() - before; n != 1 {
		t.Errorf("took %d requests", n)
	}
}

func TestReadAllFetchesOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	tr, err := r.Tree(t.Context(), f.Head("main"))
	if err != nil {
		t.Fatal(err)
	}
	before := f.server.Requests.Load()
	got, err := tr.ReadAll("", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{
		"services/checkout/dev/values.yaml":  []byte("image: v1 # by CI\r\nreplicas: 2\r\n"),
		"services/checkout/prod/values.yaml": []byte("image: v0\n"),
		"run.sh":                             []byte("#!/bin/sh\n"),
		"logo.png":                           []byte("\x89PNG\x00\x00"),
		"README.md":                          []byte("hello\n"),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if n := f.server.Requests.Load() - before; n != 1 {
		t.Errorf("took %d requests", n)
	}
	if _, err := tr.ReadAll("", 10); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("limit: %v", err)
	}
	if err := tr.Write("x", nil); err == nil {
		t.Error("a tree for reading was written")
	}
	names, err := tr.List("")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"README.md", "link", "logo.png", "run.sh", "services/"}, names); d != "" {
		t.Error(d)
	}
	for path, want := range map[string]bool{"README.md": true, "services": true, "services/checkout": true, "nope": false, "services/nope/x": false} {
		if got, err := tr.Exists(path); got != want || err != nil {
			t.Errorf("%q exists: %t, %v", path, got, err)
		}
	}
	if tr.Commit() != f.Head("main") {
		t.Errorf("tree is of %s", tr.Commit())
	}
	run, err := tr.Stat("run.sh")
	if d := cmp.Diff(git.Entry{Path: "run.sh", Kind: git.KindFile, Executable: true, ID: run.ID}, run); d != "" || err != nil {
		t.Errorf("%s %v", d, err)
	}
	_, err = r.Tree(t.Context(), strings.Repeat("ab", 20))
	wantCode(t, err, promo.CodeNotFound, "no commit")
	_, err = r.Tree(t.Context(), "main")
	wantCode(t, err, promo.CodeConfiguration, "full id")
}
