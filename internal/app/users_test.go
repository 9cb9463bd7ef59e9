package app_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/app"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// house is a running server with its people.
type house struct {
	url    string
	client *http.Client
	tokens map[string]string // by user
	app    *app.App
}

// open starts a server over TLS with a users file: alex administers, dana develops and riley only watches the
// project default; kim has no role.
func open(t *testing.T, o app.Options) *house {
	t.Helper()
	dir := t.TempDir()
	h := &house{tokens: map[string]string{}}
	users := "users:\n  - {name: alex, email: alex@example.com, roles: {\"*\": [admin]}}\n" +
		"  - {name: dana, email: dana@example.com, roles: {default: [developer]}}\n  - {name: riley, roles: {default: [viewer]}}\n  - {name: kim}\ntokens:\n"
	for _, user := range []string{"alex", "dana", "riley", "kim"} {
		secret, hash := auth.NewSecret()
		h.tokens[user] = secret.Reveal()
		users += fmt.Sprintf("  - {name: t, user: %s, sha256: %s, expires: 2999-01-01T00:00:00Z}\n", user, hash)
	}
	o.Users = filepath.Join(dir, "users.yaml")
	if err := os.WriteFile(o.Users, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	var pool *x509.CertPool
	o.TLSCert, o.TLSKey, pool = selfSigned(t, dir)
	h.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}}}
	t.Cleanup(h.client.CloseIdleConnections)
	o.Listen, o.AgentListen, o.DataDir, o.Log = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(dir, "data"), slog.New(slog.DiscardHandler)
	h.run(t, o)
	return h
}

func (h *house) run(t *testing.T, o app.Options) {
	t.Helper()
	a, err := app.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	h.app = a
	ctx, cancel := context.WithCancel(t.Context())
	up, down := make(chan app.Info, 1), make(chan error, 1)
	go func() { down <- a.Run(ctx, func(i app.Info) error { up <- i; return nil }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-down; err != nil {
			t.Error(err)
		}
		a.Stop()
	})
	select {
	case i := <-up:
		h.url = i.URL
	case err := <-down:
		down <- nil
		t.Fatal(err)
	}
}

// selfSigned writes a certificate for 127.0.0.1 and returns its files and whom to trust.
func selfSigned(t *testing.T, dir string) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool = x509.NewCertPool()
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool.AppendCertsFromPEM(certPEM)
	for file, content := range map[string][]byte{certFile: certPEM, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, pool
}

// call sends a request as a user and returns the status and the answer.
func (h *house) call(t *testing.T, user, method, path string, body any) (status int, answer string) {
	t.Helper()
	var content io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, content)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token := h.tokens[user]; token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := h.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func (h *house) apply(t *testing.T, user, yaml string) (status int, answer string) {
	t.Helper()
	return h.call(t, user, http.MethodPost, "/api/projects/default/apply", api.ApplyRequest{Files: []api.File{{Path: "x.yaml", Content: yaml}}})
}

func (h *house) want(t *testing.T, status int, contains string) func(int, string) {
	t.Helper()
	return func(got int, answer string) {
		t.Helper()
		if got != status || !strings.Contains(answer, contains) {
			t.Errorf("want %d with %q, got %d: %s", status, contains, got, answer)
		}
	}
}

const head = "apiVersion: davit.dev/v1alpha1\nkind: "

const repository = head + "Repository\nmetadata: {name: deploy}\nspec: {provider: local}\n"

func TestUsersFileOverTLS(t *testing.T) {
	t.Parallel()
	h := open(t, app.Options{})
	if !strings.HasPrefix(h.url, "https://") {
		t.Errorf("url %s", h.url)
	}
	want := h.want
	want(t, http.StatusUnauthorized, "nobody is signed in")(h.call(t, "nobody", http.MethodGet, "/api/me", nil))
	want(t, http.StatusOK, `"name":"dana"`)(h.call(t, "dana", http.MethodGet, "/api/me", nil))
	want(t, http.StatusForbidden, "definition:apply")(h.apply(t, "dana", repository))
	want(t, http.StatusOK, `"created"`)(h.apply(t, "alex", repository))

	// Roles and bindings count as soon as they are applied, and no longer than they are.
	want(t, http.StatusUnprocessableEntity, "promotion:rnu")(h.apply(t, "alex", head+"Role\nmetadata: {name: r}\nspec: {permissions: [\"promotion:rnu\"]}\n"))
	want(t, http.StatusForbidden, "definition:apply")(h.apply(t, "kim", repository))
	want(t, http.StatusOK, "")(h.apply(t, "alex", head+"Role\nmetadata: {name: applier}\nspec: {permissions: [\"definition:*\"]}\n---\n"+
		head+"RoleBinding\nmetadata: {name: appliers}\nspec: {role: applier, users: [kim]}\n"))
	want(t, http.StatusOK, "unchanged")(h.apply(t, "kim", repository))
	want(t, http.StatusForbidden, "connector:admin")(h.apply(t, "kim", strings.Replace(repository, "deploy", "other", 1)))
	want(t, http.StatusForbidden, "connector:admin")(h.apply(t, "kim", head+"Connector\nmetadata: {name: inside}\nspec: {type: prometheus, url: \"http://10.0.0.1\"}\n"))
	want(t, http.StatusForbidden, "access:admin")(h.apply(t, "kim", head+"RoleBinding\nmetadata: {name: up}\nspec: {role: admin, users: [kim]}\n"))
	want(t, http.StatusForbidden, "access:admin")(h.call(t, "kim", http.MethodDelete, "/api/projects/default/definitions/RoleBinding/appliers", nil))
	want(t, http.StatusForbidden, "promotion:read")(h.call(t, "kim", http.MethodGet, "/api/projects/default/promotions", nil))
	want(t, http.StatusOK, "")(h.call(t, "alex", http.MethodDelete, "/api/projects/default/definitions/RoleBinding/appliers", nil))
	want(t, http.StatusForbidden, "definition:apply")(h.apply(t, "kim", repository))
}

// TestForgeAsksTheAuthorizer: git, with a token as the password, in a demo that has users.
func TestForgeAsksTheAuthorizer(t *testing.T) {
	t.Parallel()
	h := open(t, app.Options{Demo: true})
	until(t, "the demo's first promotion", func() bool {
		status, answer := h.call(t, "riley", http.MethodGet, "/api/projects/default/promotions", nil)
		return status == http.StatusOK && answer != "[]" && strings.Contains(answer, "default/checkout/1")
	})
	dir := t.TempDir()
	git := func(user, password string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "http.sslVerify=false", "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=credential.helper",
			"GIT_CONFIG_VALUE_0=!f() { echo username="+user+"; echo password="+password+"; }; f")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	url := h.url + "/git/deploy.git"
	cases := map[string]struct {
		reason   string
		user     string
		password string
		read     bool
		push     bool
	}{
		"nobody":    {"no credentials", "x", "", false, false},
		"demo name": {"the demo's users are not here", "developer", "", false, false},
		"guess":     {"a wrong token", "dana", "davit_x", false, false},
		"kim":       {"no role", "kim", h.tokens["kim"], false, false},
		"riley":     {"repository:read", "riley", h.tokens["riley"], true, false},
		"dana":      {"repository:write", "dana", h.tokens["dana"], true, true},
	}
	if out, err := git("alex", h.tokens["alex"], "clone", "-q", url, "work"); err != nil {
		t.Fatal(err, out)
	}
	for name, tc := range cases {
		if out, err := git(tc.user, tc.password, "ls-remote", url); (err == nil) != tc.read {
			t.Errorf("%s (%s): read %v: %s", name, tc.reason, err, out)
		}
		if out, err := git(tc.user, tc.password, "-C", "work", "push", "-q", "origin", "HEAD:refs/heads/of-"+tc.user); (err == nil) != tc.push {
			t.Errorf("%s (%s): push %v: %s", name, tc.reason, err, out)
		}
	}
	// The whole machinery works over TLS: a promotion comes past Git, sync and metrics.
	until(t, "staging", func() bool {
		_, answer := h.call(t, "riley", http.MethodGet, "/api/projects/default/promotions/checkout/1", nil)
		var p promo.Promotion
		if err := json.Unmarshal([]byte(answer), &p); err != nil {
			t.Fatal(err)
		}
		if p.Phase == promo.PhaseFailed {
			t.Fatalf("failed: %s", answer)
		}
		return len(p.Stages) > 1 && p.Stages[0].Phase == promo.PhaseSucceeded
	})
}

// until waits for a condition that the server brings about.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for !done() {
		select {
		case <-deadline.C:
			t.Fatalf("%s did not come", what)
		case <-time.After(100 * time.Millisecond): // asks again
		}
	}
}

func TestListenNeedsTLS(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		o      app.Options
		want   string
	}{
		"demo":       {"demo users need no password", app.Options{Listen: "0.0.0.0:0", AgentListen: "127.0.0.1:0"}, "demo users need no password"},
		"plain":      {"tokens in the clear", app.Options{Listen: "0.0.0.0:0", AgentListen: "127.0.0.1:0", Users: "u"}, "tokens would be sent in the clear"},
		"agents":     {"credentials in the clear", app.Options{Listen: "127.0.0.1:0", AgentListen: "[::]:0", Users: "u"}, "tokens would be sent in the clear"},
		"no key":     {"half a certificate", app.Options{Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0", TLSCert: "none.pem"}, "none.pem"},
		"no address": {"not understood", app.Options{Listen: "here", AgentListen: "127.0.0.1:0", Users: "u"}, `"here"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.o.DataDir, tc.o.Log = t.TempDir(), slog.New(slog.DiscardHandler)
			a, err := app.New(t.Context(), tc.o)
			if a != nil || promo.CodeOf(err) != promo.CodeConfiguration || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: want %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}
