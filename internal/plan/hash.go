package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Hash returns the hex SHA-256 of the plan. Decisions of people and policies name it.
// encoding/json sorts map keys, so equal plans have equal hashes.
func (p *Plan) Hash() (string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("plan of %q: %w", p.Pipeline, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Stage returns the stage of that name.
func (p *Plan) Stage(name string) (*Stage, bool) {
	i := slices.IndexFunc(p.Stages, func(s Stage) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return &p.Stages[i], true
}

// Target returns the stage's target of that name.
func (s *Stage) Target(name string) (Target, bool) {
	i := slices.IndexFunc(s.Targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return Target{}, false
	}
	return s.Targets[i], true
}

// Steps yields every step and gate below nodes, in order, groups flattened.
func Steps(nodes []Node) []*Step {
	var out []*Step
	for i := range nodes {
		if nodes[i].Step != nil {
			out = append(out, nodes[i].Step)
		}
		out = append(out, Steps(nodes[i].Nodes)...)
	}
	return out
}

// Matches reports whether the strategy answers to code.
func (s Strategy) Matches(code string) bool {
	return slices.Contains(s.Errors, code) || slices.Contains(s.Errors, "All")
}

// CombineDigests makes one digest of several changes, in order; one alone stays itself.
func CombineDigests(digests []string) string {
	if len(digests) == 1 {
		return digests[0]
	}
	if len(digests) == 0 {
		return ""
	}
	h := sha256.New()
	for _, d := range digests {
		h.Write([]byte(d + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil))
}
