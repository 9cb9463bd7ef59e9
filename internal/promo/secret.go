package promo

import "log/slog"

// Secret is a value that must never be printed. Reveal gives it to the one place that uses it.
type Secret string

// String returns three asterisks.
func (Secret) String() string { return "***" }

// GoString returns three asterisks.
func (Secret) GoString() string { return "***" }

// LogValue returns three asterisks.
func (Secret) LogValue() slog.Value { return slog.StringValue("***") }

// MarshalText returns three asterisks: a secret never leaves by way of JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Reveal returns the value itself.
func (s Secret) Reveal() string { return string(s) }
