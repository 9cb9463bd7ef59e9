// Package auth says who sends a request and whether they may: people and machines by bearer tokens, browsers by a
// signed cookie, the demo's users by a switcher; and the one authorisation call, which evaluates the Rego of
// policies/access over roles and bindings.
//
// It must not know of routes, pages, the store or Temporal: tokens made at run time come through the TokenSource
// port, and what a request is about is told to Authorize by the door that asks.
//
// Start reading at Authenticator.Authenticate and Authorizer.Authorize; Guard (http.go) is the outer wall.
package auth
