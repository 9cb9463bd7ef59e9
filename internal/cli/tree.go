package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// sign says a phase in one character.
func sign(p promo.Phase) string {
	switch p {
	case promo.PhaseSucceeded:
		return "✓"
	case promo.PhaseFailed:
		return "✗"
	case promo.PhaseRunning:
		return "▶"
	case promo.PhaseWaitingForApproval:
		return "?"
	case promo.PhasePaused:
		return "‖"
	case promo.PhaseAborted, promo.PhaseSuperseded:
		return "⊘"
	case promo.PhaseSkipped:
		return "↷"
	case promo.PhasePending:
		return "·"
	}
	return "·"
}

// promotionTree draws a promotion.
func (a *app) promotionTree(p promo.Promotion) []string {
	head := fmt.Sprintf("%s %s  %s", sign(p.Phase), a.shortID(p.ID), p.Phase)
	if p.Version != "" {
		head += "  " + p.Service + " " + p.Version
	}
	lines := []string{head + a.took(p.StartedAt, p.FinishedAt)}
	if p.Message != "" {
		lines = append(lines, "  "+p.Message)
	}
	lines = append(lines, errorLines("  ", p.Error)...)
	for i, st := range p.Stages {
		bend, bar := "├─", "│ "
		if i == len(p.Stages)-1 {
			bend, bar = "└─", "  "
		}
		name := st.Name
		if st.Environment != "" && st.Environment != st.Name {
			name += " (" + st.Environment + ")"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s  %s%s", bend, sign(st.Phase), name, st.Phase, a.took(st.StartedAt, st.FinishedAt)))
		if st.Lane != nil && st.Lane.Place > 0 {
			lines = append(lines, fmt.Sprintf("%s   number %d in the queue behind %s", bar, st.Lane.Place, st.Lane.Holder))
		}
		if st.Message != "" {
			lines = append(lines, bar+"   "+st.Message)
		}
		lines = append(lines, errorLines(bar+"   ", st.Error)...)
		lines = append(lines, a.stepLines(bar+" ", st.Steps)...)
	}
	return lines
}

func (a *app) stepLines(indent string, steps []promo.Step) []string {
	var lines []string
	for i, s := range steps {
		bend, bar := "├─", "│ "
		if i == len(steps)-1 {
			bend, bar = "└─", "  "
		}
		lines = append(lines, indent+bend+" "+sign(s.Phase)+" "+stepName(s)+a.took(s.StartedAt, s.FinishedAt))
		if s.Message != "" {
			lines = append(lines, indent+bar+"   "+s.Message)
		}
		if s.Error != nil || s.Phase == promo.PhaseFailed {
			lines = append(lines, errorLines(indent+bar+"   ", s.Error)...)
		}
	}
	return lines
}

func stepName(s promo.Step) string {
	name := s.Name
	if s.Target != "" {
		name += " @" + s.Target
	} else if s.Wave > 0 {
		name += fmt.Sprintf(" (wave %d)", s.Wave)
	}
	return name
}

func errorLines(indent string, e *promo.Error) []string {
	if e == nil {
		return nil
	}
	lines := []string{indent + string(e.Code) + ": " + e.Msg}
	if e.Hint != "" {
		lines = append(lines, indent+"hint: "+e.Hint)
	}
	return lines
}

func (a *app) took(from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	if to.IsZero() {
		to = a.Now()
	}
	return "  " + rough(to.Sub(from))
}

// screen shows states as they come: redrawn in place on a terminal, else a line for each change.
type screen struct {
	a     *app
	drawn int
	seen  map[string]string
}

// tree redraws a promotion in place.
func (s *screen) tree(lines []string) error {
	if rows := s.a.Rows - 1; rows > 2 && len(lines) > rows { // what has scrolled away can't be redrawn
		lines = append([]string{lines[0], "…"}, lines[len(lines)-rows+2:]...)
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", s.drawn) // up to where it began, and clear from there
	}
	for _, line := range lines {
		b.WriteString(cut(clean(strings.ReplaceAll(line, "\n", " ")), s.a.Columns-1) + "\n") // a wrapped line would break the count
	}
	s.drawn = len(lines)
	_, err := fmt.Fprint(s.a.Stdout, b.String())
	return err
}

func cut(line string, width int) string {
	r := []rune(line)
	if width < 20 || len(r) <= width {
		return line
	}
	return string(r[:width-1]) + "…"
}

// changes lists what is new since the last state.
func (s *screen) changes(p promo.Promotion) []string {
	if s.seen == nil {
		s.seen = map[string]string{}
	}
	var lines []string
	note := func(key, phase, message string) {
		if text := phase + "\x00" + message; s.seen[key] != text && phase != string(promo.PhasePending) {
			s.seen[key] = text
			line := key + ": " + phase
			if message != "" {
				line += ": " + message
			}
			lines = append(lines, line)
		}
	}
	id := s.a.shortID(p.ID)
	for _, st := range p.Stages {
		message := st.Message
		if st.Lane != nil && st.Lane.Place > 0 {
			message = fmt.Sprintf("number %d in the queue behind %s", st.Lane.Place, st.Lane.Holder)
		}
		note(id+" "+st.Name, string(st.Phase), message)
		for _, step := range st.Steps {
			message := step.Message
			if step.Error != nil {
				message = step.Error.Error()
			}
			note(id+" "+st.Name+"/"+stepName(step), string(step.Phase), message)
		}
	}
	message := p.Message
	if p.Error != nil {
		message = p.Error.Error()
	}
	note(id, string(p.Phase), message)
	return lines
}
