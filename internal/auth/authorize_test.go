package auth

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

func newAuthorizer(tb testing.TB, source DirectorySource, owners Owners) *Authorizer {
	tb.Helper()
	a, err := NewAuthorizer(tb.Context(), source, owners)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// oneOfEach has a user of each role in project shop, named after the role.
func oneOfEach() *Directory {
	var users []promo.Principal
	var bindings []Binding
	for _, role := range Roles() {
		users = append(users, promo.Principal{Name: role})
		bindings = append(bindings, Binding{Role: role, Project: "shop", Users: []string{role}})
	}
	return NewDirectory(users, bindings, nil, nil)
}

var update = flag.Bool("update", false, "write the golden files")

// TestAccessMatrix holds who may do what as one table that a person can read and review: the four roles, every
// action, on something of their own, of somebody else, and in a project where they have no role.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	a := newAuthorizer(t, oneOfEach(), nil)
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %-10s %-10s %-10s %-10s\n", "action", "viewer", "developer", "approver", "admin")
	for _, action := range Actions() {
		fmt.Fprintf(&b, "%-22s", action)
		for _, role := range Roles() {
			who := promo.Principal{Name: role}
			may := func(project, owner string) bool {
				err := a.Authorize(t.Context(), who, action, Resource{Kind: "promotion", Project: project, Name: "x", Owner: owner})
				if err != nil && promo.CodeOf(err) != promo.CodeAuthorization {
					t.Fatal(err)
				}
				return err == nil
			}
			word := "-"
			switch {
			case may("shop", "somebody") && !may("shop", role):
				t.Errorf("%s may %s of others but not of their own", role, action)
			case may("shop", "somebody"):
				word = "yes"
			case may("shop", role):
				word = "own"
			}
			if (may("bank", role) || may("", role)) && action != AccountRead {
				t.Errorf("%s of shop may %s elsewhere", role, action)
			}
			fmt.Fprintf(&b, " %-10s", word)
		}
		b.WriteString("\n")
	}
	got := trimLines(b.String())
	if *update {
		if err := os.WriteFile("testdata/matrix.txt", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/matrix.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("run go test ./internal/auth -update and review the table: -want +got:\n%s", diff)
	}
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestRefusalSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	a := newAuthorizer(t, oneOfEach(), nil)
	cases := map[string]struct {
		who  string
		ctx  context.Context //nolint:containedctx // a table
		on   Resource
		want string
	}{
		"a role without it": {"developer", t.Context(), Resource{Project: "shop"}, `"developer" lacks the permission "promotion:decide" in project "shop" (it has developer there; roles with the permission: admin, approver)`},
		"elsewhere":         {"approver", t.Context(), Resource{Project: "bank"}, `"approver" lacks the permission "promotion:decide" in project "bank" (it has no role there; roles with the permission: admin, approver)`},
		"on the server":     {"approver", t.Context(), Resource{}, `"approver" lacks the permission "promotion:decide" on the server (it has no role there; roles with the permission: admin, approver)`},
		"a token": {
			"admin", WithIdentity(t.Context(), Identity{Token: &Token{Name: "ci", Role: RoleViewer, Project: "shop"}}),
			Resource{Project: "shop"},
			`token "ci" of "admin" lacks the permission "promotion:decide" in project "shop" (it has viewer there; roles with the permission: admin, approver)`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := a.Authorize(tc.ctx, promo.Principal{Name: tc.who}, PromotionDecide, tc.on)
			if promo.CodeOf(err) != promo.CodeAuthorization || err.Error() != tc.want {
				t.Errorf("want %s\ngot  %v", tc.want, err)
			}
		})
	}
}

// TestTokenIsBounded: a token has its own role in its own project, whatever its user has.
func TestTokenIsBounded(t *testing.T) {
	t.Parallel()
	dir := NewDirectory([]promo.Principal{{Name: "root", Groups: []string{"admins"}}},
		[]Binding{{Role: RoleAdmin, Project: AllProjects, Users: []string{"root"}, Groups: []string{"admins"}}}, nil, nil)
	a := newAuthorizer(t, dir, nil)
	root, _ := dir.User("root")
	with := func(role, project string) context.Context {
		return WithIdentity(t.Context(), Identity{Principal: root, Token: &Token{Name: "t", User: "root", Role: role, Project: project}})
	}
	cases := map[string]struct {
		ctx    context.Context //nolint:containedctx // a table
		action Action
		on     Resource
		want   bool
	}{
		"no token: admin":                 {t.Context(), DefinitionApply, Resource{Project: "shop"}, true},
		"viewer token reads":              {with(RoleViewer, "shop"), PromotionRead, Resource{Project: "shop"}, true},
		"viewer token doesn't apply":      {with(RoleViewer, "shop"), DefinitionApply, Resource{Project: "shop"}, false},
		"viewer token, other project":     {with(RoleViewer, "shop"), PromotionRead, Resource{Project: "bank"}, false},
		"admin token of a project":        {with(RoleAdmin, "shop"), DefinitionApply, Resource{Project: "shop"}, true},
		"admin token of a project, agent": {with(RoleAdmin, "shop"), AgentAdmin, Resource{}, false},
		"admin token of all, agent":       {with(RoleAdmin, AllProjects), AgentAdmin, Resource{}, true},
		"unknown role":                    {with("boss", AllProjects), PromotionRead, Resource{Project: "shop"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := a.Authorize(tc.ctx, root, tc.action, tc.on); (err == nil) != tc.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

type ownersFunc func(Resource) (string, error)

func (f ownersFunc) Owner(_ context.Context, on Resource) (string, error) { return f(on) }

func TestOwnersAreAskedWhereItMatters(t *testing.T) {
	t.Parallel()
	asked := 0
	a := newAuthorizer(t, oneOfEach(), ownersFunc(func(on Resource) (string, error) {
		asked++
		if on.Name == "broken" {
			return "", promo.Errorf(promo.CodeConnectivity, "the store is away")
		}
		return on.Name, nil
	}))
	dev := promo.Principal{Name: "developer"}
	if err := a.Authorize(t.Context(), dev, PromotionRun, Resource{Project: "shop", Name: "x"}); err != nil || asked != 0 {
		t.Errorf("allowed anyway: got %v, asked %d times", err, asked)
	}
	if err := a.Authorize(t.Context(), dev, PromotionAbort, Resource{Project: "shop", Name: "developer"}); err != nil || asked != 1 {
		t.Errorf("the own run: got %v, asked %d times", err, asked)
	}
	if err := a.Authorize(t.Context(), dev, PromotionAbort, Resource{Project: "shop", Name: "erin"}); promo.CodeOf(err) != promo.CodeAuthorization {
		t.Errorf("another's run: got %v", err)
	}
	if err := a.Authorize(t.Context(), dev, PromotionAbort, Resource{Project: "shop", Name: "broken"}); promo.CodeOf(err) != promo.CodeConnectivity {
		t.Errorf("nobody knows: got %v", err)
	}
	if err := a.Authorize(t.Context(), promo.Principal{}, PromotionAbort, Resource{Project: "shop", Name: ""}); promo.CodeOf(err) != promo.CodeAuthorization {
		t.Errorf("nobody on nothing: got %v", err)
	}
}

func TestGroupsAndDeclaredRoles(t *testing.T) {
	t.Parallel()
	dir := NewDirectory(nil, []Binding{
		{Role: "tester", Project: "shop", Groups: []string{"qa"}},
		{Role: RoleViewer, Project: AllProjects, Groups: []string{"everyone", "qa"}},
	}, map[string]Role{"tester": {Actions: []Action{"fleet:*"}, Own: []Action{PromotionAbort}}, "viewer": {Actions: []Action{"*"}}}, nil)
	a := newAuthorizer(t, dir, nil)
	tina := promo.Principal{Name: "tina", Groups: []string{"qa"}}
	for action, want := range map[Action]bool{FleetSync: true, PromotionRead: true, PromotionRun: false, DefinitionApply: false} {
		if err := a.Authorize(t.Context(), tina, action, Resource{Project: "shop", Name: "x"}); (err == nil) != want {
			t.Errorf("%s: got %v", action, err)
		}
	}
	if err := a.Authorize(t.Context(), promo.Principal{Name: "qa"}, PromotionRead, Resource{Project: "shop"}); err == nil {
		t.Error("a user named like a group is not the group")
	}
}

func TestAuthorizeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newAuthorizer(t, oneOfEach(), nil).Authorize(ctx, promo.Principal{Name: "admin"}, PromotionRun, Resource{Project: "shop"}); err == nil {
		t.Error("nothing was decided, so it must not be allowed")
	}
}

func BenchmarkAuthorize(b *testing.B) {
	var bindings []Binding
	for i := range 5000 {
		bindings = append(bindings, Binding{Role: RoleDeveloper, Project: fmt.Sprintf("p%d", i), Users: []string{fmt.Sprintf("u%d", i%500)}})
	}
	a := newAuthorizer(b, NewDirectory(nil, bindings, nil, nil), nil)
	who := promo.Principal{Name: "u7", Groups: []string{"a", "b"}}
	on := Resource{Kind: "pipeline", Project: "p507", Name: "checkout"}
	for b.Loop() {
		if err := a.Authorize(b.Context(), who, PromotionRun, on); err != nil {
			b.Fatal(err)
		}
	}
}
