package git

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/davit-cd/davit/internal/promo"
)

// maxServerText bounds what of a server's own words goes into an error.
const maxServerText = 2 << 10

// errRace says that a reference was not where the request expected it. It never leaves the package.
var errRace = errors.New("reference moved")

// errForgotten says that the server lacks objects that a push took for granted. It never leaves the package alone.
var errForgotten = errors.New("server lacks objects")

// serverText makes a server's words fit for an error: one line, bounded, no control characters.
func serverText(s string) string {
	if len(s) > maxServerText {
		s = s[:maxServerText] + "…"
	}
	fields := strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return strings.TrimSpace(strings.Join(fields, " · "))
}

// serverError classifies what a Git server says in its own words.
func serverError(msg string) error {
	text, low := serverText(msg), strings.ToLower(msg)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(low, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("not our ref", "not found", "does not exist", "does not appear to be a git repository", "no such remote", "not valid: "):
		return promo.Errorf(promo.CodeNotFound, "git server: %s", text)
	case has("authentication", "could not read username", "invalid credentials"):
		return promo.Errorf(promo.CodeAuthentication, "git server: %s", text)
	case has("permission", "denied", "forbidden", "not allowed", "unauthorized", "protected", "declined"):
		return promo.Errorf(promo.CodeAuthorization, "git server: %s", text)
	case has("rate limit", "too many requests"):
		return promo.Errorf(promo.CodeRateLimit, "git server: %s", text)
	}
	return promo.Errorf(promo.CodeConnectivity, "git server: %s", text)
}

// statusError classifies an HTTP answer other than 200.
func statusError(url string, status int, header http.Header, body string) error {
	text := serverText(body)
	if strings.Contains(header.Get("Content-Type"), "html") {
		text = "" // a page for people says nothing here
	}
	if text != "" {
		text = ": " + text
	}
	code, hint := promo.CodeConnectivity, ""
	switch {
	case status == http.StatusUnauthorized:
		code, hint = promo.CodeAuthentication, "check the credentials of the repository's connector"
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && header.Get("Retry-After") != "":
		code = promo.CodeRateLimit
		if after := header.Get("Retry-After"); after != "" {
			hint = "the server says: again after " + serverText(after)
		}
	case status == http.StatusForbidden:
		code, hint = promo.CodeAuthorization, "the credentials may not do this with the repository"
	case status == http.StatusNotFound, status == http.StatusGone:
		code, hint = promo.CodeNotFound, "no such repository, or the credentials may not see it"
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		code = promo.CodeTimeout
	case status >= 300 && status < 500:
		code = promo.CodeConfiguration
	}
	err := promo.Errorf(code, "%s answered %d %s%s", url, status, http.StatusText(status), text)
	if hint != "" {
		return err.WithHint("%s", hint)
	}
	return err
}

// wireError classifies trouble on the way: what has a code already keeps it, cancellation passes through.
func wireError(ctx context.Context, url string, err error) error {
	var known *promo.Error
	var netErr net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, errRace):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout(),
		errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return promo.Errorf(promo.CodeTimeout, "%s did not answer in time: %w", url, err)
	}
	return promo.Errorf(promo.CodeConnectivity, "talking to %s: %w", url, err)
}

// isCode reports whether err carries the code.
func isCode(err error, code promo.Code) bool {
	var e *promo.Error
	return errors.As(err, &e) && e.Code == code
}
