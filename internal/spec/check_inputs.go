package spec

import (
	"fmt"
	"regexp"

	"github.com/davit-cd/davit/internal/spec/expression"
)

// inputs checks the declarations of inputs.
func (c *check) inputs(p *PipelineSpec) {
	for _, name := range sortedKeys(p.Inputs) {
		in, path := p.Inputs[name], "spec.inputs."+name
		if !isName(name) {
			*c.diags = append(*c.diags, c.doc.atKey(path, "inputs", fmt.Sprintf("input can't be %q", name),
				"small letters, digits and hyphens, a letter first, at most 63"))
		}
		c.input(path, in)
	}
}

func (c *check) input(path string, in Input) {
	if in.Type == "" {
		return // missing or wrong, which Parse has said
	}
	if in.Type == "choice" && len(in.Allowed) == 0 {
		c.report(path, "inputs", "a choice needs its values", "add allowed: [..]")
	}
	if in.Type == "boolean" && len(in.Allowed) > 0 {
		c.report(path+".allowed", "inputs", "a boolean is true or false anyway", "leave allowed out")
	}
	if in.Pattern != "" && in.Type != "string" {
		c.report(path+".pattern", "inputs", fmt.Sprintf("a %s has no pattern", in.Type), "patterns are for strings")
	}
	if in.Required && in.Default != nil {
		c.report(path+".default", "inputs", "a required input has no default", "leave one of the two out")
	}
	if _, err := regexp.Compile(in.Pattern); err != nil {
		c.report(path+".pattern", "inputs", fmt.Sprintf("pattern does not compile: %v", err), "write a regular expression in RE2 syntax")
		return
	}
	for i, a := range in.Allowed {
		if _, err := in.convert(a); err != nil {
			c.report(fmt.Sprintf("%s.allowed[%d]", path, i), "inputs", fmt.Sprintf("value doesn't fit the input: %v", err), "")
		}
	}
	if in.Default != nil {
		if _, err := in.fit(in.Default); err != nil {
			c.report(path+".default", "inputs", fmt.Sprintf("default doesn't fit the input: %v", err), "")
		}
	}
}

// triggers have different names, one type each, and give every required input.
func (c *check) triggers(p *PipelineSpec) {
	first := map[string]bool{}
	for i, t := range p.Triggers {
		path := fmt.Sprintf("spec.triggers[%d]", i)
		if first[t.Name] && t.Name != "" {
			c.report(path+".name", "duplicate-name", fmt.Sprintf("trigger %q is declared twice", t.Name), "rename one")
		}
		first[t.Name] = true
		if t.Manual == nil && c.typeless(path) {
			c.report(path, "trigger", fmt.Sprintf("trigger %q has no type", t.Name), "add manual: {}")
		}
		for _, name := range sortedKeys(t.Inputs) {
			c.triggerInput(p, path+".inputs."+name, name, t.Inputs[name])
		}
	}
}

// typeless reports whether a trigger has none of the types of the design either.
func (c *check) typeless(path string) bool {
	for _, f := range fieldsOf(typeOfTrigger()) {
		if _, set := c.doc.nodes[path+"."+f.name]; f.later && set {
			return false
		}
	}
	return true
}

func (c *check) triggerInput(p *PipelineSpec, path, name string, v any) {
	in, ok := p.Inputs[name]
	if !ok {
		c.report(path, "trigger", fmt.Sprintf("pipeline has no input %q", name), expression.Suggest(name, sortedKeys(p.Inputs), "there are"))
		return
	}
	if text, isText := v.(string); isText && expression.Has(text) {
		c.report(path, "not-yet", "expressions in triggers are "+notYet, "give a fixed value")
		return
	}
	if _, err := in.fit(v); err != nil {
		c.report(path, "trigger", fmt.Sprintf("value doesn't fit the input: %v", err), "")
	}
}
