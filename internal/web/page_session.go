package web

import (
	"net/http"
	"strings"

	"github.com/davit-cd/davit/internal/promo"
)

type loginData struct {
	Problem string
	Next    string
}

func (s *Server) showLogin(w http.ResponseWriter, r *http.Request, status int, problem string) {
	next := r.FormValue("next")
	if next == "" && r.Method == http.MethodGet && r.URL.Path != "/login" {
		next = r.URL.RequestURI()
	}
	s.render(w, r, status, "login", view{Title: "Sign in", Data: loginData{Problem: problem, Next: local(next)}})
}

func (s *Server) loginPage(w http.ResponseWriter, r *http.Request) {
	s.showLogin(w, r, http.StatusOK, "")
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if s.sessions == nil {
		s.showLogin(w, r, http.StatusNotFound, "this server has no sessions")
		return
	}
	if _, err := s.sessions.SignIn(w, r, promo.Secret(strings.TrimSpace(r.PostFormValue("token")))); err != nil {
		p := problemOf(err)
		s.showLogin(w, r, p.status, p.Message)
		return
	}
	http.Redirect(w, r, local(r.PostFormValue("next")), http.StatusSeeOther)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if s.sessions != nil {
		s.sessions.SignOut(w)
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (s *Server) switchUser(w http.ResponseWriter, r *http.Request) {
	if err := s.demo.Switch(w, r, r.PostFormValue("user")); err != nil {
		s.fail(w, r, route{Method: r.Method, Path: "/demo"}, err)
		return
	}
	http.Redirect(w, r, local(r.PostFormValue("next")), http.StatusSeeOther)
}

// local returns a path of this server; a link to anywhere else becomes the front page.
func local(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n") {
		return "/"
	}
	return next
}
