package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/spec/expression"
)

// waves name every target of the environment exactly once.
func (s *stageCheck) waves() {
	st := s.stage
	if st.Environment == "" {
		for key, set := range map[string]bool{
			"waves": len(st.Waves) > 0, "maxParallel": st.MaxParallel != 0, "pauseBetweenWaves": st.PauseBetweenWaves != 0,
			"changes": st.Changes != "", "failFast": st.FailFast != nil,
		} {
			if set {
				s.report(s.path+"."+key, "waves", fmt.Sprintf("%s needs targets, but stage %q has no environment", key, st.Name),
					"name an environment, or leave it out")
			}
		}
		return
	}
	if st.PauseBetweenWaves != 0 && len(st.Waves) < 2 {
		s.report(s.path+".pauseBetweenWaves", "waves", "there is only one wave", "add waves:, or leave the pause out")
	}
	if s.env == nil || len(st.Waves) == 0 {
		return
	}
	var known []string
	for _, t := range s.env.Targets {
		known = append(known, t.Name)
	}
	seen := map[string]bool{}
	for i, wave := range st.Waves {
		if len(wave) == 0 {
			s.report(fmt.Sprintf("%s.waves[%d]", s.path, i), "waves", "wave is empty", "name its targets")
		}
		for j, t := range wave {
			path := fmt.Sprintf("%s.waves[%d][%d]", s.path, i, j)
			switch {
			case !slices.Contains(known, t):
				s.report(path, "waves", fmt.Sprintf("environment %q has no target %q", st.Environment, t),
					expression.Suggest(t, known, "it has"))
			case seen[t]:
				s.report(path, "waves", fmt.Sprintf("target %q stands in more than one place", t), "keep one")
			}
			seen[t] = true
		}
	}
	missing := slices.DeleteFunc(slices.Clone(known), func(t string) bool { return seen[t] })
	if len(missing) > 0 {
		s.report(s.path+".waves", "waves", fmt.Sprintf("waves leave out %s", strings.Join(missing, ", ")), "put every target into a wave")
	}
}

// widest is the number of targets of the widest wave.
func (s *stageCheck) widest() int {
	if s.env == nil {
		return 0
	}
	if len(s.stage.Waves) == 0 {
		return len(s.env.Targets)
	}
	n := 0
	for _, w := range s.stage.Waves {
		n = max(n, len(w))
	}
	return n
}
