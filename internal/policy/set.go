package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/promo"
)

// On is an event at which policy sets are evaluated.
type On string

// The events, in the order of a pipeline's life.
const (
	OnSave     On = "save"
	OnRun      On = "run"
	OnStage    On = "stage"
	OnStep     On = "step"
	OnSync     On = "sync"
	OnMerge    On = "merge"
	OnApprove  On = "approve"
	OnRollback On = "rollback"
)

// Events lists every event.
func Events() []On {
	return []On{OnSave, OnRun, OnStage, OnStep, OnSync, OnMerge, OnApprove, OnRollback}
}

// Action says what a policy's deny means in its set.
type Action string

// With ActionWarn, what the module denies is only a warning.
const (
	ActionDeny Action = "deny"
	ActionWarn Action = "warn"
)

// Set binds modules to an entity and to events. Names are unique in their project; Project is empty for the
// account and "org/" for an organisation.
type Set struct {
	Name     string   `json:"name"`
	Project  string   `json:"project,omitempty"`
	Entity   string   `json:"entity"`
	On       []On     `json:"on"`
	Policies []Policy `json:"policies"`
}

// Policy is one module of a set. Rego is its source, also where Module names the file it came from.
type Policy struct {
	Module string `json:"module,omitempty"`
	Rego   string `json:"rego"`
	Action Action `json:"action"`
}

// Hash identifies what the set says; two sets with the same hash decide alike.
func (s Set) Hash() string {
	raw, err := json.Marshal(s)
	if err != nil { // strings only: cannot happen, and an own value keeps such sets apart
		raw = []byte(err.Error() + s.Name)
	}
	return hash(raw)
}

func hash(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// name is what messages call the set's i-th policy.
func (s Set) name(i int) string {
	if m := s.Policies[i].Module; m != "" {
		return m
	}
	return fmt.Sprintf("%s/policies[%d].rego", s.Name, i)
}

// CompiledSet is a Set that can be evaluated, safe for concurrent use.
type CompiledSet struct {
	Set
	hash    string
	modules []*Module
}

// CompileSet checks a set and compiles its modules; every problem is reported at once, as
// promo.CodeConfiguration. A module with neither a deny nor a warn rule is a problem: it would never refuse.
func CompileSet(ctx context.Context, s Set) (*CompiledSet, error) {
	c := &CompiledSet{Set: s, hash: s.Hash()}
	problems := s.check()
	for i, p := range s.Policies {
		m, err := Compile(ctx, Source{Name: s.name(i), Rego: p.Rego})
		switch {
		case err != nil:
			problems = append(problems, err)
		case !m.Decides():
			problems = append(problems, fmt.Errorf("%s: package %q has no rule named deny or warn", s.name(i), m.Package))
		default:
			c.modules = append(c.modules, m)
		}
	}
	if len(problems) > 0 {
		return nil, promo.Errorf(promo.CodeConfiguration, "policy set %q: %w", s.Name, errors.Join(problems...))
	}
	return c, nil
}

func (s Set) check() []error {
	var problems []error
	for _, on := range s.On {
		if !slices.Contains(Events(), on) {
			problems = append(problems, fmt.Errorf("unknown event %q; the events are %s", on, join(Events())))
		}
	}
	if len(s.On) == 0 {
		problems = append(problems, fmt.Errorf("no event in on; the events are %s", join(Events())))
	}
	if len(s.Policies) == 0 {
		problems = append(problems, errors.New("no policies"))
	}
	for i, p := range s.Policies {
		if p.Action != ActionDeny && p.Action != ActionWarn {
			problems = append(problems, fmt.Errorf("policies[%d]: unknown action %q; the actions are deny, warn", i, p.Action))
		}
	}
	return problems
}

func join[T ~string](list []T) string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = string(e)
	}
	return strings.Join(out, ", ")
}
