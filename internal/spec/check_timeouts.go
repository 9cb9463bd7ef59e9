package spec

import (
	"fmt"
	"slices"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// timeouts checks the times of a stage and its steps.
func (s *stageCheck) timeouts() {
	s.positive(s.path + ".timeout")
	s.positive(s.path + ".pauseBetweenWaves")
	for _, p := range s.steps {
		s.positive(p.path + ".timeout")
		if p.step.parsed == nil {
			continue
		}
		_, inSpec := p.step.parsed.declared["timeout"]
		if inSpec && p.step.Timeout != 0 {
			s.report(p.path+".timeout", "timeout", fmt.Sprintf("step %q has two timeouts", p.step.Name), "keep one of them")
		}
		if p.step.Type == typeWait && len(p.step.parsed.declared) == 0 {
			s.report(p.path, "step-spec", "wait for what?", "add spec: {duration: 10m} or {until: …}")
		}
		s.retry(p)
	}
}

// positive refuses 0s, where the key is there.
func (s *stageCheck) positive(path string) {
	n, set := s.doc.nodes[path]
	if !set {
		return
	}
	if d, err := plan.ParseDuration(n.Value); err == nil && d == 0 {
		s.report(path, "timeout", "duration is zero", "give it a length, or leave it out for the default")
	}
}

func (s *stageCheck) retry(p placed) {
	r := p.step.Retry
	if r == nil {
		return
	}
	if p.typ.Gate {
		s.report(p.path+".retry", "retry", fmt.Sprintf("a gate such as %s can't be retried", p.step.Type), "leave retry: out")
	}
	if r.MaxBackoff != 0 && r.MaxBackoff < r.Backoff {
		s.report(p.path+".retry.maxBackoff", "retry", fmt.Sprintf("maxBackoff %s is less than backoff %s", r.MaxBackoff, r.Backoff), "make it longer")
	}
	s.codes(p.path+".retry.on", r.On)
}

// codes checks names of errors.
func (c *check) codes(path string, names []string) {
	var known []string
	for _, code := range promo.Codes() {
		known = append(known, string(code))
	}
	for i, name := range names {
		if !slices.Contains(known, name) {
			c.report(fmt.Sprintf("%s[%d]", path, i), "error-code", fmt.Sprintf("unknown error %q", name),
				expression.Suggest(name, known, "there are"))
		}
	}
}
