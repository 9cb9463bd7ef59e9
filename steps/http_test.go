package steps_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/outbound"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
	"github.com/davit-cd/davit/steps/stepstest"
)

func httpIn(client *http.Client, spec string) steps.In {
	w := stepstest.World{Ports: steps.Ports{HTTP: client, Eval: stepstest.Eval, Secret: func(name, host string) (promo.Secret, error) {
		if name != "key" || host != "127.0.0.1" {
			return "", promo.Errorf(promo.CodeAuthorization, "secret %q may not be sent to %s", name, host)
		}
		return "t0psecret", nil
	}}}
	return w.In("call", spec)
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			w.Header().Set("X-Version", "v2")
			_, _ = io.WriteString(w, `{"items":[1,2,3]}`)
		case "/echo":
			b, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("X-Key")+" "+string(b))
		case "/big":
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20+1))
		case "/mib":
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "short")
		default:
			status := map[string]int{"/401": 401, "/403": 403, "/404": 404, "/409": 409, "/429": 429, "/503": 503, "/418": 418}[r.URL.Path]
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(s.Close)
	cases := map[string]struct {
		spec string
		code promo.Code // of the error or verdict
		ends bool       // as a verdict
		says string     // in outputs or error
	}{
		"Get":          {`{"url":"URL/ok"}`, "", false, `"items":[1,2,3]`},
		"Expect":       {`{"url":"URL/ok","expect":"status == 200 && len(json.items) == 3 && headers['x-version'] == 'v2'"}`, "", false, `"status":200`},
		"ExpectFails":  {`{"url":"URL/ok?token=s3cret","expect":"len(json.items) > 3"}`, promo.CodeVerification, true, "not as expected"},
		"ExpectError":  {`{"url":"URL/ok","expect":"json.items"}`, promo.CodeInternal, false, ""},
		"Expect404":    {`{"url":"URL/404","expect":"status == 404"}`, "", false, "404"},
		"Text":         {`{"method":"POST","url":"URL/echo","body":"hi","headers":{"X-Key":"k"}}`, "", false, "POST text/plain; charset=utf-8 k hi"},
		"JSON":         {`{"method":"PUT","url":"URL/echo","body":{"a":12345678901234567890}}`, "", false, `PUT application/json  {\"a\":12345678901234567890}`},
		"Big":          {`{"url":"URL/big"}`, promo.CodeConfiguration, false, "more than"},
		"MiB":          {`{"url":"URL/mib"}`, "", false, "xxx"},
		"Cut":          {`{"url":"URL/cut"}`, promo.CodeConnectivity, false, "ended early"},
		"401":          {`{"url":"URL/401"}`, promo.CodeAuthentication, false, "401"},
		"403":          {`{"url":"URL/403"}`, promo.CodeAuthorization, false, "403"},
		"404":          {`{"url":"URL/404"}`, promo.CodeNotFound, false, "404"},
		"409":          {`{"url":"URL/409"}`, promo.CodeConflict, false, "409"},
		"418":          {`{"url":"URL/418"}`, promo.CodeConfiguration, false, "418"},
		"429":          {`{"url":"URL/429"}`, promo.CodeRateLimit, false, "429"},
		"503":          {`{"url":"URL/503?token=s3cret"}`, promo.CodeConnectivity, false, "503"},
		"Post503":      {`{"method":"POST","url":"URL/503"}`, promo.CodeConnectivity, true, "503"},
		"Post404":      {`{"method":"POST","url":"URL/404"}`, promo.CodeNotFound, false, "404"},
		"Secret":       {`{"method":"POST","url":"URL/echo","headers":{"X-Key":{"secret":"key"}},"expect":"body contains 'POST' && !(body contains 't0psecret')"}`, "", false, "POST  ***"},
		"SecretOther":  {`{"url":"URL/ok","headers":{"X-Key":{"secret":"other"}}}`, promo.CodeAuthorization, false, "may not be sent"},
		"Gone":         {`{"url":"http://127.0.0.1:1/x?token=s3cret"}`, promo.CodeConnectivity, false, "refused"},
		"GonePost":     {`{"method":"POST","url":"http://127.0.0.1:1/"}`, promo.CodeConnectivity, true, "refused"},
		"PollThrough":  {`{"url":"URL/503","expect":"status == 200","poll":{"interval":"3s"}}`, "", false, ""},
		"PollGone":     {`{"url":"http://127.0.0.1:1/","expect":"status == 200","poll":{}}`, "", false, ""},
		"PollRefused":  {`{"url":"URL/big","expect":"status == 200","poll":{}}`, promo.CodeConfiguration, false, "more than"},
		"UnknownField": {`{"url":"URL/ok","nope":1}`, promo.CodeConfiguration, false, "nope"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := steps.HTTP().Run(t.Context(), httpIn(s.Client(), strings.ReplaceAll(tc.spec, "URL", s.URL)))
			if err != nil && strings.Contains(err.Error(), "s3cret") || out.Verdict != nil && strings.Contains(out.Verdict.Error(), "s3cret") {
				t.Errorf("the query is in the message: %v %v", err, out.Verdict)
			}
			if strings.HasPrefix(name, "Poll") && tc.code == "" {
				if err != nil || out.Again == nil || out.Again.After < 3*time.Second {
					t.Errorf("%v %+v", err, out)
				}
				return
			}
			switch {
			case tc.code == promo.CodeInternal:
				if err == nil {
					t.Error("a condition that is none passed")
				}
			case tc.ends && err == nil && out.Verdict != nil:
				failsWith(t, name, out.Verdict, tc.code, tc.says)
			case tc.code != "":
				failsWith(t, name, err, tc.code, tc.says)
			case err != nil || out.Again != nil || out.Verdict != nil || !strings.Contains(string(out.Outputs), tc.says):
				t.Errorf("%v %s", err, out.Outputs)
			}
		})
	}
}

// TestHTTPGuarded uses the product's own client.
func TestHTTPGuarded(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was reached") }))
	defer s.Close()
	client, err := outbound.New(outbound.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = steps.HTTP().Run(t.Context(), httpIn(client, `{"url":"`+s.URL+`"}`))
	failsWith(t, "a private address", err, promo.CodeConfiguration, "outbound.allow")
}

func TestCheckHTTP(t *testing.T) {
	t.Parallel()
	for at, c := range map[string]steps.HTTPSpec{
		"url":                     {URL: "example.com"},
		"poll":                    {URL: "https://a.example.com", Poll: &steps.HTTPPoll{}},
		"poll.interval":           {URL: "https://a.example.com", Expect: "true", Poll: &steps.HTTPPoll{Interval: steps.Duration(time.Millisecond)}},
		"body":                    {Method: "GET", URL: "https://a.example.com", Body: "x"},
		"headers.idempotency-key": {URL: "https://a.example.com", Headers: map[string]steps.Text{"idempotency-key": {Value: "x"}}},
	} {
		if got := steps.HTTP().Check(&c); len(got) != 1 || got[0].Path != at {
			t.Errorf("%s: %+v", at, got)
		}
	}
	if got := steps.HTTP().Check(&steps.HTTPSpec{URL: "https://u:p@a.example.com"}); len(got) != 1 {
		t.Errorf("a password in the url: %+v", got)
	}
	if got := steps.HTTP().Check(&steps.HTTPSpec{URL: "${{ inputs.url }}"}); len(got) != 0 {
		t.Errorf("an expression: %+v", got)
	}
}
