package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// pages renders templates and serves assets.
type pages struct {
	byName map[string]*template.Template
	assets assets
}

// assets are embedded files under names that hold their hash, so that they never change.
type assets struct {
	files map[string]asset  // by URL path
	urls  map[string]string // by file name
}

type asset struct {
	body      []byte
	mediaType string
}

func newPages(now func() time.Time) (*pages, error) {
	as, err := newAssets()
	if err != nil {
		return nil, err
	}
	p := &pages{byName: map[string]*template.Template{}, assets: as}
	layout, err := template.New("layout.html").Funcs(funcs(now, as)).ParseFS(templateFiles, "templates/layout.html", "templates/part_*.html")
	if err != nil {
		return nil, fmt.Errorf("layout: %w", err)
	}
	names, err := fs.Glob(templateFiles, "templates/page_*.html")
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	for _, name := range names {
		t, err := layout.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, name)
		}
		if err != nil {
			return nil, fmt.Errorf("page %q: %w", name, err)
		}
		p.byName[strings.TrimSuffix(strings.TrimPrefix(path.Base(name), "page_"), ".html")] = t
	}
	return p, nil
}

func newAssets() (assets, error) {
	as := assets{files: map[string]asset{}, urls: map[string]string{}}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		return as, fmt.Errorf("assets: %w", err)
	}
	for _, e := range entries {
		body, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			return as, fmt.Errorf("asset %q: %w", e.Name(), err)
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(e.Name())
		url := "/assets/" + strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		mediaType := mime.TypeByExtension(ext)
		if mediaType == "" {
			mediaType = "text/plain; charset=utf-8"
		}
		as.files[url], as.urls[e.Name()] = asset{body: body, mediaType: mediaType}, url
	}
	return as, nil
}

// ServeHTTP serves an asset.
func (as assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := as.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.mediaType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable") // the name holds the hash
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
}

// view is what every page gets: who looks, where, and the page's own data.
type view struct {
	Title   string
	Nav     string
	Project string
	Who     promo.Principal
	Demo    []string // users to switch between; empty without demo
	// Local is set where the server has a forge of its own.
	Local  bool
	SignIn bool // whether there are sessions to sign in to and out of
	Path   string
	// Watch is what the page's live part follows: "" for the whole project.
	Watch string
	Data  any
	// May reports whether the person may do an action on what the page is about.
	May func(action string) bool
}

// render writes a page. It is rendered whole first, so that an error never leaves half a page.
func (s *Server) render(w http.ResponseWriter, r *http.Request, status int, name string, v view) {
	v.Who, v.Path = whoFrom(r.Context()), r.URL.RequestURI()
	if v.Project == "" {
		if v.Project = r.PathValue("project"); v.Project == "" {
			v.Project = s.project
		}
	}
	v.Demo = s.users
	v.May = func(action string) bool { return s.may(r, action) }
	v.Local, v.SignIn = s.services.PullRequests != nil, s.sessions != nil
	var b bytes.Buffer
	if err := s.pages.byName[name].Execute(&b, v); err != nil {
		s.log.ErrorContext(r.Context(), "page not rendered", "page", name, "error", err)
		http.Error(w, "the page could not be rendered; the server's log says more", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

// pageError is what the error page shows.
type pageError struct {
	*problem
	Status string
	Deny   []string
	Back   string
}

// fail shows an error as a page.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, rt route, err error) {
	p := s.mapped(r.Context(), rt, err)
	back := "/"
	if u, e := url.Parse(r.Referer()); e == nil && u.Host == r.Host && u.Path != r.URL.Path {
		back = u.RequestURI()
	}
	if p.status == statusClientClosed {
		return
	}
	s.render(w, r, p.status, "error", view{Title: http.StatusText(p.status), Data: pageError{problem: p, Status: http.StatusText(p.status), Deny: p.deny, Back: back}})
}

// refuse answers a request that the door did not let in.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, rt route, err error) {
	p := s.mapped(r.Context(), rt, err)
	if !rt.Page {
		if p.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="davit"`)
		}
		p.write(w)
		return
	}
	if p.status == http.StatusUnauthorized {
		s.showLogin(w, r, http.StatusUnauthorized, "")
		return
	}
	s.fail(w, r, rt, p)
}

// page registers a page that shows what load returns.
func (s *Server) page(rt route, name string, load func(*http.Request) (view, error)) {
	rt.Page = true
	s.route(rt, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := load(r)
		if err != nil {
			s.fail(w, r, rt, err)
			return
		}
		s.render(w, r, http.StatusOK, name, v)
	}))
}

// form registers what a page's form posts to; act returns where to go next.
func (s *Server) form(rt route, act func(*http.Request) (string, error)) {
	rt.Page, rt.Method = true, http.MethodPost
	s.route(rt, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			s.fail(w, r, rt, promo.Errorf(promo.CodeConfiguration, "the form can't be read"))
			return
		}
		to, err := act(r)
		if err != nil {
			s.fail(w, r, rt, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}))
}
