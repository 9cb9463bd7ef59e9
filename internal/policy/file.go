package policy

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// EvalFile evaluates a module from a file on a JSON document from another, as `davit policy eval` does.
func EvalFile(ctx context.Context, modulePath, inputPath string) (Result, error) {
	source, err := readFile(modulePath, MaxModuleBytes)
	if err != nil {
		return Result{}, err
	}
	m, err := Compile(ctx, Source{Name: modulePath, Rego: string(source)})
	if err != nil {
		return Result{}, err
	}
	raw, err := readFile(inputPath, MaxInputBytes)
	if err != nil {
		return Result{}, err
	}
	return EvalJSON(ctx, m, inputPath, raw)
}

// EvalJSON evaluates a module on a document that is JSON already; name is what messages call the document.
func EvalJSON(ctx context.Context, m *Module, name string, raw []byte) (Result, error) {
	in, err := ParseInput(raw)
	if err != nil {
		return Result{}, promo.Errorf(promo.CodeConfiguration, "%s: %w", name, err)
	}
	return m.EvalAt(ctx, in, time.Now())
}

// readFile reads a file of at most limit bytes.
func readFile(path string, limit int) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // a file that the person at the keyboard named
	if err != nil {
		return nil, fileError(path, err)
	}
	defer f.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, fileError(path, err)
	}
	if len(raw) > limit {
		return nil, promo.Errorf(promo.CodeConfiguration, "%s has more than %d bytes", path, limit)
	}
	return raw, nil
}

func fileError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return promo.Errorf(promo.CodeNotFound, "no file %q", path)
	}
	return promo.Errorf(promo.CodeConfiguration, "%q: %w", path, err)
}
