package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"
)

// show answers with data: as JSON or YAML where asked for, else as people does.
func (a *app) show(v any, people func() error) error {
	switch a.output {
	case "json":
		enc := json.NewEncoder(a.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	case "yaml":
		b, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("yaml: %w", err)
		}
		_, err = a.Stdout.Write(b)
		return err
	}
	return people()
}

// table writes aligned rows; the first is the heading.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, clean(strings.ReplaceAll(strings.Join(row, "\t"), "\n", " "))); err != nil {
			return err
		}
	}
	return w.Flush()
}

// rowsOf makes a table of a list.
func rowsOf[T any](heading []string, list []T, row func(T) []string) [][]string {
	rows := [][]string{heading}
	for _, item := range list {
		rows = append(rows, row(item))
	}
	return rows
}

func short(sha string) string {
	if len(sha) > 8 {
		return sha[:8]
	}
	return sha
}

// age is how long ago something was, roughly.
func (a *app) age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return rough(a.Now().Sub(t))
}

func rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

func mark(b bool, yes string) string { //nolint:revive // b is a fact, not a mode
	if b {
		return yes
	}
	return ""
}
