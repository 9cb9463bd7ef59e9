package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

const (
	// heartbeat keeps proxies from closing a quiet stream; common idle limits are 30 s and 60 s.
	heartbeat = 15 * time.Second
	// minInterval is the least time between two states of one stream: more often nobody can see, and a wide
	// stage changes many times in a moment.
	minInterval = 100 * time.Millisecond
	// listInterval is the same for whole lists, which cost more to read and change more often.
	listInterval = 500 * time.Millisecond
	// writeTimeout ends streams whose reader takes nothing any more.
	writeTimeout = 20 * time.Second
	// maxStream ends a stream so that its authorisation is asked for anew; clients come back by themselves.
	maxStream = 15 * time.Minute
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func (s *Server) streams() {
	s.route(route{
		Method: http.MethodGet, Path: "/api/projects/{project}/events", Action: auth.PromotionRead, Kind: "event", Stream: true,
		Summary: "Stream what changes in a project (server-sent events); read again what you show",
	}, http.HandlerFunc(s.projectEvents))
	if s.services.Promotions != nil {
		s.route(route{
			Method: http.MethodGet, Path: "/api/projects/{project}/promotions/{pipeline}/{number}/events", Action: auth.PromotionRead, Kind: "promotion", Stream: true,
			Summary: "Stream the states of a promotion (server-sent events): the present one first, \"end\" after the last",
		},
			s.stateEvents("promotion", func(r *http.Request) string {
				return r.PathValue("project") + "/" + r.PathValue("pipeline") + "/" + r.PathValue("number")
			}, s.promotionState))
	}
	if s.services.Rollbacks != nil {
		s.route(route{
			Method: http.MethodGet, Path: "/api/projects/{project}/rollbacks/{service}/{environment}/{run}/events", Action: auth.RollbackRead, Kind: "rollback", Stream: true,
			Summary: "Stream the states of a rollback (server-sent events): the present one first, \"end\" after the last",
		},
			s.stateEvents("rollback", func(r *http.Request) string {
				return r.PathValue("project") + "/" + r.PathValue("service") + "/" + r.PathValue("environment") + "/" + r.PathValue("run")
			}, s.rollbackState))
	}
}

// state is a thing's present state as JSON, and whether it is the last.
type state struct {
	body  []byte
	final bool
}

func (s *Server) promotionState(ctx context.Context, who promo.Principal, id string) (state, error) {
	p, err := s.services.Promotions.Get(ctx, who, id)
	return encode(p, p.Phase.Final(), err)
}

func (s *Server) rollbackState(ctx context.Context, who promo.Principal, id string) (state, error) {
	rb, err := s.services.Rollbacks.Get(ctx, who, id)
	return encode(rb, rb.Phase.Final(), err)
}

func encode(v any, final bool, err error) (state, error) {
	if err != nil {
		return state{}, err
	}
	b, err := json.Marshal(v)
	return state{body: b, final: final}, err
}

// stateEvents streams a thing's state. The feed only says that something changed; what is sent is always read
// anew, so a client that lost its connection misses nothing by coming back.
func (s *Server) stateEvents(kind string, idOf func(*http.Request) string, read func(context.Context, promo.Principal, string) (state, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := idOf(r)
		ctx, cancel := context.WithTimeout(r.Context(), maxStream)
		defer cancel()
		events := s.services.Changes.Subscribe(ctx) // before the first read, so that no change falls between
		st, err := read(ctx, whoFrom(ctx), id)
		if err != nil {
			s.mapped(ctx, route{Method: r.Method, Path: kind + " events"}, err).write(w)
			return
		}
		out := newEventStream(w)
		for {
			if out.send(kind, st.body) != nil {
				return
			}
			if st.final {
				_ = out.send("end", []byte("{}")) // the client may be gone
				return
			}
			if !awaitChange(ctx, out, events, minInterval, func(e store.Event) bool { return e.Kind == kind && e.ID == id }) {
				return
			}
			if st, err = read(ctx, whoFrom(ctx), id); err != nil {
				return // the client comes back and is told then
			}
		}
	})
}

// awaitChange waits for an event that matters, sending heartbeats, then lets the burst pass.
func awaitChange(ctx context.Context, out *eventStream, events <-chan store.Event, calm time.Duration, matters func(store.Event) bool) bool {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var settled <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-settled:
			return true
		case <-beat.C:
			if out.comment("beat") != nil {
				return false
			}
		case e, open := <-events:
			if !open {
				return false
			}
			if e.Kind == store.EventLost || matters(e) {
				// Later events stay in the feed: the read that follows may be too early for them.
				settled, events = time.After(calm), nil
			}
		}
	}
}

// projectEvents streams "changed" events: at once, and whenever something in the project is altered. With ?id=
// only what concerns that id ("<kind>/<id>") counts.
func (s *Server) projectEvents(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), maxStream)
	defer cancel()
	project, only := r.PathValue("project"), r.URL.Query().Get("id")
	events := s.services.Changes.Subscribe(ctx)
	out := newEventStream(w)
	calm := listInterval
	if only != "" {
		calm = minInterval
	}
	for {
		if out.send("changed", []byte("{}")) != nil {
			return
		}
		if !awaitChange(ctx, out, events, calm, func(e store.Event) bool { return concerns(e, project, only) }) {
			return
		}
	}
}

// concerns reports whether an event is the project's, and about what the client watches. Agents and the local
// forge belong to no project.
func concerns(e store.Event, project, only string) bool {
	if only != "" {
		return e.Kind+"/"+e.ID == only
	}
	switch e.Kind {
	case store.EventAgent, store.EventPullRequest:
		return true
	case store.EventDefinition: // "<kind>/<project>/<name>"
		_, rest, _ := strings.Cut(e.ID, "/")
		return strings.HasPrefix(rest, project+"/")
	}
	return strings.HasPrefix(e.ID, project+"/")
}

// eventStream writes server-sent events.
type eventStream struct {
	w  io.Writer
	rc *http.ResponseController
}

func newEventStream(w http.ResponseWriter) *eventStream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	w.WriteHeader(http.StatusOK)
	return &eventStream{w: w, rc: http.NewResponseController(w)}
}

func (e *eventStream) send(event string, data []byte) error {
	return e.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, data)) // JSON has no line breaks
}

func (e *eventStream) comment(text string) error { return e.write(": " + text + "\n\n") }

func (e *eventStream) write(text string) error {
	if err := e.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(e.w, text); err != nil {
		return err
	}
	return e.rc.Flush()
}
