// Package gateway is the door that agents knock on: one gRPC port with the few calls of Temporal's frontend
// that an activity worker needs, and Davit's own small service (Enroll, Hello, Report, Compare).
//
// An agent is known by its credential and nothing it says about itself is believed: the gateway polls only
// the queue "agent.<name>" for it, writes its name as the identity, rebuilds every request from the fields
// that an agent may set, forwards no headers, and seals task tokens so that no agent can answer for another.
// What isn't implemented in frontend.go isn't reachable: the set of calls is closed by construction.
//
// The package must not know how agents are stored, what a fleet is kept for, or how commits are compared:
// those are the ports Agents, Fleet and steps.Comparer. Registry (with a Store) and View are the
// implementations that the application uses. Start reading at Gateway and frontend.go.
//
// # Revocation
//
// Long calls (polls, Hello) look at the agent's credential again every recheck; so a revoked or replaced
// credential loses its open calls within a second, on every replica of the server. A permanent refusal is
// answered on polls with InvalidArgument, the code at which Temporal's worker gives up; PermissionDenied it
// would repeat for ever.
package gateway
