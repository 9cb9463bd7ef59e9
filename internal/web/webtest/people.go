package webtest

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// People knows callers by "Bearer <name>" and lets a caller do what its name allows: "admin" everything,
// "viewer" every action that ends in ":read". It records what it was asked.
type People struct {
	Asked func(who promo.Principal, action string, on auth.Resource)
}

// Authenticate reads the bearer's name.
func (p People) Authenticate(r *http.Request) (context.Context, promo.Principal, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if c, err := r.Cookie("user"); err == nil {
		name, ok = c.Value, true
	}
	if as := r.Header.Get("Davit-As"); as != "" {
		name = as
	}
	if !ok || !slices.Contains([]string{"admin", "viewer", "developer", "release-manager"}, name) {
		return r.Context(), promo.Principal{}, promo.Errorf(promo.CodeAuthentication, "nobody is signed in").WithHint("send a token")
	}
	return r.Context(), promo.Principal{Name: name, Groups: []string{name + "s"}}, nil
}

// Authorize refuses viewers whatever is not a read.
func (p People) Authorize(_ context.Context, who promo.Principal, action string, on auth.Resource) error {
	if p.Asked != nil {
		p.Asked(who, action, on)
	}
	if who.Name == "viewer" && !strings.HasSuffix(action, ":read") {
		return promo.Errorf(promo.CodeAuthorization, "%q may not %s", who.Name, action)
	}
	return nil
}
