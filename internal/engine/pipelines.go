package engine

import (
	"context"
	"fmt"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
)

// Pipelines lists the pipelines of a project by name.
func (r Runs) Pipelines(ctx context.Context, _ promo.Principal, project string) ([]api.Pipeline, error) {
	v, err := r.Catalog.View(ctx)
	if err != nil {
		return nil, err
	}
	var out []api.Pipeline
	for _, name := range v.Defs.Names(spec.KindPipeline, project) {
		p, ok := v.Defs.Pipeline(project, name)
		if !ok {
			continue
		}
		one := api.Pipeline{Name: name, Service: p.Service}
		for _, s := range p.Stages {
			one.Stages = append(one.Stages, s.Name)
		}
		for _, input := range sortedNames(p.Inputs) {
			in := p.Inputs[input]
			declared := api.PipelineInput{
				Name: input, Type: in.Type, Required: in.Required, Pattern: in.Pattern, Default: in.Default, Description: in.Description,
			}
			for _, a := range in.Allowed {
				declared.Allowed = append(declared.Allowed, fmt.Sprint(a))
			}
			one.Inputs = append(one.Inputs, declared)
		}
		out = append(out, one)
	}
	return out, nil
}
