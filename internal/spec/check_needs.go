package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/spec/expression"
)

// needs checks the graph of stages and returns, for each stage, all that it needs, directly or not.
func (c *check) needs(p *PipelineSpec) map[string][]string {
	direct := map[string][]string{}
	var all []string
	for i := range p.Stages {
		all = append(all, p.Stages[i].Name)
	}
	for i := range p.Stages {
		s := &p.Stages[i]
		for j, need := range needs(p.Stages, i) {
			path := fmt.Sprintf("%s.needs[%d]", stagePath(i), j)
			switch {
			case need == s.Name && s.Needs == nil:
				continue // two stages of one name stand beside each other, which is reported elsewhere
			case !slices.Contains(all, need):
				c.report(path, "needs", fmt.Sprintf("unknown stage %q", need), expression.Suggest(need, all, "there are"))
				continue
			case slices.Contains(direct[s.Name], need):
				c.report(path, "needs", fmt.Sprintf("stage %q is named twice", need), "keep one")
				continue
			}
			direct[s.Name] = append(direct[s.Name], need)
		}
	}
	c.cycles(p, direct)
	graph := map[string][]string{}
	for _, name := range all {
		graph[name] = reach(direct, name)
	}
	c.unreachable(p)
	return graph
}

// reach lists what can be reached from a stage, sorted, itself only where it is in a cycle.
func reach(direct map[string][]string, from string) []string {
	seen := map[string]bool{}
	todo := slices.Clone(direct[from])
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[next] {
			seen[next] = true
			todo = append(todo, direct[next]...)
		}
	}
	return sortedKeys(seen)
}

// cycles reports each cycle once, at its first stage.
func (c *check) cycles(p *PipelineSpec, direct map[string][]string) {
	reported := map[string]bool{}
	for i := range p.Stages {
		name := p.Stages[i].Name
		if reported[name] || !slices.Contains(reach(direct, name), name) {
			continue
		}
		var ring []string
		for _, other := range reach(direct, name) {
			if slices.Contains(reach(direct, other), name) {
				ring = append(ring, other)
				reported[other] = true
			}
		}
		c.report(stagePath(i)+".needs", "needs", fmt.Sprintf("stages %s need each other, so none of them can start", strings.Join(ring, ", ")),
			"break the cycle")
	}
}

// unreachable finds stages that can never run.
func (c *check) unreachable(p *PipelineSpec) {
	for i := range p.Stages {
		s := &p.Stages[i]
		w := when(s.When)
		if w.On == "failure" && len(needs(p.Stages, i)) == 0 {
			c.report(stagePath(i)+".when", "needs", fmt.Sprintf("stage %q runs after a failure, but needs no stage that could fail", s.Name),
				"add needs:, or leave when: out")
		}
		if w.Expr == "false" {
			c.report(stagePath(i)+".when", "needs", fmt.Sprintf("stage %q can never run", s.Name), "take it out")
		}
	}
}
