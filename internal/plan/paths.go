package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/promo"
)

// OwnedPaths are the places in a release repository that a stage may write: from the repository's root, without
// a slash at either end; "" is the root itself.
type OwnedPaths struct {
	Service     string
	Environment string
	Owned       []string
	Shared      []string
}

// OwnedPaths returns what the service owns in an environment.
func (s Service) OwnedPaths(environment string) OwnedPaths {
	return OwnedPaths{Service: s.Name, Environment: environment, Owned: s.Owned[environment], Shared: s.Shared}
}

// Allow reports whether a file may be written; path is from the repository's root. Shared is the file entry's
// `shared: true`, which opens the shared paths instead of the owned ones. The error is of code Configuration and
// says what would be allowed. Expressions in paths are known only at run time, so the step calls this again.
func (o OwnedPaths) Allow(path string, shared bool) error { //nolint:revive // shared is a fact about the file entry, not a mode
	if why := BadPath(path); why != "" {
		return promo.Errorf(promo.CodeConfiguration, "path %q %s", path, why).
			WithHint("write a plain path inside the repository, such as \"prod/values.yaml\"")
	}
	if shared {
		return o.within(path, o.Shared, "shared paths")
	}
	if slices.ContainsFunc(o.Shared, func(p string) bool { return Below(path, p) }) && !o.covers(path) {
		return promo.Errorf(promo.CodeConfiguration, "path %q is shared by every environment of service %q", path, o.Service).
			WithHint("say `shared: true` in the file entry if that is meant")
	}
	return o.within(path, o.Owned, fmt.Sprintf("paths of environment %q", o.Environment))
}

func (o OwnedPaths) covers(path string) bool {
	return slices.ContainsFunc(o.Owned, func(p string) bool { return Below(path, p) })
}

func (o OwnedPaths) within(path string, allowed []string, what string) error {
	if slices.ContainsFunc(allowed, func(p string) bool { return Below(path, p) }) {
		return nil
	}
	e := promo.Errorf(promo.CodeConfiguration, "path %q is outside the %s in service %q", path, what, o.Service)
	if len(allowed) == 0 {
		return e.WithHint("the service declares none")
	}
	return e.WithHint("allowed is what lies below %s", strings.Join(allowed, ", "))
}

// BadPath says what is wrong with a path inside a repository, "" where nothing is.
func BadPath(path string) string {
	switch {
	case path == "":
		return "is empty"
	case strings.HasPrefix(path, "/"):
		return "is absolute"
	case strings.ContainsAny(path, "\\\x00\n\r"):
		return "holds a backslash or a control character"
	}
	for seg := range strings.SplitSeq(strings.TrimSuffix(path, "/"), "/") {
		switch {
		case seg == "..":
			return "leaves the tree"
		case seg == "." || seg == "":
			return "has an empty segment"
		case strings.EqualFold(seg, ".git"):
			return "points into .git"
		}
	}
	return ""
}

// JoinPath puts path below dir. It cleans nothing: BadPath judges the result.
func JoinPath(dir, path string) string {
	dir = strings.Trim(dir, "/")
	path = strings.TrimSuffix(path, "/")
	switch {
	case dir == "":
		return path
	case path == "" || path == ".":
		return dir
	}
	return dir + "/" + path
}

// Below reports whether path is dir or lies in it, segment by segment; everything lies below "".
func Below(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir+"/")
}
