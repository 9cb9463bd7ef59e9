// Package contract is both ends of the wire between workflows and everything else: typed activity descriptors,
// the names and payloads of messages, workflow ids, search attributes and error types. It does no I/O.
//
// Names here are frozen: they stand in recorded histories. Start reading at Activity and activities.go.
package contract
