package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// Resolve evaluates a condition and specs. Expressions are never evaluated in workflow code nor on agents.
func Resolve(_ context.Context, req contract.ResolveRequest) (contract.ResolveResult, error) {
	var vars map[string]any
	dec := json.NewDecoder(bytes.NewReader(req.Vars))
	if err := dec.Decode(&vars); err != nil {
		return contract.ResolveResult{}, promo.Errorf(promo.CodeInternal, "%s: variables: %w", req.Where, err)
	}
	if req.When != "" {
		ok, err := expression.Bool(req.When, vars)
		if err != nil {
			return contract.ResolveResult{}, promo.Errorf(promo.CodeConfiguration, "%s: when: %w", req.Where, err)
		}
		if !ok {
			return contract.ResolveResult{Run: false}, nil
		}
	}
	spec, err := join(req, vars)
	if err != nil {
		return contract.ResolveResult{}, promo.Errorf(promo.CodeOf(err), "%s: %w", req.Where, err)
	}
	return contract.ResolveResult{Run: true, Spec: spec}, nil
}

// join resolves the specs and joins the `files` of folded edits, in order, into the first.
func join(req contract.ResolveRequest, vars map[string]any) (json.RawMessage, error) {
	if len(req.Specs) == 0 {
		return nil, nil
	}
	var first map[string]json.RawMessage
	var files []json.RawMessage
	for i, raw := range req.Specs {
		if len(raw) == 0 {
			raw = json.RawMessage("{}")
		}
		var spec map[string]json.RawMessage
		if err := json.Unmarshal(raw, &spec); err != nil {
			return nil, promo.Errorf(promo.CodeInternal, "spec: %w", err)
		}
		entries, err := perTarget(spec["files"], req, vars)
		if err != nil {
			return nil, err
		}
		files = append(files, entries...)
		delete(spec, "files")
		if i == 0 {
			first = spec
		}
	}
	rest, err := json.Marshal(first)
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "spec: %w", err)
	}
	resolved, err := expression.Resolve(rest, vars)
	if err != nil || len(files) == 0 {
		return resolved, err
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(resolved, &out); err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "spec: %w", err)
	}
	if out["files"], err = json.Marshal(files); err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "spec: %w", err)
	}
	return json.Marshal(out)
}

// perTarget resolves the entries of `files`; one that speaks of `target` becomes one per target.
func perTarget(raw json.RawMessage, req contract.ResolveRequest, vars map[string]any) ([]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "files: %w", err)
	}
	var out []json.RawMessage
	for _, e := range entries {
		if len(req.Targets) == 0 || !expression.MentionsJSON(e, "target") {
			r, err := expression.Resolve(e, vars)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
			continue
		}
		for _, t := range req.Targets {
			r, err := expression.Resolve(e, with(vars, "target", t))
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// with is vars and one more, in the form that JSON gives it.
func with(vars map[string]any, name string, v any) map[string]any {
	out := make(map[string]any, len(vars)+1)
	maps.Copy(out, vars)
	b, err := json.Marshal(v)
	if err == nil {
		var m any
		if json.Unmarshal(b, &m) == nil {
			out[name] = m
		}
	}
	return out
}
