package steps

import (
	"encoding/json"
	"fmt"
)

// SecretName refers to a secret of the server's configuration: {secret: NAME} in YAML. It never holds the value;
// activities resolve it last, just before use.
type SecretName struct {
	// Secret is the name under which the server's configuration knows the secret.
	Secret string `json:"secret" jsonschema:"required"`
}

// Text is a text that may be a secret: a string, or {secret: NAME}. Only fields of this type and of SecretName
// accept a secret.
type Text struct {
	Value  string
	Secret string
}

// MarshalJSON writes the string, or the reference to the secret.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.Secret != "" {
		return json.Marshal(SecretName{Secret: t.Secret})
	}
	return json.Marshal(t.Value)
}

// UnmarshalJSON reads a string or {"secret": NAME}.
func (t *Text) UnmarshalJSON(b []byte) error {
	*t = Text{}
	if err := json.Unmarshal(b, &t.Value); err == nil {
		return nil
	}
	var ref SecretName
	if err := json.Unmarshal(b, &ref); err != nil || ref.Secret == "" {
		return fmt.Errorf("needs a text or {secret: NAME}")
	}
	t.Secret = ref.Secret
	return nil
}
