package knowngood_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/knowngood"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/releases"
)

func TestBaseline(t *testing.T) {
	t.Parallel()
	app := func(revision string) promo.Application {
		return promo.Application{Sync: promo.SyncSynced, Health: promo.HealthHealthy, Revision: revision}
	}
	with := func(a promo.Application, change func(*promo.Application)) promo.Application { change(&a); return a }
	cases := map[string]struct {
		reason string
		// fleet gets the first commit and the head: between them only qa/ and README.md changed.
		fleet func(first, head string) fleet
		move  map[string]string // what else the head changes
		want  bool
	}{
		"all well at the head": {
			"nothing is known, everything is as the head says",
			func(_, head string) fleet { return fleet{"us": {app(head)}, "eu": {app(head)}} }, nil, true,
		},
		"older revisions with the same files": {
			"an engine that has not looked yet at a commit that changes nothing here",
			func(first, _ string) fleet { return fleet{"us": {app(first)}, "eu": {app(first)}} }, nil, true,
		},
		"a target behind": {
			"its files differ at the head", func(first, head string) fleet { return fleet{"us": {app(first)}, "eu": {app(head)}} },
			map[string]string{"prod/us/values.yaml": "us: 2\n"},
			false,
		},
		"another target's folder changed": {
			"what only eu reads does not make us differ", func(first, head string) fleet { return fleet{"us": {app(first)}, "eu": {app(head)}} },
			map[string]string{"prod/eu/values.yaml": "eu: 2\n"},
			true,
		},
		"shared files changed": {
			"every target reads them", func(first, head string) fleet { return fleet{"us": {app(first)}, "eu": {app(head)}} },
			map[string]string{"base/common.yaml": "common: 2\n"},
			false,
		},
		"one application of a target behind": {
			"each application counts, not the last one listed",
			func(first, head string) fleet { return fleet{"us": {app(first), app(head)}, "eu": {app(head)}} },
			map[string]string{"prod/us/values.yaml": "us: 2\n"},
			false,
		},
		"a revision of elsewhere": {
			"a chart's version, or no revision at all, proves nothing and is no trouble",
			func(_, head string) fleet { return fleet{"us": {app(head), app("1.2.3"), app("")}, "eu": {app(head)}} }, nil, false,
		},
		"a commit that nobody has": {
			"nor does one that was pruned",
			func(_, head string) fleet { return fleet{"us": {app(head)}, "eu": {app(strings.Repeat("ab", 20))}} }, nil, false,
		},
		"out of sync": {"not what Git says", func(_, head string) fleet {
			return fleet{"us": {app(head)}, "eu": {with(app(head), func(a *promo.Application) { a.Sync = promo.SyncOutOfSync })}}
		}, nil, false},
		"not healthy": {"not good", func(_, head string) fleet {
			return fleet{"us": {with(app(head), func(a *promo.Application) { a.Health = promo.HealthProgressing })}, "eu": {app(head)}}
		}, nil, false},
		"a target without applications": {"nobody knows what is there", func(_, head string) fleet { return fleet{"us": {app(head)}} }, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			first := w.repo.Head("main")
			move := map[string]string{"qa/values.yaml": "qa: 2\n", "README.md": "more\n"}
			maps.Copy(move, tc.move)
			head := w.other("move", move)
			maps.Copy(w.fleet, tc.fleet(first, head))
			for range 2 { // a repeated activity records nothing twice
				err := w.keeper.Baseline(t.Context(), knowngood.BaselineRequest{
					Project: "shop", Service: service(), Repository: releases.Repository("deploy"), Environment: "prod",
					Targets: []plan.Target{{Name: "us", Agent: "a"}, {Name: "eu", Agent: "b"}},
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			got := w.history()
			if !tc.want {
				if len(got) != 0 {
					t.Errorf("%s: recorded %+v", tc.reason, got)
				}
				return
			}
			if len(got) != 1 || got[0].Commit != head || !got[0].KnownGood || got[0].Promotion != "" {
				t.Errorf("%s: got %+v, want the head %s as known-good", tc.reason, got, head)
			}
		})
	}
}

func TestBaselineKeepsHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	head := w.repo.Head("main")
	if err := w.Store.AddKnownGood(t.Context(), promo.KnownGood{Project: "shop", Service: "checkout", Environment: "prod", Commit: "x", Promotion: "p"}); err != nil {
		t.Fatal(err)
	}
	w.fleet["us"] = []promo.Application{{Sync: promo.SyncSynced, Health: promo.HealthHealthy, Revision: head}}
	err := w.keeper.Baseline(t.Context(), knowngood.BaselineRequest{
		Project: "shop", Service: service(), Repository: releases.Repository("deploy"), Environment: "prod", Targets: []plan.Target{{Name: "us"}},
	})
	if got := w.history(); err != nil || len(got) != 1 {
		t.Errorf("a place with a history got a baseline: %+v, %v", got, err)
	}
}

func TestMarkWaves(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		second map[string]string // the commit of the second wave; the first wave's changes prod/us only
		want   bool
	}{
		"each wave its folder": {
			"the second wave left what the first one reads alone", map[string]string{"prod/eu/values.yaml": "eu: 2\n"}, true,
		},
		"the second touches the first's": {
			"what us runs is not what the commit says", map[string]string{"prod/eu/values.yaml": "eu: 2\n", "prod/us/values.yaml": "us: 3\n"}, false,
		},
		"a file of all targets": {"us reads it too", map[string]string{"prod/values.yaml": "all: 2\n"}, false},
		"a new file of all targets": {
			"a file that did not exist then is a difference", map[string]string{"prod/eu/values.yaml": "eu: 2\n", "prod/extra.yaml": "x: 1\n"}, false,
		},
		"a shared file":       {"so are shared ones", map[string]string{"prod/eu/values.yaml": "eu: 2\n", "base/common.yaml": "common: 2\n"}, false},
		"another environment": {"qa is nobody's business here", map[string]string{"prod/eu/values.yaml": "eu: 2\n", "qa/values.yaml": "qa: 2\n"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			one := w.promote("shop/release/1/prod.1/update/1", map[string]string{"prod/us/values.yaml": "us: 2\n"})
			two := w.promote("shop/release/1/prod.1/update/2", tc.second)
			res := w.mark(two, "shop/release/1", map[string]string{"us": one, "eu": two})
			if res.KnownGood != tc.want || (res.Reason == "") != tc.want {
				t.Errorf("%s: got %+v", tc.reason, res)
			}
			if !tc.want && (!strings.Contains(res.Reason, "target us") || !strings.Contains(res.Reason, one) || !strings.Contains(res.Reason, two)) {
				t.Errorf("the reason names neither target nor commits: %q", res.Reason)
			}
			again := w.mark(two, "shop/release/1", map[string]string{"us": one, "eu": two})
			if got := w.history(); again != res || len(got) != 1 || got[0].KnownGood != tc.want || got[0].Commit != two {
				t.Errorf("marked again it says %+v, the history is %+v", again, got)
			}
		})
	}
}

func TestMarkNotKnownGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	head := w.promote("op", map[string]string{"prod/values.yaml": "all: 2\n"})
	req := w.markRequest(head, "shop/release/1", everywhere(head))
	req.Entry.KnownGood = false // a run with --only, an ignored step
	res, err := w.keeper.Mark(t.Context(), req)
	if err != nil || res.KnownGood {
		t.Errorf("got %+v, %v", res, err)
	}
	if got := w.history(); len(got) != 1 || got[0].KnownGood {
		t.Errorf("it belongs to the history without being good: %+v", got)
	}
}

func TestMarkFolderOfOneTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	// Owned down to a file, and a folder that holds no folder of a target.
	s := service()
	s.Owned = map[string][]string{"prod": {"prod/us", "prod/values.yaml"}}
	one := w.promote("op1", map[string]string{"prod/us/values.yaml": "us: 2\n"})
	two := w.promote("op2", map[string]string{"prod/values.yaml": "all: 2\n"})
	req := w.markRequest(two, "shop/release/1", map[string]string{"us": one})
	req.Service = s
	if res, err := w.keeper.Mark(t.Context(), req); err != nil || res.KnownGood {
		t.Errorf("the owned file differs: got %+v, %v", res, err)
	}
	three := w.promote("op3", map[string]string{"prod/eu/values.yaml": "eu: 2\n"})
	req = w.markRequest(three, "shop/release/2", map[string]string{"us": two})
	req.Service = s
	if res, err := w.keeper.Mark(t.Context(), req); err != nil || !res.KnownGood {
		t.Errorf("only what is not owned differs: got %+v, %v", res, err)
	}
}

func TestMarkUnknownCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	_, err := w.keeper.Mark(t.Context(), w.markRequest(w.repo.Head("main"), "p", everywhere(strings.Repeat("ab", 20))))
	if err == nil || len(w.history()) != 0 {
		t.Errorf("a revision that nobody has was taken: %v, history %+v", err, w.history())
	}
}
