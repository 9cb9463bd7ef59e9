// Package cli is the davit command: one file per command, each a thin client of REST (lint, explain, schema and
// policy work without a server). `up` starts the server that is injected.
//
// Standard output is the answer, standard error the rest; -o json|yaml is stable. The exit code says how it went
// (exit.go). It must not know Temporal, Git or the store, and touches the process only through Process.
//
// Start reading at Execute, then client.go.
package cli
