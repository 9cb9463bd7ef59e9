package auth

import (
	"context"
	"crypto/subtle"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// AllProjects is a binding's project that stands for every project and for the server itself.
const AllProjects = "*"

// Binding gives a role in a project (or AllProjects) to users and to everyone in groups.
type Binding struct {
	Role    string   `json:"role"`
	Project string   `json:"project"`
	Users   []string `json:"users"`
	Groups  []string `json:"groups"`
}

// Role is a declared role, beside those that ship. Own are actions on what the principal started.
type Role struct {
	Actions []Action `json:"actions"`
	Own     []Action `json:"own"`
}

// Token is a bearer token. Hash is the hex SHA-256 of its secret, which nobody keeps. It acts as its user, but
// has one role in one project only, whatever the user has; without a Role it may all that its user may.
type Token struct {
	Hash    string
	Name    string
	User    string
	Role    string
	Project string // AllProjects for all
	Expires time.Time
}

// Directory is a snapshot of who there is and who has which role. It is never altered once made.
type Directory struct {
	users    map[string]promo.Principal
	bindings []Binding
	roles    map[string]Role
	tokens   []Token
	byUser   map[string][]int // places in bindings
	byGroup  map[string][]int
}

// DirectorySource gives the directory of the moment; a *Directory is its own.
type DirectorySource interface {
	Directory(ctx context.Context) (*Directory, error)
}

// NewDirectory makes a directory. roles are declared ones, beside those that ship.
func NewDirectory(users []promo.Principal, bindings []Binding, roles map[string]Role, tokens []Token) *Directory {
	d := &Directory{
		users: map[string]promo.Principal{}, bindings: make([]Binding, len(bindings)), roles: roles, tokens: tokens,
		byUser: map[string][]int{}, byGroup: map[string][]int{},
	}
	for _, u := range users {
		d.users[u.Name] = u
	}
	for i, b := range bindings {
		// policies/access sees lists, never null
		d.bindings[i] = Binding{Role: b.Role, Project: b.Project, Users: orNone(b.Users), Groups: orNone(b.Groups)}
		for _, u := range b.Users {
			d.byUser[u] = append(d.byUser[u], i)
		}
		for _, g := range b.Groups {
			d.byGroup[g] = append(d.byGroup[g], i)
		}
	}
	return d
}

// With returns a directory that has more bindings and declared roles; d stays as it is.
func (d *Directory) With(bindings []Binding, roles map[string]Role) *Directory {
	all := maps.Clone(d.roles)
	if all == nil {
		all = map[string]Role{}
	}
	maps.Copy(all, roles)
	return NewDirectory(slices.Collect(maps.Values(d.users)), slices.Concat(d.bindings, bindings), all, d.tokens)
}

// Directory returns d itself.
func (d *Directory) Directory(context.Context) (*Directory, error) { return d, nil }

// User returns a user by name.
func (d *Directory) User(name string) (promo.Principal, bool) {
	u, ok := d.users[name]
	return u, ok
}

// Users lists the users by name.
func (d *Directory) Users() []promo.Principal {
	return slices.SortedFunc(maps.Values(d.users), func(a, b promo.Principal) int { return strings.Compare(a.Name, b.Name) })
}

// bindingsOf picks the bindings that name the principal or one of the groups. It is an index, not a decision: the
// policy checks each of them again.
func (d *Directory) bindingsOf(who promo.Principal) []Binding {
	places := slices.Clone(d.byUser[who.Name])
	for _, g := range who.Groups {
		places = append(places, d.byGroup[g]...)
	}
	slices.Sort(places)
	places = slices.Compact(places)
	out := make([]Binding, len(places))
	for i, p := range places {
		out[i] = d.bindings[p]
	}
	return out
}

// token finds a token by its hash. It compares with every token, each in constant time, so that the time taken
// says nothing about how close a guess was.
func (d *Directory) token(hash string) (Token, bool) {
	var found Token
	ok := false
	for _, t := range d.tokens {
		if subtle.ConstantTimeCompare([]byte(t.Hash), []byte(hash)) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
