// Package agent is what runs beside a GitOps engine: it dials the server's gateway, runs the steps that touch
// the engine as Temporal activities, and reports the applications it sees. It opens no port.
//
// The agent believes the server only so far. Its own configuration says which capabilities it offers, which
// projects it serves and which applications consent to be driven (the annotation ConsentAnnotation, or
// a label selector); nothing that the server sends widens that. The package must not know how the engine works,
// nor anything of Davit's store, Git or forge.
//
// Start reading at Agent.Run, then work.go (steps), report.go (what is seen) and consent.go.
package agent
