package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// statusClientClosed is what logs show for a client that went away; nobody receives it.
const statusClientClosed = 499

// statusOf is the one table from codes to HTTP statuses. The verdicts other than Policy are conflicts with the
// state of a run: the request was fine, the answer is no.
func statusOf(code promo.Code) int {
	switch code {
	case promo.CodeConfiguration:
		return http.StatusUnprocessableEntity
	case promo.CodeNotFound:
		return http.StatusNotFound
	case promo.CodeConflict, promo.CodeApproval, promo.CodeHealth, promo.CodeVerification, promo.CodeSync,
		promo.CodeMigration:
		return http.StatusConflict
	case promo.CodeAuthorization, promo.CodePolicy:
		return http.StatusForbidden
	case promo.CodeAuthentication:
		return http.StatusUnauthorized
	case promo.CodeRateLimit:
		return http.StatusTooManyRequests
	case promo.CodeTimeout:
		return http.StatusGatewayTimeout
	case promo.CodeConnectivity:
		return http.StatusBadGateway
	case promo.CodeInternal, promo.CodeAll:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

// problem is an error as REST answers it: a Problem, or a Denial where a policy refused.
type problem struct {
	api.Problem
	status int
	deny   []string
}

// problemOf maps an error once, at the border. Only a *promo.Error was written for people; the text of any
// other error stays in the log.
func problemOf(err error) *problem {
	if already, ok := errors.AsType[*problem](err); ok {
		return already
	}
	if errors.Is(err, context.Canceled) {
		return &problem{status: statusClientClosed, Problem: api.Problem{Code: promo.CodeTimeout, Message: "the request was cancelled"}}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &problem{status: http.StatusGatewayTimeout, Problem: api.Problem{
			Code: promo.CodeTimeout, Message: "the server did not finish in time", Hint: "try again; what was started goes on",
		}}
	}
	var e *promo.Error
	if !errors.As(err, &e) {
		return &problem{status: http.StatusInternalServerError, Problem: api.Problem{
			Code: promo.CodeInternal, Message: "the server met an unexpected error", Hint: "the server's log says more",
		}}
	}
	p := &problem{status: statusOf(e.Code), Problem: api.Problem{Code: e.Code, Message: e.Msg, Hint: e.Hint}}
	if e.Code == promo.CodeInternal {
		p.Message = "the server met an unexpected error"
		p.Hint = "the server's log says more"
	}
	for _, known := range []error{store.ErrFull, store.ErrReadOnly} {
		if errors.Is(err, known) {
			p.status, p.Message, p.Hint = http.StatusInsufficientStorage, known.Error(), e.Hint
		}
	}
	var diagnosed interface{ Diagnostics() []string }
	if errors.As(err, &diagnosed) {
		p.Diagnostics = diagnosed.Diagnostics()
	}
	if e.Code == promo.CodePolicy {
		p.deny = []string{e.Msg}
		var denied interface{ Denials() []string }
		if errors.As(err, &denied) {
			p.deny = denied.Denials()
		}
	}
	return p
}

// Error returns the message.
func (p *problem) Error() string { return p.Message }

// GetStatus returns the HTTP status; huma asks for it.
func (p *problem) GetStatus() int { return p.status }

// MarshalJSON gives the body: {"deny": […]} for a policy's refusal.
func (p *problem) MarshalJSON() ([]byte, error) {
	if p.deny != nil {
		return json.Marshal(api.Denial{Deny: p.deny})
	}
	return json.Marshal(p.Problem)
}

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// fromHuma turns the error that huma makes of a malformed request into a Problem.
func fromHuma(_ huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	code := promo.CodeConfiguration
	if e.Status >= http.StatusInternalServerError {
		code = promo.CodeInternal
	}
	p := api.Problem{Code: code, Message: e.Detail}
	for _, d := range e.Errors {
		p.Diagnostics = append(p.Diagnostics, strings.TrimPrefix(d.Location+": "+d.Message, ": "))
	}
	if len(p.Diagnostics) == 1 {
		p.Message += ": " + p.Diagnostics[0]
		p.Diagnostics = nil
	}
	return p, nil
}
