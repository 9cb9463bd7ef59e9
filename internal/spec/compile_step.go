package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/steps"
)

// The step types that the language itself has rules for.
const (
	typeUpdate   = "UpdateReleaseRepo"
	typeMerge    = "MergePR"
	typeRevert   = "RevertPR"
	typeApproval = "Approval"
	typePolicy   = "Policy"
	typeWait     = "Wait"
	typeWaitPR   = "WaitForPR"
	typeRollback = "Rollback"
)

// nodes compiles a list of steps; prefix is the path of the groups around it.
func (c *compiler) nodes(list []Step, path, prefix string) []plan.Node {
	var out []plan.Node
	var head *Step // the edit whose commit takes in the next one, too
	var into *plan.Step
	for i := range list {
		s := &list[i]
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case s.Parallel != nil:
			out = append(out, plan.Node{Kind: plan.NodeParallel, Nodes: c.nodes(s.Parallel, at+".parallel", prefix)})
		case s.Group != nil:
			out = append(out, plan.Node{
				Kind: plan.NodeSequence, Name: s.Group.Name,
				Nodes: c.nodes(s.Group.Steps, at+".group.steps", prefix+s.Group.Name+"/"),
			})
		default:
			node := c.step(s, at, prefix)
			if folds(head, s) {
				into.Fold = append(into.Fold, s.Name)
				node.Step.FoldedInto = into.Name
			} else {
				head, into = s, node.Step
			}
			out = append(out, node)
			continue
		}
		head = nil
	}
	return out
}

func (c *compiler) step(s *Step, path, prefix string) plan.Node {
	t := c.lang.types[s.Type]
	kind := plan.NodeStep
	if t.Gate {
		kind = plan.NodeGate
	}
	place := c.doc.at(path, "", "", "")
	return plan.Node{Kind: kind, Name: s.Name, Step: &plan.Step{
		Name:      s.Name,
		Path:      prefix + s.Name,
		Type:      s.Type,
		Scope:     t.Scope,
		Agent:     t.Agent,
		Mutates:   t.Mutates != nil && t.Mutates(s.parsed.full),
		Class:     t.Class,
		Spec:      s.parsed.full,
		When:      when(s.When),
		Timeout:   timeout(s, t),
		Retry:     retry(s.Retry),
		OnFailure: strategies(s.OnFailure),
		Policies:  s.Policies,
		Position:  fmt.Sprintf("%s:%d:%d", place.File, place.Line, place.Column),
	}}
}

// timeout is the step's own, or the one that the type's spec declares, or the type's.
func timeout(s *Step, t steps.Type) time.Duration {
	if s.Timeout > 0 {
		return s.Timeout.Std()
	}
	if text, ok := s.parsed.declared["timeout"].(string); ok {
		if d, err := plan.ParseDuration(text); err == nil && d > 0 {
			return d.Std()
		}
	}
	return t.Timeout
}

// The defaults of a retry: soon enough for a hiccup, and never so dense that it adds to an overload.
const (
	defaultBackoff    = 10 * time.Second
	defaultMaxBackoff = 5 * time.Minute
)

func retry(r *Retry) *plan.Retry {
	if r == nil {
		return nil
	}
	out := &plan.Retry{Attempts: r.Attempts, Backoff: r.Backoff.Std(), MaxBackoff: r.MaxBackoff.Std(), On: r.On}
	if out.Backoff == 0 {
		out.Backoff = defaultBackoff
	}
	if out.MaxBackoff == 0 {
		out.MaxBackoff = max(defaultMaxBackoff, out.Backoff)
	}
	return out
}

// prologue counts the leading nodes that run once for the stage. See "How a stage with several waves is cut" in
// plan/doc.go.
func prologue(s *plan.Stage) int {
	if len(s.Waves) == 0 {
		return len(s.Nodes)
	}
	if s.Changes == plan.ChangesOnce {
		return indexOr(s.Nodes, func(st *plan.Step) bool { return st.Scope == plan.ScopeTarget })
	}
	begin := indexOr(s.Nodes, func(st *plan.Step) bool { return st.Scope != plan.ScopeStage || st.Mutates })
	end := indexOr(s.Nodes, func(st *plan.Step) bool { return st.Mutates })
	for i := end - 1; i >= begin; i-- {
		if nodeHas(&s.Nodes[i], askedOncePerStage) {
			return i + 1
		}
	}
	return begin
}

// indexOr is the index of the first node with such a step, the number of nodes where there is none.
func indexOr(nodes []plan.Node, is func(*plan.Step) bool) int {
	i := slices.IndexFunc(nodes, func(n plan.Node) bool { return nodeHas(&n, is) })
	if i < 0 {
		return len(nodes)
	}
	return i
}

func nodeHas(n *plan.Node, is func(*plan.Step) bool) bool {
	return slices.ContainsFunc(plan.Steps([]plan.Node{*n}), is)
}

// askedOncePerStage reports whether a step is an approval over the diffs of all waves.
func askedOncePerStage(s *plan.Step) bool {
	var spec plan.ApprovalSpec
	return s.Type == typeApproval && json.Unmarshal(s.Spec, &spec) == nil && spec.Each != "wave"
}
