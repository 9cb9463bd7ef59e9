package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// maxUsersFile bounds the users file; ten thousand users fit.
const maxUsersFile = 4 << 20

// usersFile is the users file: who there is, who has which role where, and tokens by their hash. For example:
//
//	users:
//	  - name: dave
//	    email: dave@example.com
//	    groups: [developers]
//	    roles: {shop: [developer]}          # by project; "*" is every project and the server
//	groups:
//	  release-managers: {"*": [approver]}   # roles of everyone in the group
//	tokens:
//	  - {name: laptop, user: dave, sha256: 60a3…, expires: 2027-01-01T00:00:00Z}    # all that dave may
//	  - {name: ci, user: dave, sha256: 9f86…, role: developer, project: shop, expires: 2027-01-01T00:00:00Z}
type usersFile struct {
	Users  []userEntry                    `yaml:"users"`
	Groups map[string]map[string][]string `yaml:"groups"`
	Tokens []tokenEntry                   `yaml:"tokens"`
}

type userEntry struct {
	Name   string              `yaml:"name"`
	Email  string              `yaml:"email"`
	Groups []string            `yaml:"groups"`
	Roles  map[string][]string `yaml:"roles"`
}

type tokenEntry struct {
	Name    string    `yaml:"name"`
	User    string    `yaml:"user"`
	SHA256  string    `yaml:"sha256"`
	Role    string    `yaml:"role"`
	Project string    `yaml:"project"`
	Expires time.Time `yaml:"expires"`
}

// ReadUsers reads a users file. Every problem is reported at once, with its line, as promo.CodeConfiguration.
func ReadUsers(path string) (*Directory, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own file
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "users file: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxUsersFile+1))
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "users file: %w", err)
	}
	return ParseUsers(path, raw)
}

// ParseUsers is ReadUsers on the file's content; name is what messages call it.
func ParseUsers(name string, raw []byte) (*Directory, error) {
	if len(raw) > maxUsersFile {
		return nil, promo.Errorf(promo.CodeConfiguration, "%s has more than %d bytes", name, maxUsersFile)
	}
	var file usersFile
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		return nil, yamlError(name, err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, promo.Errorf(promo.CodeConfiguration, "%s: more than one YAML document", name)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(raw, &root); err != nil {
		return nil, yamlError(name, err)
	}
	c := usersCheck{name: name, root: &root}
	c.users(file.Users)
	for _, group := range slices.Sorted(maps.Keys(file.Groups)) {
		c.roles(file.Groups[group], "groups", group)
	}
	c.tokens(file)
	if len(c.problems) > 0 {
		return nil, promo.Errorf(promo.CodeConfiguration, "%s", strings.Join(c.problems, "; "))
	}
	return file.directory(), nil
}

// yamlError puts the file's name before each of the decoder's problems, which begin with "line N: ".
func yamlError(name string, err error) error {
	var typed *yaml.TypeError
	if !errors.As(err, &typed) {
		return promo.Errorf(promo.CodeConfiguration, "%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	problems := make([]string, len(typed.Errors))
	for i, p := range typed.Errors {
		problems[i] = name + ": " + p
	}
	return promo.Errorf(promo.CodeConfiguration, "%s", strings.Join(problems, "; "))
}

func (f usersFile) directory() *Directory {
	var users []promo.Principal
	var bindings []Binding
	for _, u := range f.Users {
		users = append(users, promo.Principal{Name: u.Name, Email: u.Email, Groups: u.Groups})
		for _, project := range slices.Sorted(maps.Keys(u.Roles)) {
			for _, role := range u.Roles[project] {
				bindings = append(bindings, Binding{Role: role, Project: project, Users: []string{u.Name}})
			}
		}
	}
	for _, group := range slices.Sorted(maps.Keys(f.Groups)) {
		for _, project := range slices.Sorted(maps.Keys(f.Groups[group])) {
			for _, role := range f.Groups[group][project] {
				bindings = append(bindings, Binding{Role: role, Project: project, Groups: []string{group}})
			}
		}
	}
	var tokens []Token
	for _, t := range f.Tokens {
		tokens = append(tokens, Token{Hash: t.SHA256, Name: t.Name, User: t.User, Role: t.Role, Project: t.Project, Expires: t.Expires})
	}
	return NewDirectory(users, bindings, nil, tokens)
}

// usersCheck collects what is wrong beyond the shape.
type usersCheck struct {
	name     string
	root     *yaml.Node
	problems []string
}

// addf reports a problem at the place that path leads to: keys and indexes from the root.
func (c *usersCheck) addf(path []any, format string, args ...any) {
	line, column := place(c.root, path)
	c.problems = append(c.problems, fmt.Sprintf("%s:%d:%d: %s", c.name, line, column, fmt.Sprintf(format, args...)))
}

func (c *usersCheck) users(users []userEntry) {
	seen := map[string]bool{}
	for i, u := range users {
		switch {
		case !validName(u.Name):
			c.addf([]any{"users", i, "name"}, "user name %q: letters, digits and . _ @ -, at most 100 of them", u.Name)
		case seen[u.Name]:
			c.addf([]any{"users", i, "name"}, "user %q is there twice", u.Name)
		}
		seen[u.Name] = true
		c.roles(u.Roles, "users", i, "roles")
	}
	if len(users) == 0 {
		c.addf([]any{"users"}, "no users: nobody could sign in")
	}
}

func (c *usersCheck) roles(byProject map[string][]string, path ...any) {
	for _, project := range slices.Sorted(maps.Keys(byProject)) {
		at := append(slices.Clone(path), project)
		if !validProject(project) {
			c.addf(at, "project %q: a project's name, or %q for all", project, AllProjects)
		}
		for i, role := range byProject[project] {
			c.role(role, append(slices.Clone(at), i))
		}
	}
}

func (c *usersCheck) role(role string, at []any) {
	if !slices.Contains(Roles(), role) {
		c.addf(at, "unknown role %q: the roles are %s", role, strings.Join(Roles(), ", "))
	}
}

func (c *usersCheck) tokens(f usersFile) {
	known := map[string]bool{}
	for _, u := range f.Users {
		known[u.Name] = true
	}
	hashes := map[string]bool{}
	for i, t := range f.Tokens {
		at := func(key string) []any { return []any{"tokens", i, key} }
		if t.Name == "" {
			c.addf(at("name"), "a token needs a name")
		}
		if !known[t.User] {
			c.addf(at("user"), "token %q: there is no user %q", t.Name, t.User)
		}
		if !validHash(t.SHA256) {
			c.addf(at("sha256"), "token %q: sha256 is not the hex SHA-256 of a token: 64 of 0-9a-f", t.Name)
		} else if hashes[t.SHA256] {
			c.addf(at("sha256"), "token %q: another token has the same hash", t.Name)
		}
		hashes[t.SHA256] = true
		if t.Role == "" && t.Project == "" {
			if t.Expires.IsZero() {
				c.neverExpires(t, at("expires"))
			}
			continue // everything that its user may
		}
		c.role(t.Role, at("role"))
		if !validProject(t.Project) {
			c.addf(at("project"), "token %q: project %q: a project's name, or %q for all", t.Name, t.Project, AllProjects)
		}
		if t.Expires.IsZero() {
			c.neverExpires(t, at("expires"))
		}
	}
}

func (c *usersCheck) neverExpires(t tokenEntry, at []any) {
	c.addf(at, "token %q never expires: give it a time, as in 2027-01-01T00:00:00Z", t.Name)
}

// place follows path as far as it goes and returns that node's position.
func place(node *yaml.Node, path []any) (line, column int) {
	if node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	for _, p := range path {
		next := child(node, p)
		if next == nil {
			break
		}
		node = next
	}
	return max(node.Line, 1), max(node.Column, 1)
}

func child(node *yaml.Node, step any) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	switch s := step.(type) {
	case int:
		if node.Kind == yaml.SequenceNode && s < len(node.Content) {
			return node.Content[s]
		}
	case string:
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == s {
				return node.Content[i+1]
			}
		}
	}
	return nil
}

func validName(s string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$`).MatchString(s)
}

func validProject(s string) bool {
	return s == AllProjects || regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}(/[a-z][a-z0-9-]{0,62})?$`).MatchString(s)
}

func validHash(s string) bool { return regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(s) }
