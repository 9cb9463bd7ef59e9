// Package main writes the reference pages that are made from the code: the step types, the kinds, the command line,
// the JSON Schema and the OpenAPI document. A test fails, with the command to run, when a page is stale.
//
// It must not say anything of its own: words come from the code, and from intro.md where code has none. Start
// reading at Pages.
//
//go:generate go run .
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// root is the checkout, seen from this folder, where `go generate` runs.
const root = "../.."

func main() {
	if err := write(root); err != nil {
		_, _ = io.WriteString(os.Stderr, "docsgen: "+err.Error()+"\n") //nolint:forbidigo // a program of its own
		os.Exit(1)                                                     //nolint:forbidigo // a program of its own
	}
}

func write(dir string) error {
	pages, err := Pages()
	if err != nil {
		return err
	}
	for name, text := range pages {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // pages are for everybody
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
