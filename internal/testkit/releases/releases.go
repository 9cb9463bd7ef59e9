// Package releases gives tests what stands around a release repository: the local forge behind HTTP, Davit's mirrors
// of it and the SQLite store, all real. Tests only.
//
// Start reading at New.
package releases

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/repos"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store/sqlite"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
)

// Davit is who Davit is to the forge.
const Davit = "davit"

// World is a forge with its repositories, and Davit's view of them.
type World struct {
	Store *sqlite.Store
	Forge *local.Forge
	Repos *repos.Repos
	Log   *slog.Logger

	tb testing.TB
}

// New makes a world that ends with the test.
func New(tb testing.TB) *World {
	tb.Helper()
	ctx := tb.Context()
	w := &World{tb: tb, Log: slog.New(slog.DiscardHandler)}
	dir := tb.TempDir()
	var err error
	if w.Store, err = sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "davit.db")}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { must(tb, w.Store.Close()) })
	const secret = "releases"
	server := httptest.NewUnstartedServer(nil)
	url := "http://" + server.Listener.Addr().String()
	w.Forge, err = local.New(ctx, local.Options{
		Dir: filepath.Join(dir, "forge"), Store: w.Store, URL: url, Now: time.Now, Log: w.Log,
		Authenticate: func(_ context.Context, user, password, _ string) (local.Access, error) {
			if password != secret {
				return local.Access{}, promo.Errorf(promo.CodeAuthentication, "wrong token")
			}
			return local.Access{User: promo.Principal{Name: user}, Read: true, Push: true}, nil
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.Forge.Stop)
	server.Config.Handler = w.Forge.Handler()
	server.Start()
	tb.Cleanup(server.Close)
	mirrors, err := git.NewMirrors(filepath.Join(dir, "mirrors"), git.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { must(tb, mirrors.Close()) })
	w.Repos = &repos.Repos{
		Definitions: definitions{}, Mirrors: mirrors,
		Local: repos.Local{Forge: w.Forge, URL: url + "/git", Auth: git.Auth{Username: Davit, Password: secret}},
	}
	return w
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}

// definitions says of every repository that it is the local forge's.
type definitions struct{}

func (definitions) Repository(_ context.Context, _, _ string) (*spec.RepositorySpec, error) {
	return &spec.RepositorySpec{Provider: "local"}, nil
}

// Create makes a repository with files on its branch main; protection may be nil.
func (w *World) Create(name string, files map[string]string, protection *forge.Protection) *gitserver.Repo {
	w.tb.Helper()
	seed := fstest.MapFS{}
	for p, d := range files {
		seed[p] = &fstest.MapFile{Data: []byte(d)}
	}
	_, err := w.Forge.Create(w.tb.Context(), local.CreateSpec{
		Name: name, Seed: seed, Author: promo.Principal{Name: "Someone Else", Email: "else@example.com"}, Message: "first", Protection: protection,
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	return gitserver.At(w.tb, w.Forge.Dir(name))
}

// Change commits files through Davit, as its steps do, and returns the commit.
func (w *World) Change(repository, branch, base, operation string, files map[string]string) string {
	w.tb.Helper()
	repo, err := w.Repos.Repo(w.tb.Context(), "shop", repository)
	if err != nil {
		w.tb.Fatal(err)
	}
	got, err := repo.Change(w.tb.Context(), git.ChangeRequest{
		Operation: operation, Branch: branch, Base: base, Author: promo.Principal{Name: "ana"}, Message: operation,
		Edit: func(_ context.Context, t *git.Tree) error {
			for p, d := range files {
				if err := t.Write(p, []byte(d)); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	return got.Head
}

// Repository is the plan's word for a repository.
func Repository(name string) plan.Repository { return plan.Repository{Name: name, Provider: "local"} }
