package outbound

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/promo"
)

func TestIsPublic(t *testing.T) {
	t.Parallel()
	for a, want := range map[string]bool{
		"1.1.1.1": true, "8.8.8.8": true, "2606:4700::1111": true, "172.32.0.1": true, "100.128.0.1": true,
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "0.0.0.0": false, "::": false, "10.1.2.3": false,
		"172.16.0.1": false, "192.168.1.1": false, "169.254.1.1": false, "fe80::1": false, "fc00::1": false, "fd12::1": false,
		"100.64.0.1": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "ff02::1": false,
		"::ffff:127.0.0.1": false, "::ffff:8.8.8.8": true, "64:ff9b::10.0.0.1": false, "64:ff9b::8.8.8.8": true,
		"2002:7f00:1::": false, "2001:db8::1": false, "::127.0.0.1": false, "fec0::1": false, "0.1.2.3": false,
	} {
		if got := isPublic(netip.MustParseAddr(a)); got != want {
			t.Errorf("isPublic(%s) = %v", a, got)
		}
	}
	for _, a := range []string{"169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "168.63.129.16"} {
		if !isMetadata(netip.MustParseAddr(a)) {
			t.Errorf("%s is not taken for metadata", a)
		}
	}
}

// get asks for a URL and returns the refusal, if it is one.
func get(t *testing.T, allow []string, target string) (*http.Response, *promo.Error) {
	t.Helper()
	c, err := New(Options{Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "s3cret")
	resp, err := c.Do(req)
	if err == nil {
		_ = resp.Body.Close()
		return resp, nil
	}
	var refused *promo.Error
	if !errors.As(err, &refused) {
		t.Fatalf("%s: %v", target, err)
	}
	return nil, refused
}

func TestRefusesPrivate(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") }))
	defer s.Close()
	port := s.URL[strings.LastIndex(s.URL, ":")+1:]
	for _, target := range []string{
		s.URL, "http://localhost:" + port, "http://[::1]:" + port, "http://0.0.0.0:" + port, "http://2130706433:" + port,
		"http://[::ffff:127.0.0.1]:" + port, "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data",
	} {
		c, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s was dialled", target)
		}
	}
	if _, refused := get(t, nil, s.URL); refused == nil || refused.Code != promo.CodeConfiguration || !strings.Contains(refused.Hint, "outbound.allow") {
		t.Errorf("refusal: %v", refused)
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	reached := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, allow := range []string{"127.0.0.1", "127.0.0.0/8", "127.0.0.1:" + u.Port()} {
		if _, refused := get(t, []string{allow}, s.URL); refused != nil {
			t.Errorf("allow %q: %v", allow, refused)
		}
	}
	if _, refused := get(t, []string{"localhost"}, "http://LOCALHOST:"+u.Port()); refused != nil {
		t.Errorf("by name: %v", refused)
	}
	for _, allow := range []string{"127.0.0.1:1", "10.0.0.0/8", "localhost", "*.example.com"} {
		if _, refused := get(t, []string{allow}, s.URL); refused == nil {
			t.Errorf("allow %q let %s through", allow, s.URL)
		}
	}
	if reached != 4 {
		t.Errorf("reached %d times", reached)
	}
	if _, refused := get(t, []string{"169.254.169.254", "169.254.0.0/16"}, "http://169.254.169.254/"); refused == nil || !strings.Contains(refused.Msg, "metadata") {
		t.Errorf("metadata: %v", refused)
	}
	for _, bad := range []string{"", "*", "a b", "http://x", "x/y", "*x.com"} {
		if _, err := New(Options{Allow: []string{bad}}); promo.CodeOf(err) != promo.CodeConfiguration {
			t.Errorf("rule %q: %v", bad, err)
		}
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	var key string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { key = r.Header.Get("X-Api-Key") }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{"/loop": "/loop", "/other": other.URL, "/meta": "http://169.254.169.254/", "/localhost": "http://localhost:1/"}
		http.Redirect(w, r, to[r.URL.Path], http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	allow := []string{"127.0.0.1"}
	if _, refused := get(t, allow, s.URL+"/other"); refused != nil || key != "" {
		t.Errorf("redirect to another host: %v, with key %q", refused, key)
	}
	for path, says := range map[string]string{"/loop": "redirects", "/meta": "metadata"} {
		if _, refused := get(t, allow, s.URL+path); refused == nil || !strings.Contains(refused.Msg, says) {
			t.Errorf("%s: %v", path, refused)
		}
	}
}
