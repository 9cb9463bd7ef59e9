package web_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/web"
	"github.com/davit-cd/davit/internal/web/webtest"
)

// manager is always signed in.
type manager struct{ webtest.People }

func (manager) Authenticate(r *http.Request) (context.Context, promo.Principal, error) {
	return r.Context(), promo.Principal{Name: "release-manager"}, nil
}

// browser starts a headless one. What it complains about fails the test: a breach of the page's own content
// security policy among it.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on this machine: pages are tested in a browser where there is one")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	err = chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *log.EventEntryAdded:
			if ev.Entry.Level == log.EntryLevelError {
				t.Errorf("browser: %s %s", ev.Entry.Text, ev.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			t.Errorf("script: %s", ev.ExceptionDetails.Text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func TestAPersonApprovesOnALivePage(t *testing.T) {
	t.Parallel()
	var fakes webtest.Fakes
	var feed store.Feed
	var mu sync.Mutex
	p := promo.Promotion{
		ID: "default/checkout/7", Project: "default", Pipeline: "checkout", Service: "checkout", Number: 7, Phase: promo.PhaseWaitingForApproval,
		Message: "waits for one approval", StartedAt: time.Now(), Stages: []promo.Stage{{Name: "prod", Phase: promo.PhaseWaitingForApproval, Steps: []promo.Step{
			{Name: "sign-off", Type: "Approval", Phase: promo.PhaseWaitingForApproval, Approval: &promo.Approval{Minimum: 1, Digest: "d1"}},
		}}},
	}
	change := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		f()
		feed.Publish(store.Event{Kind: store.EventPromotion, ID: p.ID})
	}
	fakes.Promotions.GetFn = func(context.Context, promo.Principal, string) (promo.Promotion, error) {
		mu.Lock()
		defer mu.Unlock()
		return p, nil
	}
	fakes.Records.DecisionsFn = func(context.Context, promo.Principal, api.DecisionFilter) ([]api.Decision, error) { return nil, nil }
	var decided api.DecideRequest
	fakes.Promotions.DecideFn = func(_ context.Context, who promo.Principal, req api.DecideRequest) (api.DecideResult, error) {
		decided = req
		change(func() {
			p.Phase, p.Message = promo.PhaseSucceeded, "approved by "+who.Name
			p.Stages = []promo.Stage{{Name: "prod", Phase: promo.PhaseSucceeded}}
		})
		return api.DecideResult{Done: true}, nil
	}
	handler, err := web.New(web.Options{
		Services: fakes.Services(&feed), Auth: manager{}, Authz: webtest.People{}, Demo: switcher{}, DemoUsers: []string{"release-manager", "admin"},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	ctx := browser(t)
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(text string) {
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](`document.body.innerText.includes("`+text+`")`)); err != nil {
			t.Fatalf("the page does not show %q: %v", text, err)
		}
	}
	// By script, not by the mouse: the page may be fetched anew between finding a node and touching it.
	script := func(text string) chromedp.Action[chromedp.Void] {
		return chromedp.Steps(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
			_, err := chromedp.Evaluate[any](text)(ctx, t)
			return chromedp.Void{}, err
		})
	}
	do(chromedp.Navigate(srv.URL+"/projects/default/promotions/checkout/7"), script(`document.querySelector("textarea").value = "looks good"`))
	change(func() { p.Message = "somebody else is looking too" })
	shows("somebody else is looking too")
	kept, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("textarea").value`)) // a live page must not eat what a person types
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.RunResponse(ctx, script(`document.querySelector("button[value=approve]").click()`)); err != nil {
		t.Fatal(err)
	}
	shows("approved by release-manager")
	if kept != "looks good" {
		t.Errorf("the comment became %q", kept)
	}
	if !decided.Approve || decided.Comment != "looks good" || decided.Digest != "d1" || decided.Stage != "prod" || decided.Step != "sign-off" || decided.RequestID == "" {
		t.Errorf("decided %+v", decided)
	}
}

type switcher struct{}

func (switcher) Switch(w http.ResponseWriter, _ *http.Request, user string) error {
	if user == "" {
		return errors.New("nobody")
	}
	http.SetCookie(w, &http.Cookie{Name: "user", Value: user, Path: "/", SameSite: http.SameSiteLaxMode})
	return nil
}
