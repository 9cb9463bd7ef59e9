package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
)

func TestMatchInputs(t *testing.T) {
	t.Parallel()
	declared := []promo.ApprovalInput{{Name: "ticket", Pattern: `OPS-\d+|none`}, {Name: "note"}, {Name: "odd", Pattern: "("}}
	cases := map[string]struct {
		reason string
		given  map[string]string
		says   string // "" for no error
	}{
		"fits":             {"as declared", map[string]string{"ticket": "OPS-12", "note": "anything at all"}, ""},
		"other branch":     {"alternatives are inside the anchors", map[string]string{"ticket": "none"}, ""},
		"nothing":          {"whether one is required is the workflow's to say", nil, ""},
		"a part":           {"the whole value must match", map[string]string{"ticket": "x OPS-12"}, `"x OPS-12" does not match`},
		"a beginning":      {"to its end", map[string]string{"ticket": "nonesuch"}, "does not match"},
		"a second line":    {"over lines too", map[string]string{"ticket": "OPS-1\nrm -rf"}, "does not match"},
		"unknown":          {"nobody would read it", map[string]string{"tikcet": "OPS-1"}, `no input "tikcet"`},
		"pattern is wrong": {"a pattern that does not compile lets nothing through", map[string]string{"odd": "x"}, "does not compile"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := matchInputs(declared, tc.given)
			if (err != nil) != (tc.says != "") || err != nil && (promo.CodeOf(err) != promo.CodeConfiguration || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.says)
			}
		})
	}
}

func TestFilesOf(t *testing.T) {
	t.Parallel()
	one := "diff --git a/x y.yaml b/x y.yaml\n--- a/x y.yaml\n+++ b/x y.yaml\n@@ -1 +1 @@\n-a\n+b"
	two := "diff --git a/prod/b/v.yaml b/prod/b/v.yaml\nnew file mode 100644\n--- /dev/null\n+++ b/prod/b/v.yaml\n@@ -0,0 +1 @@\n+diff --git is a text too"
	cases := map[string]struct {
		diff string
		want []policy.FileDiff
	}{
		"none":  {"", nil},
		"prose": {"nothing changed", nil},
		"one":   {one, []policy.FileDiff{{Path: "x y.yaml", Unified: one}}},
		"two":   {one + "\n" + two, []policy.FileDiff{{Path: "x y.yaml", Unified: one}, {Path: "prod/b/v.yaml", Unified: two}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, filesOf(tc.diff)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWireError(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		err    error
		code   promo.Code
		says   string
	}{
		"gone":       {"a run that ended takes no more decisions", serviceerror.NewNotFound("no such workflow"), promo.CodeConflict, "the run has ended"},
		"down":       {"trying again can help", serviceerror.NewUnavailable("no"), promo.CodeConnectivity, "does not answer"},
		"wrapped":    {"inside other errors too", fmt.Errorf("update: %w", serviceerror.NewNotFound("x")), promo.CodeConflict, "the run has ended"},
		"too slow":   {"its own code", context.DeadlineExceeded, promo.CodeTimeout, "in time"},
		"unknown":    {"a fault of ours", errors.New("boom"), promo.CodeInternal, "boom"},
		"a refusal":  {"the validator's words come back", contract.Wire(promo.Errorf(promo.CodeApproval, "ana started it").WithHint("ask bob")), promo.CodeApproval, "ana started it"},
		"no details": {"another's application error", temporal.NewApplicationError("odd", "Odd"), promo.CodeInternal, "odd"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := wireError(tc.err)
			if got == nil || promo.CodeOf(got) != tc.code || !strings.Contains(got.Error(), tc.says) {
				t.Errorf("%s: got %s %v, want %s %q", tc.reason, promo.CodeOf(got), got, tc.code, tc.says)
			}
		})
	}
	if err := wireError(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"shop/release/7": "shop", "rollback/shop/checkout/prod/1": "shop", "shop": "shop", "": "",
	} {
		if got := project(id); got != want {
			t.Errorf("project of %q is %q, want %q", id, got, want)
		}
	}
	if got := runWorkflow("rollback/shop/checkout/prod/1"); got != contract.RollbackID("shop/checkout/prod/1") {
		t.Errorf("got %q", got)
	}
	if got := runWorkflow("shop/release/7"); got != contract.PromotionID("shop/release/7") {
		t.Errorf("got %q", got)
	}
}
