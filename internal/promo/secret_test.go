package promo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/promo"
)

// format keeps vet from seeing a verb that is wrong on purpose.
func format(verb string) string { return verb }

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const value = "hunter2-hunter2"
	s := promo.Secret(value)
	holder := struct {
		Name  string       `json:"name"`
		Token promo.Secret `json:"token"`
	}{"x", s}
	marshal := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	logged := func(h func(*bytes.Buffer) slog.Handler) string {
		var b bytes.Buffer
		slog.New(h(&b)).Info("m", "secret", s, "holder", holder, slog.Group("g", "s", s), "pointer", &s)
		return b.String()
	}
	for name, got := range map[string]string{
		"%s": fmt.Sprintf("%s", s), "%v": fmt.Sprintf("%v", s), "%q": fmt.Sprintf("%q", s), "%#v": fmt.Sprintf("%#v", s),
		"%d": fmt.Sprintf(format("%d"), s), "%t": fmt.Sprintf(format("%t"), s), "%x": fmt.Sprintf("%x", s), "pointer": fmt.Sprintf("%v", &s), "Sprint": fmt.Sprint(s),
		"%v in a struct": fmt.Sprintf("%v", holder), "%+v in a struct": fmt.Sprintf("%+v", holder), "%#v in a struct": fmt.Sprintf("%#v", holder),
		"slice": fmt.Sprintf("%v", []promo.Secret{s}), "map": fmt.Sprintf("%+v", map[string]promo.Secret{"a": s}),
		"json": marshal(s), "json in a struct": marshal(holder), "json map value": marshal(map[string]promo.Secret{"a": s}),
		"slog text": logged(func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) }),
		"slog json": logged(func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) }),
		"error":     promo.Errorf(promo.CodeAuthentication, "token %q refused: %w", s, errors.New("no")).Error(),
	} {
		hexed := fmt.Sprintf("%x", value)
		if strings.Contains(got, value) || strings.Contains(got, hexed) || got == "" {
			t.Errorf("%s prints %q", name, got)
		}
	}
	if s.Reveal() != value {
		t.Error("the one place that needs the secret does not get it")
	}
}
