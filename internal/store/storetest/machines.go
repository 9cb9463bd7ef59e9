package storetest

import (
	"bytes"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

func testAgents(t *testing.T, s Store, clock *Clock) {
	ctx := t.Context()
	a := store.Agent{Name: "us", EnrolmentHash: "e1", EnrolmentUntil: epoch().Add(time.Hour), Projects: []string{"shop"}, CreatedBy: "ann", CreatedAt: epoch()}
	ok(t, s.CreateAgent(ctx, a))
	code(t, s.CreateAgent(ctx, store.Agent{Name: "us"}), promo.CodeConflict)
	ok(t, s.CreateAgent(ctx, store.Agent{Name: "eu", CreatedBy: "ann", CreatedAt: epoch()}))
	same(t, "agent", must(s.Agent(ctx, "us"))(t), a)
	clock.Advance(time.Minute)
	ok(t, s.TouchAgent(ctx, "us", "v1", []string{"sync", "query"}))
	a.Version, a.Capabilities, a.LastSeenAt = "v1", []string{"sync", "query"}, clock.Now()
	same(t, "agents", must(s.Agents(ctx))(t)[1], a) // by name
	code(t, s.TouchAgent(ctx, "nope", "v1", nil), promo.CodeNotFound)
	a.CredentialHash, a.EnrolmentHash, a.EnrolmentUntil, a.Version = "c9", "", time.Time{}, "v2"
	ok(t, s.PutAgent(ctx, a))
	same(t, "put", must(s.AgentByCredential(ctx, "c9"))(t), a)
	ok(t, s.PutAgent(ctx, store.Agent{Name: "ap", CreatedBy: "bob", CreatedAt: epoch()}))
	same(t, "put anew", must(s.Agent(ctx, "ap"))(t).CreatedBy, "bob")
	if err := s.PutAgent(ctx, store.Agent{Name: "thief", CredentialHash: "c9"}); err == nil {
		t.Fatal("two agents have one credential")
	}
	same(t, "owner", must(s.AgentByCredential(ctx, "c9"))(t).Name, "us")
	ok(t, s.DeleteAgent(ctx, "eu"))
	_, err := s.Agent(ctx, "eu")
	code(t, err, promo.CodeNotFound)
	code(t, s.DeleteAgent(ctx, "eu"), promo.CodeNotFound)
}

func testEnrolment(t *testing.T, s Store, clock *Clock) {
	ctx := t.Context()
	ok(t, s.CreateAgent(ctx, store.Agent{Name: "us", EnrolmentHash: "e1", EnrolmentUntil: epoch().Add(time.Hour)}))
	_, err := s.EnrolAgent(ctx, "wrong", "c1")
	code(t, err, promo.CodeAuthentication)
	_, err = s.EnrolAgent(ctx, "", "c1")
	code(t, err, promo.CodeAuthentication)
	same(t, "enrolled", must(s.EnrolAgent(ctx, "e1", "c1"))(t).Name, "us")
	_, err = s.EnrolAgent(ctx, "e1", "c2")
	code(t, err, promo.CodeAuthentication) // it works once
	same(t, "by credential", must(s.AgentByCredential(ctx, "c1"))(t).Name, "us")
	_, err = s.AgentByCredential(ctx, "")
	code(t, err, promo.CodeNotFound)

	ok(t, s.SetEnrolment(ctx, "us", "e2", clock.Now().Add(time.Minute)))
	clock.Advance(time.Hour)
	_, err = s.EnrolAgent(ctx, "e2", "c2")
	code(t, err, promo.CodeAuthentication) // expired
	ok(t, s.RevokeAgent(ctx, "us"))
	revoked := clock.Now()
	clock.Advance(time.Hour)
	ok(t, s.RevokeAgent(ctx, "us"))
	same(t, "revoked once", must(s.Agent(ctx, "us"))(t).RevokedAt, revoked)
	_, err = s.AgentByCredential(ctx, "c1")
	code(t, err, promo.CodeNotFound)
	code(t, s.SetEnrolment(ctx, "us", "e3", clock.Now().Add(time.Minute)), promo.CodeNotFound)
}

func testTokens(t *testing.T, s Store, clock *Clock) {
	ctx := t.Context()
	tok := store.Token{
		Hash: "h1", Name: "ci", Principal: "ann", Role: "developer", Project: "shop", CreatedBy: "bob",
		CreatedAt: epoch(), ExpiresAt: epoch().Add(time.Hour),
	}
	ok(t, s.CreateToken(ctx, tok))
	twin := tok
	twin.Hash = "h2"
	code(t, s.CreateToken(ctx, twin), promo.CodeConflict)
	ok(t, s.CreateToken(ctx, store.Token{Hash: "h3", Name: "for-ever", Principal: "ann"}))
	same(t, "token", must(s.TokenByHash(ctx, "h1"))(t), tok)
	clock.Advance(time.Hour)
	_, err := s.TokenByHash(ctx, "h1")
	code(t, err, promo.CodeNotFound)
	same(t, "no expiry", must(s.TokenByHash(ctx, "h3"))(t).Name, "for-ever")
	same(t, "tokens", len(must(s.Tokens(ctx, "ann"))(t)), 2)
	same(t, "of another", len(must(s.Tokens(ctx, "bob"))(t)), 0)
	ok(t, s.DeleteToken(ctx, "ann", "for-ever"))
	code(t, s.DeleteToken(ctx, "ann", "for-ever"), promo.CodeNotFound)
	_, err = s.TokenByHash(ctx, "h3")
	code(t, err, promo.CodeNotFound)
}

func testServerKeys(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	key := must(s.ServerKey(ctx, "gateway"))(t)
	same(t, "length", len(key), 32)
	same(t, "same again", must(s.ServerKey(ctx, "gateway"))(t), key)
	if bytes.Equal(must(s.ServerKey(ctx, "session"))(t), key) {
		t.Fatal("two names have one key")
	}
	same(t, "no value", must(s.Meta(ctx, "demo"))(t), "")
	ok(t, s.SetMeta(ctx, "demo", "seeded"))
	ok(t, s.SetMeta(ctx, "demo", "run"))
	same(t, "value", must(s.Meta(ctx, "demo"))(t), "run")
}

func testPullRequests(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	save := func(state, head, doc string) int {
		t.Helper()
		n := must(s.NextPullRequestNumber(ctx, "deploy"))(t)
		ok(t, s.SavePullRequest(ctx, "deploy", n, state, head, []byte(doc)))
		return n
	}
	same(t, "first", save("open", "a", "one"), 1)
	same(t, "second", save("merged", "b", "two"), 2)
	same(t, "third", save("open", "b", "three"), 3)
	ok(t, s.SavePullRequest(ctx, "deploy", 1, "closed", "a", []byte("ONE")))
	same(t, "document", string(must(s.PullRequest(ctx, "deploy", 1))(t)), "ONE")
	docs := func(state, head string, before, limit int) []string {
		t.Helper()
		out := []string{}
		for _, d := range must(s.PullRequests(ctx, "deploy", state, head, before, limit))(t) {
			out = append(out, string(d))
		}
		return out
	}
	same(t, "all", docs("", "", 0, 0), []string{"three", "two", "ONE"})
	same(t, "open", docs("open", "", 0, 0), []string{"three"})
	same(t, "head", docs("", "b", 0, 1), []string{"three"})
	same(t, "next page", docs("", "b", 3, 1), []string{"two"})
	_, err := s.PullRequest(ctx, "deploy", 9)
	code(t, err, promo.CodeNotFound)
}

func testForgeRecords(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	ok(t, s.SaveForgeRepository(ctx, "b", []byte("B")))
	ok(t, s.SaveForgeRepository(ctx, "a", []byte("-")))
	ok(t, s.SaveForgeRepository(ctx, "a", []byte("A")))
	same(t, "all", must(s.ForgeRepositories(ctx, ""))(t), [][]byte{[]byte("A"), []byte("B")})
	same(t, "one", must(s.ForgeRepositories(ctx, "b"))(t), [][]byte{[]byte("B")})
	same(t, "none", len(must(s.ForgeRepositories(ctx, "c"))(t)), 0)
	ok(t, s.SaveStatus(ctx, "a", "sha", "ci/test", []byte("pending")))
	ok(t, s.SaveStatus(ctx, "a", "sha", "ci/test", []byte("success")))
	ok(t, s.SaveStatus(ctx, "a", "sha", "ci/lint", []byte("failure")))
	same(t, "checks", must(s.Statuses(ctx, "a", "sha"))(t), [][]byte{[]byte("failure"), []byte("success")})
	same(t, "of another commit", len(must(s.Statuses(ctx, "a", "other"))(t)), 0)
}
