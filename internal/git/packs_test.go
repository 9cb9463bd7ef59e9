package git

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

var noBase = func(id plumbing.Hash) (object, error) { return object{}, fmt.Errorf("no base %s", id) }

var roomy = packLimits{object: 1 << 20, total: 8 << 20}

// TestEditDelta: whatever two byte strings are, the delta turns one into the other.
func TestEditDelta(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.IntN(4))
		}
		return b
	}
	for i := range 500 {
		from := random(rng.IntN(300))
		if i%10 == 0 {
			from = random(70_000 + rng.IntN(70_000)) // copies longer than one instruction
		}
		if len(from) == 0 {
			continue // the library cannot patch nothing, and no tree is empty where a base is given
		}
		at := rng.IntN(len(from))
		to := append(append(append([]byte{}, from[:at]...), random(rng.IntN(300))...), from[min(len(from), at+rng.IntN(40)):]...)
		if len(to) == 0 {
			continue
		}
		got, err := packfile.PatchDelta(from, editDelta(from, to))
		if err != nil || !bytes.Equal(got, to) {
			t.Fatalf("case %d: from %d to %d bytes: %v", i, len(from), len(to), err)
		}
	}
}

func TestPackRoundTrip(t *testing.T) {
	t.Parallel()
	base := object{kind: plumbing.TreeObject, data: bytes.Repeat([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa"), 50)}
	edited := object{kind: plumbing.TreeObject, data: bytes.Replace(base.data, []byte("aaaa"), []byte("bbbb"), 1)}
	want := map[plumbing.Hash]object{}
	objects := []newObject{{object: edited, id: edited.id(), base: base.id(), from: base.data}}
	for i := range 20 {
		o := object{kind: plumbing.BlobObject, data: bytes.Repeat([]byte{byte(i)}, i*i*40)}
		objects = append(objects, newObject{object: o, id: o.id()})
	}
	for _, o := range objects {
		want[o.id] = o.object
	}
	pack, err := encodePack(objects)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readPack(bytes.NewReader(pack), roomy, func(id plumbing.Hash) (object, error) {
		if id != base.id() {
			return noBase(id)
		}
		return base, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(object{})); d != "" {
		t.Error(d)
	}
	if _, err := readPack(bytes.NewReader(pack), packLimits{object: 100, total: 1 << 20}, noBase); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("limit of an object: %v", err)
	}
	if _, err := readPack(bytes.NewReader(pack), packLimits{object: 1 << 20, total: 100}, noBase); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("limit of all: %v", err)
	}
	for n := range len(pack) - 20 { // the checksum at the end is not waited for
		if _, err := readPack(bytes.NewReader(pack[:n]), roomy, func(plumbing.Hash) (object, error) { return base, nil }); err == nil && n > 0 {
			t.Fatalf("a pack cut at %d of %d bytes was read", n, len(pack))
		}
	}
}

// TestGitReadsOurPacks lets git index a pack of ours.
func TestGitReadsOurPacks(t *testing.T) {
	t.Parallel()
	o := object{kind: plumbing.BlobObject, data: []byte("hello\n")}
	pack, err := encodePack([]newObject{{object: o, id: o.id()}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(in []byte, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v %s", args, err, out)
		}
		return string(out)
	}
	run(nil, "init", "--quiet", "--bare", ".")
	run(pack, "index-pack", "--stdin", "--strict")
	if got := run(nil, "cat-file", "blob", "ce013625030ba8dba906f756967f9e9ca394464a"); got != "hello\n" {
		t.Errorf("git reads %q", got)
	}
}

func FuzzReadPack(f *testing.F) {
	o := object{kind: plumbing.BlobObject, data: []byte("hello\n")}
	pack, err := encodePack([]newObject{{object: o, id: o.id()}, {object: o, id: o.id(), base: o.id(), from: o.data}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pack)
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x61\x05"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readPack(bytes.NewReader(data), packLimits{object: 1 << 16, total: 1 << 18}, noBase)
		for id, o := range got {
			if o.id() != id {
				t.Errorf("object %s is %s (%v)", id, o.id(), err)
			}
		}
	})
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa40000 b\x00bbbbbbbbbbbbbbbbbbbb"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parseTree(plumbing.ZeroHash, data)
		if err == nil && len(data) > 0 && len(d.nodes) == 0 {
			t.Error("nothing read and no error")
		}
	})
}

func FuzzSplitPath(f *testing.F) {
	for _, s := range []string{"a/b", "../a", "/a", ".git", "a/.GIT./b", "a//b", "", ".", "a/", "\u200c.git"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		names, err := splitPath(p)
		if err != nil {
			return
		}
		for _, n := range names {
			if n == "" || n == "." || n == ".." || strings.ContainsAny(n, "/\\\x00") || strings.EqualFold(n, ".git") {
				t.Errorf("%q gives the name %q", p, n)
			}
		}
	})
}

func TestTrailers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ message, want string }{
		"subject only":    {"one", "one\n\nDavit-Operation: op\n"},
		"body":            {"one\n\ntwo\n", "one\n\ntwo\n\nDavit-Operation: op\n"},
		"has trailers":    {"one\n\nSigned-off-by: A <a@example.com>", "one\n\nSigned-off-by: A <a@example.com>\nDavit-Operation: op\n"},
		"subject a: b":    {"git: change", "git: change\n\nDavit-Operation: op\n"},
		"windows":         {"one\r\n\r\ntwo\r\n", "one\n\ntwo\n\nDavit-Operation: op\n"},
		"empty":           {"", "Change by Davit\n\nDavit-Operation: op\n"},
		"zero byte":       {"a\x00b", "ab\n\nDavit-Operation: op\n"},
		"imitated":        {"x\n\nDavit-Operation: other", "x\n\nDavit-Operation: other\nDavit-Operation: op\n"},
		"imitated inside": {"x\n\nDavit-Operation: other\n\nend", "x\n\nDavit-Operation: other\n\nend\n\nDavit-Operation: op\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := messageOf(tc.message, "op")
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
			if op := operationOf(got); op != "op" {
				t.Errorf("operation is %q", op)
			}
		})
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		by   promo.Principal
		want string
	}{
		"plain":     {promo.Principal{Name: "A B", Email: "a@example.com"}, "A B <a@example.com>"},
		"no mail":   {promo.Principal{Name: "A B"}, "A B <a.b@davit.invalid>"},
		"nobody":    {promo.Principal{}, "davit <davit@davit.invalid>"},
		"injection": {promo.Principal{Name: "A <x@y> 1 +0000\ncommitter B", Email: "a>\nb"}, "A x@y 1 +0000committer B <ab>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := signature(tc.by); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	up := refUpdate{ref: "refs/heads/main"}
	for name, tc := range map[string]struct {
		reason, said string
		race         bool
		code         promo.Code
	}{
		"git race":        {"failed to update ref", "error: cannot lock ref 'refs/heads/main': is at 1 but expected 2", true, ""},
		"git create race": {"failed to update ref", "reference already exists", true, ""},
		"github race":     {"cannot lock ref 'refs/heads/main': is at 1 but expected 2", "", true, ""},
		"non fast":        {"non-fast-forward", "", true, ""},
		"hook":            {"pre-receive hook declined", "remote: no", false, promo.CodeAuthorization},
		"github rule":     {"push declined due to repository rule violations", "error: GH013: Repository rule violations found", false, promo.CodeAuthorization},
		"github branch":   {"protected branch hook declined", "error: GH006: Protected branch update failed", false, promo.CodeAuthorization},
		"own forge":       {"branch main is protected: open a pull request", "", false, promo.CodeAuthorization},
		"gitlab":          {"pre-receive hook declined", "GitLab: You are not allowed to push code to protected branches on this project.", false, promo.CodeAuthorization},
		"fsck":            {"unpack unpacker error", "fsck error in packed object", false, promo.CodeConfiguration},
		"disk":            {"unpack unpack-objects abnormal exit", "No space left on device", false, promo.CodeConnectivity},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := refused(up, tc.reason, tc.said)
			if errors.Is(err, errRace) != tc.race || !tc.race && promo.CodeOf(err) != tc.code {
				t.Errorf("%v: race %t, code %s", err, errors.Is(err, errRace), promo.CodeOf(err))
			}
		})
	}
}
