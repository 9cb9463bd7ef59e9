package expression

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the name that was probably meant: the one at an edit distance of at most two, "" where none is
// that near. Of equals the first in order wins.
func Nearest(name string, known []string) string {
	best, distance := "", 3
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := editDistance(name, k); d < distance && d < max(len(k), len(name)) {
			best, distance = k, d
		}
	}
	return best
}

// editDistance counts inserted, dropped, changed and swapped bytes; beyond 2 it only says "more than 2".
func editDistance(a, b string) int {
	if strings.EqualFold(a, b) && a != b {
		return 1
	}
	if len(a)-len(b) > 2 || len(b)-len(a) > 2 || len(a) > 128 {
		return 3
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// suggest writes the hint for an unknown name: the nearest known one, or what there is.
func suggest(name string, known []string, what string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return ""
	}
	const many = 12 // a longer list is not read
	if len(known) > many {
		return fmt.Sprintf("%s: %s, …", what, strings.Join(known[:many], ", "))
	}
	return fmt.Sprintf("%s: %s", what, strings.Join(known, ", "))
}

// Suggest writes the hint for an unknown name: the nearest known one, or what there is; what introduces the list.
func Suggest(name string, known []string, what string) string {
	return suggest(name, slices.Sorted(slices.Values(known)), what)
}
