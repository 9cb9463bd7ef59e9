package plan

import (
	"encoding/json"
	"fmt"

	"github.com/davit-cd/davit/internal/promo"
)

// Place is where in the run an expression stands. Target is nil outside target-scoped steps, Wave 0 where
// the step runs once for the stage.
type Place struct {
	Stage  *Stage
	Target *Target
	Wave   int
}

// Vars is what expressions at a place may use, as JSON: inputs, release, service, environment, target, stages,
// steps, trigger, run (pipeline-language, "Expressions").
func (p *Plan) Vars(run RunInfo, state []promo.Stage, at Place) (json.RawMessage, error) {
	stages := map[string]any{}
	steps := map[string]any{}
	for i := range state {
		st := &state[i]
		outs := outputs(st.Steps, at, st.Name == at.Stage.Name)
		if st.Name == at.Stage.Name {
			steps = outs
		}
		stages[st.Name] = map[string]any{"phase": st.Phase, "steps": outs}
	}
	vars := map[string]any{
		"inputs":  p.Inputs,
		"release": p.Release,
		"service": map[string]any{"name": p.Service.Name, "path": p.Service.Path, "branch": p.Service.Branch, "repository": p.Repository.Name},
		"stages":  stages,
		"steps":   steps,
		"trigger": p.Trigger,
		"run": map[string]any{
			"id": run.ID, "number": run.Number, "triggeredBy": run.TriggeredBy.Name, "startedAt": run.StartedAt,
		},
	}
	if at.Stage.Environment != nil {
		vars["environment"] = at.Stage.Environment
	}
	if at.Target != nil {
		vars["target"] = at.Target
	}
	//workflowcheck:ignore // encoding/json sorts the keys of maps; only its caches look otherwise
	b, err := json.Marshal(vars)
	if err != nil {
		return nil, fmt.Errorf("variables of stage %q: %w", at.Stage.Name, err)
	}
	return b, nil
}

// outputs picks, for each step name, the execution nearest to the place: same target, then same wave, then the
// one of the whole stage, then any. Executions of several targets are all under "targets".
func outputs(steps []promo.Step, at Place, same bool) map[string]any {
	out := map[string]any{}
	ranks := map[string]int{}
	for i := range steps {
		st := &steps[i]
		m, known := out[st.Name].(map[string]any)
		if !known {
			m = map[string]any{}
			out[st.Name], ranks[st.Name] = m, -1
		}
		if len(st.Outputs) == 0 {
			continue
		}
		if st.Target != "" {
			targets, _ := m["targets"].(map[string]json.RawMessage)
			if targets == nil {
				targets = map[string]json.RawMessage{}
				m["targets"] = targets
			}
			targets[st.Target] = st.Outputs
		}
		if r := nearness(st, at, same); r > ranks[st.Name] {
			ranks[st.Name], m["outputs"] = r, st.Outputs
		}
	}
	return out
}

func nearness(st *promo.Step, at Place, same bool) int {
	switch {
	case same && at.Target != nil && st.Target == at.Target.Name:
		return 3
	case same && at.Wave != 0 && st.Wave == at.Wave:
		return 2
	case st.Target == "" && st.Wave == 0:
		return 1
	default:
		return 0
	}
}
