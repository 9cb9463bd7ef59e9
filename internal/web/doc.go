// Package web is Davit's front: REST with OpenAPI 3.1 under /api, live updates by SSE, and the pages. Pages and
// REST are thin over the same services (services.go), which package engine implements; nothing is decided here.
//
// One door: every route is registered through Server.route, which puts authentication and then exactly one
// authorisation call before the handler. There is no other way to the mux; a test walks every route.
//
// It must not know Temporal, Git or the database. Start reading at New, then door.go.
package web
