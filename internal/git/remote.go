package git

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/davit-cd/davit/internal/promo"
)

// Remote says where a repository is and how to sign in.
type Remote struct {
	// Name tells mirrors apart, so that two projects with different rights never share one: "<project>/<repository>".
	Name string
	// URL is https://…, http://… or file:///…; it must not hold credentials.
	URL  string
	Auth Auth
}

// Auth is a basic or a bearer credential; the zero value signs in as nobody.
type Auth struct {
	Username string
	Password promo.Secret
	Bearer   promo.Secret
}

// parse checks the URL and returns it without a slash at the end.
func (r Remote) parse() (*url.URL, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "repository %q: its url cannot be read", r.Name)
	}
	if u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" {
		return nil, promo.Errorf(promo.CodeConfiguration, "repository %q: its url has scheme %q", r.Name, u.Scheme).
			WithHint("use https, http or file")
	}
	if u.User != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "repository %q: its url holds credentials", r.Name).
			WithHint("name a connector instead")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, promo.Errorf(promo.CodeConfiguration, "repository %q: its url %q has a query or a fragment", r.Name, r.URL)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	switch {
	case u.Scheme == "file" && (u.Host != "" || !filepath.IsAbs(u.Path)):
		return nil, promo.Errorf(promo.CodeConfiguration, "repository %q: url %q is not file:///absolute/path", r.Name, r.URL)
	case u.Scheme != "file" && (u.Host == "" || u.Path == ""):
		return nil, promo.Errorf(promo.CodeConfiguration, "repository %q: url %q has no host or no path", r.Name, r.URL)
	}
	return u, nil
}
