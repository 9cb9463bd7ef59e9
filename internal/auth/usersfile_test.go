package auth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

const goodUsers = `users:
  - name: dave
    email: dave@example.com
    groups: [developers]
    roles: {shop: [developer, viewer], "*": [viewer]}
  - {name: root, roles: {"*": [admin]}}
groups:
  release-managers: {shop: [approver]}
tokens:
  - {name: ci, user: dave, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, role: developer, project: shop, expires: 2027-01-01T00:00:00Z}
`

func TestReadUsers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(path, []byte(goodUsers), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []promo.Principal{{Name: "dave", Email: "dave@example.com", Groups: []string{"developers"}}, {Name: "root"}}
	if diff := cmp.Diff(want, dir.Users()); diff != "" {
		t.Error(diff)
	}
	wantBindings := []Binding{
		{Role: RoleViewer, Project: AllProjects, Users: []string{"dave"}, Groups: []string{}},
		{Role: RoleDeveloper, Project: "shop", Users: []string{"dave"}, Groups: []string{}},
		{Role: RoleViewer, Project: "shop", Users: []string{"dave"}, Groups: []string{}},
		{Role: RoleAdmin, Project: AllProjects, Users: []string{"root"}, Groups: []string{}},
		{Role: RoleApprover, Project: "shop", Users: []string{}, Groups: []string{"release-managers"}},
	}
	if diff := cmp.Diff(wantBindings, dir.bindings); diff != "" {
		t.Error(diff)
	}
	_, who, err := newAuthenticator(t, Options{Source: dir}).Authenticate(bearer("test")) // sha256("test")
	if err != nil || who.Name != "dave" {
		t.Errorf("got %+v, %v", who, err)
	}
	if _, err := ReadUsers(path + ".absent"); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("got %v", err)
	}
}

func TestParseUsersRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		text   string
		want   []string
	}{
		"unknown key":    {"a typo must not take rights away or give them in silence", "users:\n  - name: dave\n    rolls: {}\n", []string{"u.yaml: line 3: field rolls not found"}},
		"duplicate key":  {"which one counts?", "users: []\nusers: []\n", []string{`mapping key "users" already defined`}},
		"two documents":  {"the second would be lost", goodUsers + "---\nusers: []\n", []string{"more than one YAML document"}},
		"empty":          {"no file at all", "", []string{"u.yaml: EOF"}},
		"no users":       {"nobody could sign in", "users: []\n", []string{"u.yaml:1:8: no users"}},
		"not YAML":       {"syntax", "users: [", []string{"u.yaml: line 1"}},
		"wrong type":     {"a role is in a list", "users:\n  - name: dave\n    roles: {shop: developer}\n", []string{"u.yaml: line 3: cannot unmarshal"}},
		"aliases":        {"a list of lists is no list of roles, however it is written", bomb(), []string{"cannot unmarshal"}},
		"huge":           {"bounded", strings.Repeat("#", maxUsersFile+1), []string{"more than"}},
		"all at once":    {"every problem with its place", "users:\n  - {name: dave, roles: {Shop: [boss]}}\n  - {name: dave}\n  - {name: 'a b'}\n", []string{`u.yaml:2:32: project "Shop"`, `u.yaml:2:33: unknown role "boss": the roles are viewer, developer, approver, admin`, `u.yaml:3:12: user "dave" is there twice`, `u.yaml:4:12: user name "a b"`}},
		"groups":         {"same rules", "users: [{name: dave}]\ngroups:\n  g: {shop: [root]}\n", []string{`u.yaml:3:14: unknown role "root"`}},
		"a plain secret": {"a token itself in the file", "users: [{name: dave}]\ntokens:\n  - {name: ci, user: erin, sha256: davit_x, role: boss, project: Shop}\n", []string{`u.yaml:3:22: token "ci": there is no user "erin"`, "3:36: token \"ci\": sha256 is not", "3:51: unknown role", "3:66: token \"ci\": project \"Shop\"", "3:5: token \"ci\" never expires"}},
		"the same hash":  {"whose is it?", strings.Replace(goodUsers, "tokens:\n", "tokens:\n  - {name: two, user: root, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, role: admin, project: '*', expires: 2027-01-01T00:00:00Z}\n", 1), []string{`token "ci": another token has the same hash`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseUsers("u.yaml", []byte(tc.text))
			if promo.CodeOf(err) != promo.CodeConfiguration {
				t.Fatalf("%s: want a configuration error, got %v", tc.reason, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: want %q in %q", tc.reason, want, err)
				}
			}
			if strings.Contains(err.Error(), "davit_x") {
				t.Errorf("the message repeats a secret: %v", err)
			}
		})
	}
}

// bomb is a small text that unfolds to 10^9 entries.
func bomb() string {
	var b strings.Builder
	b.WriteString("users:\n  - name: x\n    groups: &a0 [x]\n")
	b.WriteString("groups:\n")
	for i := range 9 {
		b.WriteString("  g" + string(rune('0'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.TrimSuffix(strings.Repeat("*a"+string(rune('0'+i))+",", 10), ",") + "]\n")
	}
	return b.String()
}

func FuzzParseUsers(f *testing.F) {
	f.Add(goodUsers)
	f.Add(bomb())
	f.Add("users: [{name: a, roles: {'*': [admin]}}]")
	f.Fuzz(func(t *testing.T, text string) {
		dir, err := ParseUsers("u.yaml", []byte(text))
		if (dir == nil) == (err == nil) {
			t.Errorf("got %v, %v", dir, err)
		}
	})
}

// TestSampleUsers: the sample in examples is one that can be used.
func TestSampleUsers(t *testing.T) {
	t.Parallel()
	dir, err := ReadUsers("../../examples/users.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthorizer(t, dir, nil)
	for _, tc := range []struct {
		user, action, project string
		may                   bool
	}{
		{"dana", PromotionRun, "default", true},
		{"dana", PromotionDecide, "default", false},
		{"riley", PromotionDecide, "default", true},
		{"alex", TokenAdmin, "", true},
		{"ci", PromotionRun, "default", false}, // by its token only
	} {
		who, ok := dir.User(tc.user)
		if !ok {
			t.Fatalf("no user %s", tc.user)
		}
		if err := a.Authorize(t.Context(), who, tc.action, Resource{Kind: "x", Project: tc.project}); (err == nil) != tc.may {
			t.Errorf("%s %s: %v", tc.user, tc.action, err)
		}
	}
}

// TestTokenWithoutRole: a person's token may all that the person may, bindings applied later included.
func TestTokenWithoutRole(t *testing.T) {
	t.Parallel()
	secret, hash := NewSecret()
	dir := NewDirectory([]promo.Principal{{Name: "kim"}}, nil, nil, []Token{{Hash: hash, Name: "laptop", User: "kim"}})
	ctx, who, err := newAuthenticator(t, Options{Source: dir}).Token(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	on := Resource{Kind: "promotion", Project: "shop"}
	if err := newAuthorizer(t, dir, nil).Authorize(ctx, who, PromotionRun, on); promo.CodeOf(err) != promo.CodeAuthorization {
		t.Errorf("without a binding: %v", err)
	}
	more := dir.With([]Binding{{Role: "shop/runner", Project: "shop", Users: []string{"kim"}}}, map[string]Role{"shop/runner": {Actions: []Action{PromotionRun}}})
	if err := newAuthorizer(t, more, nil).Authorize(ctx, who, PromotionRun, on); err != nil {
		t.Errorf("with a binding: %v", err)
	}
	if err := newAuthorizer(t, dir, nil).Authorize(ctx, who, PromotionRun, on); promo.CodeOf(err) != promo.CodeAuthorization {
		t.Errorf("the directory it was made of changed: %v", err)
	}
}

func TestKnownPermission(t *testing.T) {
	t.Parallel()
	for permission, want := range map[string]bool{
		"promotion:run": true, "promotion:*": true, "*:read": true, "*": true, "*:*": true,
		"promotion:rnu": false, "promotio:*": false, "promotion": false, "": false, "*:raed": false,
	} {
		if got := KnownPermission(permission); got != want {
			t.Errorf("%q: %v", permission, got)
		}
	}
}
