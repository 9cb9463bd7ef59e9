package spec

import (
	"encoding/json"
	"reflect"
	"slices"
)

// folds reports whether an edit is made in the commit of the edit before it: neighbouring edits of one repository
// become one commit, one pull request and one merge. What the later one says must then hold for both.
func folds(first, next *Step) bool {
	if first == nil || first.Type != typeUpdate || next.Type != typeUpdate || first.parsed == nil || next.parsed == nil {
		return false
	}
	runsAlways := func(s *Step) bool { return s.When == "" || s.When == "success" }
	if !runsAlways(first) || !runsAlways(next) || next.Policies != nil || next.Retry != nil || next.OnFailure != nil ||
		next.Timeout != 0 && next.Timeout != first.Timeout {
		return false
	}
	a, b := plainSpec(first), plainSpec(next)
	if b["separate"] == true {
		return false
	}
	for _, key := range append(sortedKeys(a), sortedKeys(b)...) {
		if key == "files" || reflect.DeepEqual(a[key], b[key]) {
			continue
		}
		if _, declared := next.parsed.declared[key]; declared || !slices.Contains(describing(), key) {
			return false
		}
	}
	return true
}

// describing are the keys of an edit that only describe its pull request: the first edit speaks for those that say
// nothing of their own.
func describing() []string {
	return []string{"title", "body", "commitMessage", "labels", "reviewers", "draft"}
}

func plainSpec(s *Step) map[string]any {
	out := map[string]any{}
	if json.Unmarshal(s.parsed.full, &out) != nil {
		return nil
	}
	return out
}
