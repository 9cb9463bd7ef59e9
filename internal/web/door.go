package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// Authenticator says who sends a request. The returned context carries what the Authorizer needs beside the
// principal (a token's bounds); it is the request's from then on. Errors are promo.CodeAuthentication.
// *auth.Authenticator is one.
type Authenticator interface {
	Authenticate(r *http.Request) (context.Context, promo.Principal, error)
}

// Authorizer is the one authorisation call. A refusal is promo.CodeAuthorization. *auth.Authorizer is
// one.
type Authorizer interface {
	Authorize(ctx context.Context, who promo.Principal, action auth.Action, on auth.Resource) error
}

const (
	// requestTimeout bounds a request: longer than any service needs, shorter than a proxy's patience.
	requestTimeout = 50 * time.Second
	// maxBody bounds a body; an apply of many definitions and policies fits.
	maxBody = 8 << 20
)

// route is one way in. Every route has an action and says what it is about; there are no others.
type route struct {
	Method string
	Path   string
	Action auth.Action
	// Kind is the resource's kind. Its project is the path's {project} and its name the rest of the path's
	// parameters, joined by "/".
	Kind string
	// Stream marks routes that stay open.
	Stream bool
	// Page marks routes for browsers: refusals are pages, and a person who isn't signed in is led to the door.
	Page bool
	// Summary documents it.
	Summary string
}

type principalKey struct{}

// whoFrom returns the principal that the door let in.
func whoFrom(ctx context.Context) promo.Principal {
	who, _ := ctx.Value(principalKey{}).(promo.Principal)
	return who
}

type resourceKey struct{}

// may reports whether the person of the request may do an action on what the page is about, so that pages show no
// button that would be refused. The door decides again when it is pressed.
func (s *Server) may(r *http.Request, action auth.Action) bool {
	on, _ := r.Context().Value(resourceKey{}).(auth.Resource)
	return s.authz.Authorize(r.Context(), whoFrom(r.Context()), action, on) == nil
}

// route registers a handler behind the door. It is the only caller of the mux.
func (s *Server) route(rt route, h http.Handler) {
	if rt.Action == "" || rt.Kind == "" {
		panic("web: a route without action: " + rt.Method + " " + rt.Path) // a mistake while wiring
	}
	s.routes = append(s.routes, rt)
	s.mux.Handle(rt.Method+" "+rt.Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, who, err := s.auth.Authenticate(r)
		if err == nil {
			err = s.authz.Authorize(ctx, who, rt.Action, rt.resource(r)) //nolint:contextcheck // Authenticate derives it from the request's
		}
		if err != nil {
			s.refuse(w, r, rt, err)
			return
		}
		ctx = context.WithValue(ctx, principalKey{}, who)
		ctx = context.WithValue(ctx, resourceKey{}, rt.resource(r))
		if !rt.Stream {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, requestTimeout)
			defer cancel()
		}
		r = r.WithContext(ctx) //nolint:contextcheck // Authenticate derives it from the request's
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		h.ServeHTTP(w, r)
	}))
}

// resource is what the request is about, read from its path alone.
func (rt route) resource(r *http.Request) auth.Resource {
	res := auth.Resource{Project: r.PathValue("project"), Kind: rt.Kind}
	var names []string
	for part := range strings.SplitSeq(rt.Path, "/") {
		name := strings.Trim(part, "{}")
		if name != part && name != "project" {
			names = append(names, r.PathValue(name))
		}
	}
	res.Name = strings.Join(names, "/")
	return res
}

// doorAdapter gives huma the door instead of the mux.
type doorAdapter struct{ s *Server }

const routeKey = "davit-route"

// Handle registers huma's operation behind the door.
func (a doorAdapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	rt, ok := op.Metadata[routeKey].(route)
	if !ok {
		panic("web: an operation without route: " + op.Path) // a mistake while wiring
	}
	a.s.route(rt, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler(humago.NewContext(op, r, w))
	}))
}

// ServeHTTP serves a request; huma's interface asks for it.
func (a doorAdapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.s.mux.ServeHTTP(w, r) }

// operation registers a REST operation with its schema. Every error is mapped once, here.
func operation[I, O any](s *Server, rt route, h func(context.Context, promo.Principal, *I) (O, error)) {
	type output struct{ Body O }
	op := huma.Operation{
		OperationID: operationID(rt),
		Method:      rt.Method, Path: rt.Path, Summary: rt.Summary,
		Tags:     []string{rt.Kind},
		Metadata: map[string]any{routeKey: rt}, MaxBodyBytes: maxBody,
		DefaultStatus: http.StatusOK,
		Description:   "Needs the permission `" + rt.Action + "`.",
	}
	huma.Register(s.huma, op, func(ctx context.Context, in *I) (*output, error) {
		out, err := h(ctx, whoFrom(ctx), in)
		if err != nil {
			return nil, s.mapped(ctx, rt, err)
		}
		return &output{Body: out}, nil
	})
}

// mapped logs what the client isn't told and returns what it is.
func (s *Server) mapped(ctx context.Context, rt route, err error) *problem {
	p := problemOf(err)
	if p.status >= http.StatusInternalServerError {
		s.log.ErrorContext(ctx, "request ended in an error", "method", rt.Method, "route", rt.Path, "error", err)
	}
	return p
}

func operationID(rt route) string {
	id := strings.NewReplacer("/api/", "", "{", "", "}", "", "/", "-").Replace(rt.Path)
	return strings.ToLower(rt.Method) + "-" + id
}

// RouteInfo is a route as the walk over all routes and the documentation see it.
type RouteInfo struct{ Method, Path, Action, Kind string }

// Routes lists every route behind the door, in the order of registration.
func (s *Server) Routes() []RouteInfo {
	out := make([]RouteInfo, len(s.routes))
	for i, rt := range s.routes {
		out[i] = RouteInfo{Method: rt.Method, Path: rt.Path, Action: rt.Action, Kind: rt.Kind}
	}
	return out
}

// PublicRoutes lists the few patterns before the door.
func (s *Server) PublicRoutes() []string { return append([]string(nil), s.publics...) }
