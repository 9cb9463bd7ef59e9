// Package e2e drives the built program as people do: `davit up` as a process of its own, its REST and command
// line from outside, real Git, real Temporal, sandbox clusters behind real agents. Nothing of the product is linked
// but the words of its answers.
//
// DAVIT_BIN names a binary to test; otherwise it is built once. Start reading at server and world.
package e2e
