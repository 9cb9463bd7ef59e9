package spec

// Rule is one thing that is checked.
type Rule struct {
	Name string
	// Doc says in one line what must hold.
	Doc string
	// Shape is true where the JSON Schema knows the rule too; the others only the checker can know.
	Shape bool
}

// Rules lists every rule, for the reference page. Each has its pair of files in testdata.
func Rules() []Rule {
	return []Rule{
		{"yaml", "a file is UTF-8 and YAML without tags, merge keys and numbers that would change", false},
		{"size", "a file has at most 1 MB, a document at most 50,000 values and 64 levels", false},
		{"duplicate-key", "a key stands once in its map", false},
		{"unknown-key", "only known keys", true},
		{"required", "what is needed is there, and is not empty", true},
		{"type", "values are of the kind that is asked for", true},
		{"value", "values are among those allowed", true},
		{"names", "names are small letters, digits and hyphens, a letter first, at most 63", true},
		{"duration", "durations have a unit", true},
		{"not-yet", "kinds, fields and values that this version has", true},
		{"step-type", "step types that there are", true},
		{"duplicate-name", "documents of a kind, stages, steps of a stage, targets and triggers have different names", false},
		{"step-shape", "an entry of steps is a step, a parallel group or a group", false},
		{"step-spec", "what the step type itself demands of its spec", false},
		{"reference", "names stand for something in the project", false},
		{"policy-set", "a policy is a module or a text", false},
		{"inputs", "inputs and their defaults fit their types", false},
		{"trigger", "triggers have a type and give inputs that there are", false},
		{"needs", "stages form a graph without cycles, and each can run", false},
		{"environment", "a stage has the environment and the steps that its type needs", false},
		{"waves", "waves name every target of the environment exactly once", false},
		{"changes", "changes are cut as `changes` says, and a merge has something to merge", false},
		{"path", "paths stay inside the repository", false},
		{"owned-paths", "owned paths do not overlap, and steps write only there", false},
		{"url", "addresses name a host and hold no password", false},
		{"blind-gate", "a gate in front of a merge has seen the change (a warning)", false},
		{"timeout", "timeouts are longer than nothing and said once", false},
		{"retry", "retries make sense for the step", false},
		{"error-code", "errors that there are", false},
		{"strategy", "every failure strategy can act", false},
		{"expression", "expressions name what is in scope at their place, and fit it", false},
	}
}
