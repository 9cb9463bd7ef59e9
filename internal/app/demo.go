package app

import (
	"bytes"
	"context"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/davit-cd/davit/examples"
	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/engine"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
)

// Info is what is where, once everything answers.
type Info struct {
	URL   string
	Token promo.Secret
	Lines []string
}

func (a *App) info() Info {
	lines := []string{
		"Davit is ready.",
		"  pages        " + a.url,
		"  REST         " + a.url + "/api (OpenAPI: /api/openapi.json)",
		"  repositories " + a.url + "/git/<name>.git",
		"  agents       " + a.agents.Addr().String(),
		"  data         " + a.o.DataDir,
	}
	if a.auth.Demo() {
		lines = append(lines, "  users        DEMO USERS, no passwords: developer, release-manager, admin (--as USER)")
	} else {
		lines = append(lines, "  users        of "+a.o.Users+": sign in with a token, davit login "+a.url)
	}
	return Info{URL: a.url, Token: a.token, Lines: lines}
}

const (
	demoDone = "demo"
	// demoURL is where the example's files expect the server; they are loaded with the real address.
	demoURL        = "http://127.0.0.1:8080"
	demoRepository = "deploy"
	demoPipeline   = "checkout"
	demoVersion    = "v1.1.0"
	// demoAt dates the seed's commit, so that every demo begins with the same commit id.
	demoAt = "2026-01-05T09:00:00Z"
)

// demo loads the quickstart once per data directory and starts the first promotion.
func (a *App) demo(ctx context.Context) error {
	done, err := a.store.Meta(ctx, demoDone)
	if err != nil && promo.CodeOf(err) != promo.CodeNotFound {
		return err
	}
	if done != "" {
		return nil
	}
	ctx, admin := asDemo(ctx)
	developer, _ := auth.DemoDirectory().User(auth.DemoDeveloper)
	for _, step := range []func() error{
		func() error { return a.seedRepository(ctx, admin) },
		func() error { return a.applyQuickstart(ctx, admin) },
		func() error { return a.fillClusters(ctx) },
		func() error {
			_, err := engine.Runs{Engine: a.engine}.Run(ctx, developer, api.RunRequest{
				Project: spec.DefaultProject, Pipeline: demoPipeline, Inputs: map[string]any{"version": demoVersion}, RequestID: "demo",
			})
			return err
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return a.store.SetMeta(ctx, demoDone, a.url)
}

func (a *App) seedRepository(ctx context.Context, admin promo.Principal) error {
	if _, err := a.forge.Repository(ctx, demoRepository); err == nil {
		return nil
	}
	seed, err := fs.Sub(examples.Quickstart, "quickstart/deploy")
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "%w", err)
	}
	at, err := time.Parse(time.RFC3339, demoAt)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "%w", err)
	}
	_, err = a.forge.Create(ctx, local.CreateSpec{Name: demoRepository, Branch: "main", Seed: seed, Author: admin, Message: "checkout v1.0.0 everywhere", At: at})
	return err
}

// quickstart reads the files below a folder of the example, with the server's own address in them.
func (a *App) quickstart(folder string) ([]api.File, error) {
	var files []api.File
	root := "quickstart/" + folder
	err := fs.WalkDir(examples.Quickstart, root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(examples.Quickstart, p)
		if err != nil {
			return err
		}
		b = bytes.ReplaceAll(b, []byte(demoURL+"/sandbox/"), []byte(a.self+"/sandbox/"))
		b = bytes.ReplaceAll(b, []byte(demoURL), []byte(a.url))
		files = append(files, api.File{Path: strings.TrimPrefix(p, root+"/"), Content: string(b)})
		return nil
	})
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "quickstart: %w", err)
	}
	return files, nil
}

func (a *App) applyQuickstart(ctx context.Context, admin promo.Principal) error {
	files, err := a.quickstart("davit")
	if err != nil {
		return err
	}
	_, err = engine.Definitions{Engine: a.engine}.Apply(ctx, admin, api.ApplyRequest{Project: spec.DefaultProject, Files: files})
	return err
}

// fillClusters declares the applications and brings the first release onto every cluster.
func (a *App) fillClusters(ctx context.Context) error {
	if err := a.sandboxes.reconcile(ctx); err != nil {
		return err
	}
	files, err := a.quickstart("clusters")
	if err != nil {
		return err
	}
	head, err := a.forge.Head(ctx, demoRepository, "main")
	if err != nil {
		return err
	}
	for _, f := range files {
		name := strings.TrimSuffix(path.Base(f.Path), ".yaml")
		c, err := a.sandboxes.cluster(name)
		if err != nil {
			return err
		}
		if err := c.Apply([]byte(f.Content)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for _, f := range files {
		if err := a.firstRelease(ctx, strings.TrimSuffix(path.Base(f.Path), ".yaml"), head); err != nil {
			return err
		}
	}
	return nil
}

// firstRelease syncs a cluster's applications to the seed and waits until they are healthy.
func (a *App) firstRelease(ctx context.Context, cluster, head string) error {
	c, err := a.sandboxes.cluster(cluster)
	if err != nil {
		return err
	}
	apps, err := c.Applications(ctx)
	if err != nil {
		return err
	}
	for _, app := range apps {
		err := c.StartSync(ctx, app.ApplicationRef, promo.SyncRequest{ID: "demo/" + app.Name, Revision: head, InitiatedBy: "davit up --demo"})
		if err != nil {
			return err
		}
		states, err := c.Watch(ctx, app.ApplicationRef)
		if err != nil {
			return err
		}
		for s := range states {
			if s.Sync == promo.SyncSynced && s.Health == promo.HealthHealthy && s.Revision == head {
				break
			}
		}
		if ctx.Err() != nil {
			return promo.Errorf(promo.CodeTimeout, "application %s on sandbox cluster %s was not healthy within %s", app.Name, cluster, settle)
		}
	}
	return nil
}
