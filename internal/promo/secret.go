package promo

import (
	"fmt"
	"log/slog"
)

// Secret is a value that must never be printed. Reveal gives it to the one place that uses it. It guards itself in
// exported fields only: package fmt does not ask what lies in unexported ones.
type Secret string

// String returns three asterisks.
func (Secret) String() string { return "***" }

// Format prints three asterisks, whatever the verb.
func (Secret) Format(w fmt.State, _ rune) { _, _ = w.Write([]byte("***")) } // fmt keeps what it is given

// LogValue returns three asterisks.
func (Secret) LogValue() slog.Value { return slog.StringValue("***") }

// MarshalText returns three asterisks: a secret never leaves by way of JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Reveal returns the value itself.
func (s Secret) Reveal() string { return string(s) }
