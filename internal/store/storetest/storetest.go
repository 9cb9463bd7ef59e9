// Package storetest is the one suite that every database of the store passes. It knows what a store promises and
// nothing of how a database keeps it. Start reading at Run; Store is the list of all methods.
package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// Store is all that a store can do. Consumers declare the few methods they need themselves.
type Store interface {
	Definitions
	Runs
	Records
	Machines
	Forge
}

// Definitions is what people applied.
type Definitions interface {
	ApplyDefinitions(ctx context.Context, defs []store.Definition, by string, expect int64) (int64, error)
	Definitions(ctx context.Context, project string) ([]store.Definition, int64, error)
	Definition(ctx context.Context, kind, project, name string) (store.Definition, error)
	DeleteDefinition(ctx context.Context, kind, project, name string, expect int64) (int64, error)
}

// Runs is the read model of promotions and rollbacks.
type Runs interface {
	Promotions
	Rollbacks
	History
	Holds
}

// Promotions are runs of pipelines.
type Promotions interface {
	NextNumber(ctx context.Context, project, pipeline string) (int, error)
	CreatePromotion(ctx context.Context, p promo.Promotion, plan []byte) error
	RecordPromotion(ctx context.Context, p promo.Promotion) error
	Promotions(ctx context.Context, f store.PromotionFilter) ([]promo.Promotion, error)
	promotion
}

type promotion interface {
	Promotion(ctx context.Context, id string) (promo.Promotion, error)
	PromotionAttempt(ctx context.Context, id string, attempt int) (promo.Promotion, error)
	Plan(ctx context.Context, hashOrID string) ([]byte, error)
}

// Rollbacks are ways back.
type Rollbacks interface {
	NextRollbackNumber(ctx context.Context, project, service, environment string) (int, error)
	RecordRollback(ctx context.Context, r promo.Rollback) error
	Rollback(ctx context.Context, id string) (promo.Rollback, error)
	Rollbacks(ctx context.Context, f store.RollbackFilter) ([]promo.Rollback, error)
}

// History is what was in an environment.
type History interface {
	AddKnownGood(ctx context.Context, k promo.KnownGood) error
	History(ctx context.Context, project, service, environment string, limit int) ([]promo.KnownGood, error)
	LatestKnownGood(ctx context.Context, project, service, environment, before string) (promo.KnownGood, error)
	Pin(ctx context.Context, project, service, environment, commit string) error
	Unpin(ctx context.Context, project, service, environment, commit string) error
}

// Holds keep automatic promotions out.
type Holds interface {
	SetHold(ctx context.Context, h promo.Hold) error
	ReleaseHold(ctx context.Context, project, service, environment string) (bool, error)
	Hold(ctx context.Context, project, service, environment string) (promo.Hold, bool, error)
	Holds(ctx context.Context, project string) ([]promo.Hold, error)
}

// Records are what is kept for later questions.
type Records interface {
	Blobs
	Decisions
	Audit
	Subscribe(ctx context.Context) <-chan store.Event
}

// Blobs are larger things by digest.
type Blobs interface {
	PutBlob(ctx context.Context, mediaType string, data []byte) (string, error)
	Blob(ctx context.Context, digest string) (store.Blob, error)
}

// Decisions are answers of policy sets.
type Decisions interface {
	AddDecision(ctx context.Context, d store.Decision) error
	Decision(ctx context.Context, id string) (store.Decision, error)
	Decisions(ctx context.Context, f store.DecisionFilter) ([]store.Decision, error)
}

// Audit is who did what.
type Audit interface {
	AppendAudit(ctx context.Context, e store.Entry) (store.Entry, error)
	Audit(ctx context.Context, f store.AuditFilter) ([]store.Entry, error)
	VerifyAudit(ctx context.Context) (store.AuditCheck, error)
}

// Machines are agents, tokens and the server itself.
type Machines interface {
	Agents
	Enrolment
	Tokens
	Server
}

// Agents are the agents' records.
type Agents interface {
	CreateAgent(ctx context.Context, a store.Agent) error
	Agent(ctx context.Context, name string) (store.Agent, error)
	AgentByCredential(ctx context.Context, credentialHash string) (store.Agent, error)
	Agents(ctx context.Context) ([]store.Agent, error)
	TouchAgent(ctx context.Context, name, version string, capabilities []string) error
}

// Enrolment is how an agent comes in and goes out.
type Enrolment interface {
	PutAgent(ctx context.Context, a store.Agent) error
	SetEnrolment(ctx context.Context, name, enrolmentHash string, until time.Time) error
	EnrolAgent(ctx context.Context, enrolmentHash, credentialHash string) (store.Agent, error)
	RevokeAgent(ctx context.Context, name string) error
	DeleteAgent(ctx context.Context, name string) error
}

// Tokens are API tokens.
type Tokens interface {
	CreateToken(ctx context.Context, t store.Token) error
	TokenByHash(ctx context.Context, hash string) (store.Token, error)
	Tokens(ctx context.Context, principal string) ([]store.Token, error)
	DeleteToken(ctx context.Context, principal, name string) error
}

// Server is what the server remembers about itself.
type Server interface {
	ServerKey(ctx context.Context, name string) ([]byte, error)
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
	Ping(ctx context.Context) error
	Close() error
}

// Forge is what the local forge keeps.
type Forge interface {
	PullRequests
	SaveForgeRepository(ctx context.Context, name string, doc []byte) error
	ForgeRepositories(ctx context.Context, name string) ([][]byte, error)
	SaveStatus(ctx context.Context, repository, commit, name string, doc []byte) error
	Statuses(ctx context.Context, repository, commit string) ([][]byte, error)
}

// PullRequests are the local forge's pull requests.
type PullRequests interface {
	NextPullRequestNumber(ctx context.Context, repository string) (int, error)
	SavePullRequest(ctx context.Context, repository string, number int, state, head string, doc []byte) error
	PullRequest(ctx context.Context, repository string, number int) ([]byte, error)
	PullRequests(ctx context.Context, repository, state, head string, before, limit int) ([][]byte, error)
}

// Clock is the time that a store under test sees.
type Clock struct{ offset atomic.Int64 }

// epoch is where every test's clock begins.
func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// Now returns the time, which stands still until Advance.
func (c *Clock) Now() time.Time { return epoch().Add(time.Duration(c.offset.Load())) }

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// Open opens the store of the same test again, whatever is in it, with this clock.
type Open func(t *testing.T, clock *Clock) Store

// Run runs the suite. For every test, open makes an empty store.
func Run(t *testing.T, open Open) {
	t.Helper()
	tests := map[string]func(t *testing.T, s Store, clock *Clock){
		"definitions":            testDefinitions,
		"definition conflict":    testDefinitionConflict,
		"numbers":                testNumbers,
		"promotion order":        testPromotionOrder,
		"promotion create":       testPromotionCreate,
		"promotion filters":      testPromotionFilters,
		"rollbacks":              testRollbacks,
		"history":                testHistory,
		"known-good":             testLatestKnownGood,
		"pins":                   testPins,
		"holds":                  testHolds,
		"blobs":                  testBlobs,
		"decisions":              testDecisions,
		"audit":                  testAudit,
		"agents":                 testAgents,
		"enrolment":              testEnrolment,
		"tokens":                 testTokens,
		"server keys":            testServerKeys,
		"pull requests":          testPullRequests,
		"forge records":          testForgeRecords,
		"events":                 testEvents,
		"events coalesce":        testEventsCoalesce,
		"writers and readers":    testConcurrency,
		"ended context":          testEndedContext,
		"larger than the bounds": testBounds,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &Clock{}
			s := open(t, clock)
			t.Cleanup(func() { ok(t, s.Close()) })
			test(t, s, clock)
		})
	}
}

// ok ends the test on an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns the value of a call that has to succeed.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

// code ends the test unless err carries the code.
func code(t *testing.T, err error, want promo.Code) {
	t.Helper()
	if err == nil || promo.CodeOf(err) != want {
		t.Fatalf("error %v, want code %s", err, want)
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}
