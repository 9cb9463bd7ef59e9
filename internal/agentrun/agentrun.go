// Package agentrun runs one agent with its GitOps engine as a process of its own: it reads the agent's
// configuration, opens the engine and connects to the server's gateway. This version has one engine, a sandbox
// cluster whose state lies in a directory.
//
// It must not know the server: all it learns comes through the gateway and from Git. Start reading at Run.
package agentrun

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/davit-cd/davit/internal/agent"
	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/gitops/sandbox"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

// maxFile bounds what is read of a configuration's files.
const maxFile = 1 << 20

// Options are an agent's configuration.
type Options struct {
	Name string
	// Gateway is the host and port that the server listens on for agents.
	Gateway string
	// Token enrols the agent the first time; later its credential file is enough.
	Token promo.Secret
	// Dir keeps the credential, the cluster's state and mirrors of repositories.
	Dir string
	// CAFile holds certificates in PEM that the gateway's is signed by. Without one, a gateway on loopback is
	// spoken to in the clear and another by the system's certificates.
	CAFile string
	// Projects whose promotions may drive applications here; empty for all.
	Projects []string
	// Applications are files of Argo CD Application manifests to declare at the start.
	Applications []string
	// GitUser and GitPassword sign in to the repositories of the applications; empty for nobody.
	GitUser     string
	GitPassword promo.Secret
	Version     string
	Log         *slog.Logger
}

// Run runs the agent until ctx ends, and then returns nil.
func Run(ctx context.Context, o Options) error {
	if o.Name == "" || o.Gateway == "" || o.Dir == "" {
		return promo.Errorf(promo.CodeConfiguration, "an agent needs a name, a gateway and a directory")
	}
	trust, err := trusted(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return promo.Errorf(promo.CodeConfiguration, "directory %q can't be made: %w", o.Dir, err)
	}
	mirrors, err := git.NewMirrors(filepath.Join(o.Dir, "mirrors"), git.Options{Logger: o.Log})
	if err != nil {
		return err
	}
	defer mirrors.Close() //nolint:errcheck // mirrors can be made anew
	cluster, err := openCluster(o, mirrors)
	if err != nil {
		return err
	}
	defer cluster.Close() //nolint:errcheck // Run has saved
	a, err := agent.New(agent.Options{
		Name: o.Name, Server: o.Gateway, Token: o.Token, TLS: trust, CredentialFile: filepath.Join(o.Dir, "credential"), Engine: cluster,
		Types: steps.Builtin(), Projects: o.Projects, Version: o.Version, Logger: o.Log,
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cluster.Run(ctx) })
	g.Go(func() error { return a.Run(ctx) })
	return g.Wait()
}

// trusted makes the TLS configuration towards the gateway; nil is plain text, which the agent allows on loopback.
func trusted(o Options) (*tls.Config, error) {
	if o.CAFile == "" {
		if host, _, _ := strings.Cut(o.Gateway, ":"); host == "localhost" || strings.HasPrefix(host, "127.") || strings.HasPrefix(o.Gateway, "[::1]:") {
			return nil, nil //nolint:nilnil // no TLS is not an error on loopback
		}
		return &tls.Config{MinVersion: tls.VersionTLS12}, nil
	}
	raw, err := readSmall(o.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, promo.Errorf(promo.CodeConfiguration, "%q holds no certificate", o.CAFile).WithHint("give certificates in PEM")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}

func readSmall(file string) ([]byte, error) {
	f, err := os.Open(file) //nolint:gosec // named by the agent's own configuration
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "%w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "%q: %w", file, err)
	}
	return raw, nil
}

func openCluster(o Options, mirrors *git.Mirrors) (*sandbox.Cluster, error) {
	dir := filepath.Join(o.Dir, "cluster")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "directory %q can't be made: %w", dir, err)
	}
	c, err := sandbox.New(sandbox.Options{
		Name: o.Name, Dir: dir, Source: source{mirrors: mirrors, auth: git.Auth{Username: o.GitUser, Password: o.GitPassword}}, Logger: o.Log,
	})
	if err != nil {
		return nil, err
	}
	for _, file := range o.Applications {
		raw, err := readSmall(file)
		if err == nil {
			err = c.Apply(raw)
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// source gives the cluster commits by way of mirrors.
type source struct {
	mirrors *git.Mirrors
	auth    git.Auth
}

func (s source) open(ctx context.Context, repoURL string) (*git.Repo, error) {
	return s.mirrors.Open(ctx, git.Remote{Name: "agent/repository", URL: repoURL, Auth: s.auth})
}

// Resolve returns the commit of a branch, or the commit itself.
func (s source) Resolve(ctx context.Context, repoURL, revision string) (string, error) {
	const commitLength = 40
	if len(revision) == commitLength && strings.Trim(revision, "0123456789abcdef") == "" {
		return revision, nil
	}
	if revision == "" || revision == "HEAD" {
		return "", promo.Errorf(promo.CodeConfiguration, "an application of %q follows %q", repoURL, revision).
			WithHint("name a branch or a commit as targetRevision")
	}
	repo, err := s.open(ctx, repoURL)
	if err != nil {
		return "", err
	}
	return repo.Head(ctx, revision)
}

// Tree returns a commit's files.
func (s source) Tree(ctx context.Context, repoURL, commit string) (fs.FS, error) {
	repo, err := s.open(ctx, repoURL)
	if err != nil {
		return nil, err
	}
	tree, err := repo.Tree(ctx, commit)
	if err != nil {
		return nil, err
	}
	return sandbox.TreeFS(tree), nil
}
