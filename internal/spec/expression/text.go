package expression

import (
	"fmt"
	"strings"
)

// Part is a piece of a text: words as they are, or the inside of one ${{ … }}.
type Part struct {
	// Text is the words, or the expression without its braces and outer spaces.
	Text string
	// Expr tells the two apart.
	Expr bool
	// Offset is where Text begins in the whole, in bytes.
	Offset int
}

const (
	opening = "${{"
	closing = "}}"
)

// Has reports whether the text holds an expression.
func Has(text string) bool { return strings.Contains(text, opening) }

// Split cuts a text into words and expressions. A brace inside quotes or inside a map ends nothing.
func Split(text string) ([]Part, *Error) {
	var parts []Part
	for at := 0; at < len(text); {
		open := strings.Index(text[at:], opening)
		if open < 0 {
			return append(parts, Part{Text: text[at:], Offset: at}), nil
		}
		if open > 0 {
			parts = append(parts, Part{Text: text[at : at+open], Offset: at})
		}
		start := at + open + len(opening)
		length := endOf(text[start:])
		if length < 0 {
			return nil, &Error{Offset: at + open, Length: len(opening), Msg: "expression is never closed", Hint: "end it with }}"}
		}
		inside := text[start : start+length]
		trimmed := strings.TrimLeft(inside, " \t\r\n")
		parts = append(parts, Part{
			Text: strings.TrimRight(trimmed, " \t\r\n"), Expr: true, Offset: start + len(inside) - len(trimmed),
		})
		at = start + length + len(closing)
	}
	return parts, nil
}

// endOf returns where the closing braces stand, -1 where they are missing.
func endOf(s string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == '\\' && quote != '`' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == '}' && strings.HasPrefix(s[i:], closing):
			return i
		}
	}
	return -1
}

// Whole returns the expression where the text is exactly one; its value keeps its type.
func Whole(text string) (Part, bool) {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, opening) {
		return Part{}, false
	}
	parts, err := Split(trimmed)
	if err != nil || len(parts) != 1 {
		return Part{}, false
	}
	p := parts[0]
	p.Offset += strings.Index(text, opening)
	return p, true
}

// Error is something wrong in an expression: where, what, and what would be right.
type Error struct {
	// Offset and Length are bytes in the text that was given.
	Offset, Length int
	Msg, Hint      string
}

// Error returns message and hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return fmt.Sprintf("%s (%s)", e.Msg, e.Hint)
}

func (e *Error) shift(by int) *Error {
	c := *e
	c.Offset += by
	return &c
}
