package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// HTTPSpec is the spec of an Http.
type HTTPSpec struct {
	// Method of the request.
	Method string `json:"method,omitempty" jsonschema:"enum=GET,enum=HEAD,enum=POST,enum=PUT,enum=PATCH,enum=DELETE"`
	// URL that is called; loopback, private and link-local addresses only where the server's outbound.allow names them.
	URL string `json:"url" jsonschema:"required"`
	// Headers of the request; a value may be a secret.
	Headers map[string]Text `json:"headers,omitempty"`
	// Body of the request: a text as it is, anything else as JSON.
	Body any `json:"body,omitempty"`
	// Expect is a condition on status, headers, json and body; by default the status must be 2xx.
	Expect string `json:"expect,omitempty" davit:"expr=status|headers|json|body"`
	// Poll calls again until Expect holds, up to the step's timeout.
	Poll *HTTPPoll `json:"poll,omitempty"`
}

// HTTPPoll says how often an endpoint is called until the condition holds.
type HTTPPoll struct {
	// Interval between calls.
	Interval Duration `json:"interval,omitempty"`
}

// Limits of an Http step.
const (
	maxResponse  = 1 << 20
	keptJSON     = 8 << 10 // of a response that later expressions may read
	keptBody     = 2 << 10 // of a response that is no JSON
	defaultPoll  = 10 * time.Second
	shortestPoll = time.Second
)

// HTTP calls an HTTP endpoint; its kind is written Http.
func HTTP() Type {
	return Type{
		Kind:    "Http",
		Summary: "calls an HTTP endpoint, optionally polls until a condition holds",
		Scope:   plan.ScopeStage,
		Class:   plan.ClassNetwork,
		Mutates: never,
		Timeout: time.Minute, // a call; who polls says how long
		Config:  func() any { return &HTTPSpec{Method: http.MethodGet} },
		Check:   checkHTTP,
		Outputs: map[string]string{
			"status": "status of the last response",
			"json":   "its body, where that is JSON and small",
			"body":   "the beginning of its body, where that is text",
			"calls":  "how many calls it took",
		},
		Run: runHTTP,
	}
}

func checkHTTP(cfg any) []Problem {
	c, ok := cfg.(*HTTPSpec)
	if !ok {
		return nil
	}
	var out []Problem
	if u, err := url.Parse(c.URL); !unresolved(c.URL) && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		out = append(out, Problem{Path: "url", Msg: "is no address", Hint: "write it as https://host/path"})
	} else if err == nil && u.User != nil {
		out = append(out, Problem{Path: "url", Msg: "holds a password", Hint: "use a header with a secret"})
	}
	if c.Poll != nil && c.Expect == "" {
		out = append(out, Problem{Path: "poll", Msg: "nothing says when to stop", Hint: "add expect, such as expect: status == 200"})
	}
	if c.Poll != nil && c.Poll.Interval != 0 && c.Poll.Interval.Std() < shortestPoll {
		out = append(out, Problem{Path: "poll.interval", Msg: "is too short", Hint: "at least 1s"})
	}
	if c.Body != nil && (c.Method == http.MethodGet || c.Method == http.MethodHead) {
		out = append(out, Problem{Path: "body", Msg: c.Method + " has no body"})
	}
	for name := range c.Headers {
		if http.CanonicalHeaderKey(name) == "Idempotency-Key" || http.CanonicalHeaderKey(name) == "Host" {
			out = append(out, Problem{Path: "headers." + name, Msg: "is set by Davit"})
		}
	}
	return out
}

// httpState is what a polling Http remembers.
type httpState struct {
	Calls int `json:"calls"`
}

// response is what conditions and later steps see.
type response struct {
	status  int
	headers map[string]any
	json    any
	body    string
}

func runHTTP(ctx context.Context, in In) (Out, error) {
	c, err := readConfig[HTTPSpec](HTTP(), in)
	if err != nil {
		return Out{}, err
	}
	if err := need(in.Ports.HTTP != nil && (c.Expect == "" || in.Ports.Eval != nil), in, "an HTTP client"); err != nil {
		return Out{}, err
	}
	state, err := readState[httpState](in)
	if err != nil {
		return Out{}, err
	}
	state.Calls++
	r, err := call(ctx, in, c)
	if err != nil {
		return callFailed(in, c, state, err)
	}
	good, err := r.asExpected(in, c)
	switch {
	case err != nil:
		return Out{}, err
	case good:
		return answer(r.outputs(state.Calls), "%s %s answered %d", c.Method, shownURL(c.URL), r.status)
	case c.Poll != nil:
		return pollAgain(c, state, fmt.Sprintf("%s answered %d", shownURL(c.URL), r.status))
	case c.Expect == "":
		return ended(c, promo.Errorf(statusCode(r.status), "%s %s answered %d", c.Method, shownURL(c.URL), r.status))
	}
	return Out{
		Outputs: plan.Encode(r.outputs(state.Calls)),
		Verdict: promo.Errorf(promo.CodeVerification, "%s %s answered %d, which is not as expected: %s", c.Method, shownURL(c.URL), r.status, c.Expect),
	}, nil
}

// call makes one request.
func call(ctx context.Context, in In, c *HTTPSpec) (response, error) {
	body, contentType, err := requestBody(c.Body)
	if err != nil {
		return response{}, err
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, c.URL, body)
	if err != nil {
		return response{}, promo.Errorf(promo.CodeConfiguration, "%s is no address", shownURL(c.URL))
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("User-Agent", "davit")
	hidden, err := setHeaders(in, c, req)
	if err != nil {
		return response{}, err
	}
	req.Header.Set("Idempotency-Key", in.Operation)
	resp, err := in.Ports.HTTP.Do(req)
	if err != nil {
		return response{}, connection(ctx, c, err)
	}
	defer func() { _ = resp.Body.Close() }()
	return readResponse(resp, hidden)
}

// setHeaders fills in secrets last, each only towards a host that may see it, and returns them to be hidden where
// an endpoint echoes them.
func setHeaders(in In, c *HTTPSpec, req *http.Request) (hidden []string, err error) {
	for name, v := range c.Headers {
		if v.Secret == "" {
			req.Header.Set(name, v.Value)
			continue
		}
		if in.Ports.Secret == nil {
			return nil, promo.Errorf(promo.CodeConfiguration, "header %q needs secret %q, and there are none here", name, v.Secret)
		}
		secret, err := in.Ports.Secret(v.Secret, req.URL.Hostname())
		if err != nil {
			return nil, err
		}
		req.Header.Set(name, secret.Reveal())
		hidden = append(hidden, secret.Reveal())
	}
	return hidden, nil
}

func requestBody(v any) (io.Reader, string, error) {
	switch b := v.(type) {
	case nil:
		return http.NoBody, "", nil
	case string:
		return strings.NewReader(b), "text/plain; charset=utf-8", nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, "", promo.Errorf(promo.CodeConfiguration, "body: %w", err)
	}
	return bytes.NewReader(raw), "application/json", nil
}

// connection tells why no answer came, without the URL's query, which may hold what is not for everybody.
func connection(ctx context.Context, c *HTTPSpec, err error) error {
	if ours, ok := errors.AsType[*promo.Error](err); ok {
		return ours // a refused address
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	var timeout interface{ Timeout() bool }
	if ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout() {
		return promo.Errorf(promo.CodeTimeout, "%s %s did not answer in time", c.Method, shownURL(c.URL))
	}
	return promo.Errorf(promo.CodeConnectivity, "%s %s: %w", c.Method, shownURL(c.URL), err)
}

func readResponse(resp *http.Response, hidden []string) (response, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return response{}, promo.Errorf(promo.CodeConnectivity, "the answer ended early: %w", err)
	}
	if len(raw) > maxResponse {
		return response{}, promo.Errorf(promo.CodeConfiguration, "the answer has more than %d bytes", maxResponse)
	}
	hide := func(s string) string {
		for _, h := range hidden {
			if len(h) >= 4 { // a shorter one is no secret, and would blot out half the text
				s = strings.ReplaceAll(s, h, "***")
			}
		}
		return s
	}
	r := response{status: resp.StatusCode, headers: map[string]any{}, body: hide(string(raw))}
	for name := range resp.Header {
		r.headers[strings.ToLower(name)] = hide(resp.Header.Get(name))
	}
	if json.Unmarshal([]byte(r.body), &r.json) != nil {
		r.json = nil
	}
	return r, nil
}

func (r response) asExpected(in In, c *HTTPSpec) (bool, error) {
	if c.Expect == "" {
		return r.status >= 200 && r.status < 300, nil
	}
	return in.Ports.Eval(c.Expect, map[string]any{"status": r.status, "headers": r.headers, "json": r.json, "body": r.body})
}

func (r response) outputs(calls int) map[string]any {
	out := map[string]any{"status": r.status, "calls": calls}
	switch {
	case r.json != nil && len(r.body) <= keptJSON:
		out["json"] = r.json
	case r.json == nil && utf8.ValidString(r.body):
		out["body"] = strings.ToValidUTF8(r.body[:min(len(r.body), keptBody)], "")
	}
	return out
}

func pollAgain(c *HTTPSpec, state httpState, why string) (Out, error) {
	interval := c.Poll.Interval.Std()
	if interval <= 0 {
		interval = defaultPoll
	}
	return again(Again{After: interval}, state, "call %d: %s; expected %s", state.Calls, why, c.Expect)
}

// callFailed goes on polling through trouble that may pass, and otherwise ends the step.
func callFailed(in In, c *HTTPSpec, state httpState, err error) (Out, error) {
	if c.Poll != nil && promo.CodeOf(err).Retryable() && in.Now.Before(in.Deadline) {
		return pollAgain(c, state, err.Error())
	}
	if e, ok := errors.AsType[*promo.Error](err); ok {
		return ended(c, e)
	}
	return Out{}, err
}

// ended ends the step with an error. What is no GET may have had its effect although no answer came, so that it
// is ended for good and only `retry` calls it again; an error would be tried again unasked.
func ended(c *HTTPSpec, err *promo.Error) (Out, error) {
	if c.Method == http.MethodGet || c.Method == http.MethodHead || !err.Code.Retryable() {
		return Out{}, err
	}
	return Out{Verdict: err}, nil
}

func statusCode(status int) promo.Code {
	switch {
	case status == http.StatusUnauthorized:
		return promo.CodeAuthentication
	case status == http.StatusForbidden:
		return promo.CodeAuthorization
	case status == http.StatusNotFound, status == http.StatusGone:
		return promo.CodeNotFound
	case status == http.StatusConflict:
		return promo.CodeConflict
	case status == http.StatusTooManyRequests:
		return promo.CodeRateLimit
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return promo.CodeTimeout
	case status >= 500:
		return promo.CodeConnectivity
	}
	return promo.CodeConfiguration
}

// shownURL is a URL for messages: without user, query and fragment.
func shownURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the address"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
