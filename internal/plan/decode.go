package plan

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// Decode reads a gate's resolved spec, or a step's outputs, for workflow code.
func Decode[T any](raw json.RawMessage) (T, error) {
	var v T
	if len(raw) == 0 {
		return v, nil
	}
	//workflowcheck:ignore // encoding/json reads the same from the same bytes; only its caches look otherwise
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, promo.Errorf(promo.CodeConfiguration, "spec: %w", err)
	}
	return v, nil
}

// Encode writes outputs; what it is given is made of plain data and can always be written.
func Encode(v any) json.RawMessage {
	//workflowcheck:ignore // encoding/json sorts the keys of maps; only its caches look otherwise
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(fmt.Sprintf(`{"error":%q}`, err.Error()))
	}
	return b
}

// ParseTime reads an RFC 3339 time.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, promo.Errorf(promo.CodeConfiguration, "%q is no time", s).
			WithHint("write it as RFC 3339, such as 2026-01-31T09:00:00Z")
	}
	return t, nil
}
