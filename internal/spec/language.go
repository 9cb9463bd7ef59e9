package spec

import (
	"slices"
	"sync"

	"github.com/davit-cd/davit/steps"
)

// Language is the language with its step types.
type Language struct {
	types map[string]steps.Type
	kinds []string // of the step types, sorted
	// fields caches fieldsOf by type: reading the tags, patterns above all, costs more than the decoding.
	fields sync.Map
}

// New returns the language with these step types. Of two of the same kind the later one counts.
func New(types []steps.Type) *Language {
	l := &Language{types: make(map[string]steps.Type, len(types))}
	for _, t := range types {
		l.types[t.Kind] = t
	}
	for k := range l.types {
		l.kinds = append(l.kinds, k)
	}
	slices.Sort(l.kinds)
	return l
}

// StepKinds lists the kinds of the step types, sorted.
func (l *Language) StepKinds() []string { return slices.Clone(l.kinds) }
