package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

const (
	// maxAnswer bounds what is read of an answer: a full list of promotions fits.
	maxAnswer = 64 << 20
	// callTimeout is longer than the server takes for anything, so that its own answer comes first.
	callTimeout = 70 * time.Second
)

// access is where a server is and how to get in.
type access struct {
	URL   string `json:"url"`
	Token string `json:"token,omitempty"`
	// mine marks the `davit up` of this machine.
	mine bool
}

// client calls REST.
type client struct {
	access
	as   string
	http *http.Client
}

// client finds the server: flags, then environment, then a login, then the running `davit up` of this machine.
func (a *app) client() (*client, error) {
	at := access{URL: a.server, Token: orDefault(a.token, a.env("DAVIT_TOKEN"))}
	if at.URL == "" {
		found, err := a.findServer()
		if err != nil {
			return nil, err
		}
		if a.as != "" && found.mine {
			found.Token = "" // the machine's token is the admin's: it would win over whom --as names
		}
		found.Token = orDefault(at.Token, found.Token)
		at = found
	} else if at.Token == "" {
		if saved, err := readAccess(a.loginFile()); err == nil && saved.URL == strings.TrimRight(at.URL, "/") {
			at.Token = saved.Token
		}
	}
	u, err := url.Parse(at.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, usageError{promo.Errorf(promo.CodeConfiguration, "%q is no address of a server", at.URL).WithHint("like https://davit.example.com")}
	}
	at.URL = strings.TrimRight(at.URL, "/")
	return &client{access: at, as: a.as, http: &http.Client{
		// A redirect would carry the token to wherever it points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (a *app) loginFile() string { return filepath.Join(a.ConfigDir, "davit", "login.json") }
func (a *app) upFile() string    { return filepath.Join(a.ConfigDir, "davit", "up.json") }

func (a *app) findServer() (access, error) {
	if a.ConfigDir != "" {
		for _, file := range []string{a.upFile(), a.loginFile()} {
			at, err := readAccess(file)
			if err == nil {
				at.mine = file == a.upFile()
				if saved, err := readAccess(a.loginFile()); err == nil && at.Token == "" && saved.URL == at.URL {
					at.Token, at.mine = saved.Token, false // a server with real users leaves no token
				}
				return at, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return access{}, promo.Errorf(promo.CodeConfiguration, "%q: %w", file, err)
			}
		}
	}
	return access{}, promo.Errorf(promo.CodeConnectivity, "no server is known").
		WithHint("start one with `davit up`, or name one with --server or DAVIT_SERVER")
}

// maxAccess bounds an access file: an address and a token.
const maxAccess = 64 << 10

func readAccess(file string) (access, error) {
	f, err := os.Open(file) //nolint:gosec // a fixed name in the person's own configuration folder
	if err != nil {
		return access{}, err
	}
	defer func() { _ = f.Close() }()
	var at access
	if err := json.NewDecoder(io.LimitReader(f, maxAccess)).Decode(&at); err != nil {
		return access{}, err
	}
	return at, nil
}

// writeAccess writes the file so that only its owner can read it, and nobody ever reads half of it.
func writeAccess(file string, at access) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(at)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".access-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// projectPath is a path below the project.
func (a *app) projectPath(parts ...string) string {
	return apiPath(append([]string{"projects", a.project}, parts...)...)
}

func apiPath(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/api/" + strings.Join(parts, "/")
}

// call sends a request and reads the answer into out, a pointer.
func (c *client) call(ctx context.Context, method, path string, query url.Values, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return c.unreachable(ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		return refusalOf(res, b)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return promo.Errorf(promo.CodeInternal, "%s answered something that isn't Davit's", c.URL).WithHint("is this the address of a Davit server?")
	}
	return nil
}

func (c *client) request(ctx context.Context, method, path string, query url.Values, body any) (*http.Request, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, promo.Errorf(promo.CodeConfiguration, "request: %w", err)
		}
		content = bytes.NewReader(b)
	}
	full := c.URL + path
	if len(query) > 0 {
		full += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, full, content)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.as != "" {
		req.Header.Set("Davit-As", c.as)
	}
	return req, nil
}

func (c *client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return promo.Errorf(promo.CodeConnectivity, "no answer from %s: %w", c.URL, err).WithHint("is the server running?")
}

// refusalOf reads the body of an error.
func refusalOf(res *http.Response, body []byte) error {
	var answer struct {
		api.Problem
		Deny []string `json:"deny"`
	}
	if json.Unmarshal(body, &answer) != nil || (answer.Code == "" && answer.Deny == nil) {
		return promo.Errorf(promo.CodeInternal, "the server answered %s", res.Status)
	}
	if answer.Deny != nil {
		return api.Refused(answer.Deny)
	}
	e := &promo.Error{Code: answer.Code, Msg: answer.Message, Hint: answer.Hint}
	if e.Code == promo.CodeAuthentication && e.Hint == "" {
		e.Hint = "sign in with `davit login`, or give --token"
	}
	if len(answer.Diagnostics) > 0 {
		return api.Diagnosed(e, answer.Diagnostics)
	}
	return e
}

// get reads path into a value.
func get[T any](ctx context.Context, c *client, path string, query url.Values) (T, error) {
	var out T
	err := c.call(ctx, http.MethodGet, path, query, nil, &out)
	return out, err
}

// post sends a request and reads the answer into a value.
func post[T any](ctx context.Context, c *client, path string, body any) (T, error) {
	var out T
	err := c.call(ctx, http.MethodPost, path, nil, body, &out)
	return out, err
}
