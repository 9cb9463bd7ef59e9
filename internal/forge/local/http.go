package local

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// The two services of the smart protocol.
const (
	uploadPack  = "git-upload-pack"  // fetch, clone
	receivePack = "git-receive-pack" // push
)

// maxFetch bounds the request of a fetch: what the client wants and has, for 100,000 refs.
const maxFetch = 64 << 20

// maxService is how long one request may take: a slow line's clone of a large repository, but not for ever, for there
// are few slots.
const maxService = 10 * time.Minute

// limitTime sets the connection's deadlines for this request, whatever the server's are for pages.
func limitTime(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	end := time.Now().Add(maxService)
	// A writer without deadlines (a recorder in a test) still has the context's.
	_ = c.SetReadDeadline(end)
	_ = c.SetWriteDeadline(end)
}

// call is one request of the smart protocol.
type call struct {
	repository string
	service    string
	advertise  bool
	access     Access
}

// Handler serves the repositories at /git/<name>.git over the smart HTTP protocol.
func (f *Forge) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /git/{repository}/info/refs", func(w http.ResponseWriter, r *http.Request) {
		f.serve(w, r, call{service: r.URL.Query().Get("service"), advertise: true})
	})
	for _, service := range []string{uploadPack, receivePack} {
		mux.HandleFunc("POST /git/{repository}/"+service, func(w http.ResponseWriter, r *http.Request) {
			f.serve(w, r, call{service: service})
		})
	}
	return mux
}

func (f *Forge) serve(w http.ResponseWriter, r *http.Request, c call) {
	w.Header().Set("Cache-Control", "no-cache")
	if c.service != uploadPack && c.service != receivePack {
		http.Error(w, "this server speaks only the smart protocol: use a newer git", http.StatusForbidden)
		return
	}
	name, isGit := strings.CutSuffix(r.PathValue("repository"), ".git")
	c.repository = name
	if !f.admit(w, r, &c) {
		return
	}
	if _, err := f.Repository(r.Context(), name); err != nil || !isGit {
		f.fail(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxService)
	defer cancel()
	r = r.WithContext(ctx)
	limitTime(w)
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-r.Context().Done():
		return
	}
	var err error
	switch {
	case c.advertise:
		err = f.advertise(w, r, c)
	case c.service == uploadPack:
		err = f.upload(w, r, c)
	default:
		err = f.receive(w, r, c)
	}
	if err != nil && r.Context().Err() == nil {
		f.fail(w, r, err)
	}
}

// admit answers for the caller's rights and reports whether to go on.
func (f *Forge) admit(w http.ResponseWriter, r *http.Request, c *call) bool {
	user, password, _ := r.BasicAuth()
	if token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); isBearer {
		password = token
	}
	access, err := f.o.Authenticate(r.Context(), user, password, c.repository)
	if err != nil && promo.CodeOf(err) != promo.CodeAuthentication {
		f.fail(w, r, err)
		return false
	}
	c.access = access
	if err == nil && (c.service == uploadPack && access.Read || c.service == receivePack && access.Push) {
		return true
	}
	if err != nil || access.User.Name == "" {
		w.Header().Set("WWW-Authenticate", `Basic realm="Davit", charset="UTF-8"`)
		http.Error(w, "credentials are needed: any user name, with a token as password", http.StatusUnauthorized)
		return false
	}
	http.Error(w, fmt.Sprintf("%q may not do this here", access.User.Name), http.StatusForbidden)
	return false
}

func (f *Forge) fail(w http.ResponseWriter, r *http.Request, err error) {
	var large *http.MaxBytesError
	switch {
	case err == nil, promo.CodeOf(err) == promo.CodeNotFound, promo.CodeOf(err) == promo.CodeConfiguration:
		http.Error(w, "no such repository", http.StatusNotFound)
	case errors.As(err, &large):
		http.Error(w, fmt.Sprintf("more than %d bytes at once", large.Limit), http.StatusRequestEntityTooLarge)
	case promo.CodeOf(err) == promo.CodeConflict:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		f.o.Log.ErrorContext(r.Context(), "git request went wrong", "path", r.URL.Path, "error", err)
		http.Error(w, "the server could not do this", http.StatusInternalServerError)
	}
}

// service prepares git for one request.
func (f *Forge) service(ctx context.Context, r *http.Request, c call, args ...string) *exec.Cmd {
	env := []string{}
	if v := r.Header.Get("Git-Protocol"); v == "version=1" || v == "version=2" {
		env = append(env, "GIT_PROTOCOL="+v)
	}
	sub := strings.TrimPrefix(c.service, "git-")
	return f.git.command(ctx, f.path(c.repository), env, append(args, append([]string{sub, "--stateless-rpc"}, ending(c)...)...)...)
}

func ending(c call) []string {
	if c.advertise {
		return []string{"--http-backend-info-refs", "."}
	}
	return []string{"."}
}

// advertise answers with the refs.
func (f *Forge) advertise(w http.ResponseWriter, r *http.Request, c call) error {
	w.Header().Set("Content-Type", "application/x-"+c.service+"-advertisement")
	if r.Header.Get("Git-Protocol") != "version=2" || c.service == receivePack {
		if _, err := io.WriteString(w, pkt("# service="+c.service+"\n")+"0000"); err != nil {
			return nil //nolint:nilerr // the client is gone
		}
	}
	return f.stream(w, f.service(r.Context(), r, c))
}

// upload answers a fetch, as it comes out of git.
func (f *Forge) upload(w http.ResponseWriter, r *http.Request, c call) error {
	body, err := body(w, r, maxFetch)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-"+c.service+"-result")
	cmd := f.service(r.Context(), r, c)
	cmd.Stdin = body
	return f.stream(w, cmd)
}

// stream sends git's answer as it comes. Once it has begun, trouble can only be logged.
func (f *Forge) stream(w http.ResponseWriter, cmd *exec.Cmd) error {
	stderr := &capped{limit: maxComplaint}
	cmd.Stdout, cmd.Stderr = flusher{w, http.NewResponseController(w)}, stderr
	if err := cmd.Run(); err != nil {
		f.o.Log.Debug("git service ended early", "error", err, "stderr", strings.TrimSpace(stderr.String()))
	}
	return nil
}

// flusher sends every write at once, so that progress is seen.
type flusher struct {
	io.Writer
	c *http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.c.Flush()
	}
	return n, err
}

// body returns the request's body, unzipped, bounded before and after.
func body(w http.ResponseWriter, r *http.Request, limit int64) (io.Reader, error) {
	in := http.MaxBytesReader(w, r.Body, limit)
	if r.Header.Get("Content-Encoding") != "gzip" {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConflict, "the request is no gzip: %w", err)
	}
	return http.MaxBytesReader(w, z, limit), nil
}

// pkt is a line of the protocol.
func pkt(s string) string {
	const prefix = 4
	return fmt.Sprintf("%04x%s", len(s)+prefix, s)
}
