// Package examples holds pipelines that people can run; `davit up --demo` runs quickstart. Start reading at
// quickstart/README.md.
package examples

import "embed"

// Quickstart is the demo: its definitions (davit), the seed of its release repository (deploy) and the applications
// of its clusters (clusters).
//
//go:embed all:quickstart
var Quickstart embed.FS
