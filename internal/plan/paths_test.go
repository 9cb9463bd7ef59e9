package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func TestOwnedPathsAllow(t *testing.T) {
	t.Parallel()
	service := plan.Service{
		Name: "shop", Path: "services/shop", Shared: []string{"services/shop/base"},
		Owned: map[string][]string{"dev": {"services/shop/dev"}, "all": {"services/shop"}},
	}
	cases := map[string]struct {
		reason, env, path string
		shared            bool
		want              string
	}{
		"Owned":        {"below the owned path", "dev", "services/shop/dev/values.yaml", false, ""},
		"Itself":       {"the owned path may be a file", "dev", "services/shop/dev", false, ""},
		"Neighbour":    {"segments count, not letters", "dev", "services/shop/develop/x", false, "outside the paths of environment"},
		"Other":        {"another environment's", "dev", "services/shop/prod/x", false, "allowed is what lies below services/shop/dev"},
		"Unsaid":       {"shared, and not said so", "dev", "services/shop/base/x", false, "shared: true"},
		"Said":         {"shared, and said so", "dev", "services/shop/base/x", true, ""},
		"SharedOwned":  {"`shared` opens the shared paths only", "dev", "services/shop/dev/x", true, "outside the shared paths"},
		"OwnsShared":   {"who owns the folder around it owns it", "all", "services/shop/base/x", false, ""},
		"Nowhere":      {"an environment that the service doesn't know", "nope", "services/shop/dev/x", false, "declares none"},
		"Absolute":     {"absolute", "dev", "/etc/passwd", false, "is absolute"},
		"Up":           {"leaving the tree", "dev", "services/shop/dev/../../../x", false, "leaves the tree"},
		"Git":          {"Git's own folder, in any case", "dev", "services/shop/dev/.GIT/hooks", false, ".git"},
		"Backslash":    {"no other separators", "dev", `services\shop\dev`, false, "backslash"},
		"Empty":        {"empty", "dev", "", false, "is empty"},
		"EmptySegment": {"doubled slash", "dev", "services/shop/dev//x", false, "empty segment"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := service.OwnedPaths(tc.env).Allow(tc.path, tc.shared)
			if tc.want == "" {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || promo.CodeOf(err) != promo.CodeConfiguration {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	good := map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "3d": 72 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0, "1.5h": 90 * time.Minute,
	}
	for in, want := range good {
		d, err := plan.ParseDuration(in)
		if err != nil || d.Std() != want {
			t.Errorf("ParseDuration(%q) = %s, %v", in, d, err)
		}
		back, err := plan.ParseDuration(d.String())
		if err != nil || back != d {
			t.Errorf("%q is written %q, which reads %s, %v", in, d, back, err)
		}
	}
	for _, in := range []string{"", "5", "0", "-5s", "d", "5 minutes", "3651d", "99999d", "3650d1h", "1.5d", "1h2d", "9223372036854775807s"} {
		if d, err := plan.ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %s, want an error", in, d)
		}
	}
}
