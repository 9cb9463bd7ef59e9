package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/davit-cd/davit/internal/promo"
)

// service is one of the two programs on the server's side.
type service string

const (
	uploadPack  service = "git-upload-pack"
	receivePack service = "git-receive-pack"
)

// transport carries Git's stateless protocol: one request, one answer.
type transport interface {
	// advertise returns what the service says of itself before any request.
	advertise(ctx context.Context, svc service) (io.ReadCloser, error)
	// call sends one request. The body of the answer is read while the server still writes it.
	call(ctx context.Context, svc service, body []byte) (io.ReadCloser, error)
}

// httpTransport is smart HTTP.
type httpTransport struct {
	url    string
	client *http.Client
	mu     sync.Mutex
	auth   Auth
}

func (t *httpTransport) setAuth(a Auth) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.auth = a
}

func (t *httpTransport) advertise(ctx context.Context, svc service) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+"/info/refs?service="+string(svc), http.NoBody)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "url %q: %w", t.url, err)
	}
	body, err := t.do(req, svc)
	if err != nil {
		return nil, err
	}
	return body, nil
}

func (t *httpTransport) call(ctx context.Context, svc service, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/"+string(svc), bytes.NewReader(body))
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "url %q: %w", t.url, err)
	}
	req.Header.Set("Content-Type", "application/x-"+string(svc)+"-request")
	req.Header.Set("Accept", "application/x-"+string(svc)+"-result")
	return t.do(req, svc)
}

func (t *httpTransport) do(req *http.Request, svc service) (io.ReadCloser, error) {
	if svc == uploadPack {
		req.Header.Set("Git-Protocol", "version=2")
	}
	req.Header.Set("User-Agent", "git/"+agent) // forges look at the prefix to tell Git from browsers
	t.mu.Lock()
	auth := t.auth
	t.mu.Unlock()
	switch {
	case auth.Bearer != "":
		req.Header.Set("Authorization", "Bearer "+auth.Bearer.Reveal())
	case auth.Username != "" || auth.Password != "":
		req.SetBasicAuth(auth.Username, auth.Password.Reveal())
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, wireError(req.Context(), t.url, stripURL(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxServerText)) // what was read of the reason is enough
	return nil, statusError(t.url, resp.StatusCode, resp.Header, string(text))
}

// stripURL takes the url out of the client's error: wireError says it already.
func stripURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// sameHost refuses redirects to another host or to plain http, so that credentials and requests stay where the
// configuration sent them.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > 3 || req.URL.Host != first.Host || first.Scheme == "https" && req.URL.Scheme != "https" {
		return promo.Errorf(promo.CodeConfiguration, "%s redirects to %s", first.Redacted(), req.URL.Redacted()).
			WithHint("use the repository's new url")
	}
	return nil
}

// fileTransport runs git's own programs on a repository of this machine, in the same stateless way.
type fileTransport struct {
	git, dir string
	// env is the environment of the programs, without git's own variables.
	env []string
}

func newFileTransport(dir string) (*fileTransport, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "file urls need the git program: %w", err)
	}
	t := &fileTransport{git: program, dir: dir}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GIT_") {
			t.env = append(t.env, kv)
		}
	}
	return t, nil
}

func (t *fileTransport) advertise(ctx context.Context, svc service) (io.ReadCloser, error) {
	return t.run(ctx, svc, nil, "--http-backend-info-refs")
}

func (t *fileTransport) call(ctx context.Context, svc service, body []byte) (io.ReadCloser, error) {
	return t.run(ctx, svc, body)
}

func (t *fileTransport) run(ctx context.Context, svc service, body []byte, flags ...string) (io.ReadCloser, error) {
	args := []string{"-c", "uploadpack.allowFilter=true", "-c", "uploadpack.allowAnySHA1InWant=true"}
	args = append(append(append(args, strings.TrimPrefix(string(svc), "git-"), "--stateless-rpc"), flags...), t.dir)
	cmd := exec.CommandContext(ctx, t.git, args...) //nolint:gosec // the program was looked up, the directory comes from configuration and follows all flags
	cmd.Env = t.env
	if svc == uploadPack {
		cmd.Env = append(slices.Clip(t.env), "GIT_PROTOCOL=version=2")
	}
	cmd.Stdin = bytes.NewReader(body)
	p := &process{ctx: ctx, cmd: cmd, name: "file://" + t.dir}
	cmd.Stderr = &p.stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, promo.Errorf(promo.CodeConnectivity, "running git %s: %w", svc, err)
	}
	p.out = out
	return p, nil
}

// process is the answer of a git program: its output, and its complaint where it fails.
type process struct {
	ctx    context.Context //nolint:containedctx // lives exactly as long as the program it belongs to
	cmd    *exec.Cmd
	name   string
	out    io.Reader
	stderr capped
	waited bool
	err    error
}

func (p *process) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if err != nil && !p.waited {
		p.waited = true
		if werr := p.cmd.Wait(); werr != nil {
			p.err = p.fault(werr)
		}
	}
	if n == 0 && p.err != nil {
		return 0, p.err
	}
	return n, err
}

func (p *process) fault(err error) error {
	if p.ctx.Err() != nil {
		return wireError(p.ctx, p.name, p.ctx.Err())
	}
	if p.stderr.Len() > 0 {
		return serverError(p.stderr.String())
	}
	return wireError(p.ctx, p.name, err)
}

func (p *process) Close() error {
	_, _ = io.Copy(io.Discard, p) // the program must be waited for; its fault was told by Read
	return nil
}

// capped keeps the first bytes written to it.
type capped struct{ bytes.Buffer }

func (c *capped) Write(b []byte) (int, error) {
	if room := maxServerText - c.Len(); room > 0 {
		c.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
