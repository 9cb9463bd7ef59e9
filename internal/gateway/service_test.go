package gateway

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

// openHello opens the presence stream and checks the welcome.
func openHello(t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	return helloOn(t.Context(), t, conn)
}

func helloOn(ctx context.Context, t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, MethodHello)
	if err != nil {
		t.Fatal(err)
	}
	in, err := Pack(HelloRequest{Version: "v1", Capabilities: []string{"sync"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.SendMsg(in), s.CloseSend()); err != nil {
		t.Fatal(err)
	}
	out, frame := new(wrapperspb.BytesValue), HelloFrame{}
	if err := s.RecvMsg(out); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(out, &frame); err != nil {
		t.Fatal(err)
	}
	if w := frame.Welcome; w == nil || w.Namespace != namespace || w.TaskQueue != "agent."+w.Name {
		t.Errorf("welcome: %+v", w)
	}
	return s
}

// call makes a call of the agent service.
func call[Resp any](t *testing.T, conn *grpc.ClientConn, method string, req any) (Resp, error) {
	t.Helper()
	var resp Resp
	in, err := Pack(req)
	if err != nil {
		t.Fatal(err)
	}
	out := new(wrapperspb.BytesValue)
	if err := conn.Invoke(t.Context(), method, in, out); err != nil {
		return resp, err
	}
	return resp, Unpack(out, &resp)
}

// TestCredentials walks through the life of an agent's credential, over the wire.
func TestCredentials(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := offline()
	r := NewRegistry(NewMemoryStore(), func() time.Time { return now })
	o.Agents = r
	address, _ := serve(t, o)
	works := func(s promo.Secret) codes.Code {
		_, err := workflowservice.NewWorkflowServiceClient(connect(t, address, s)).ShutdownWorker(t.Context(), &workflowservice.ShutdownWorkerRequest{})
		return statusCode(err)
	}
	enroll := func(token, credential promo.Secret) (EnrollReply, error) {
		return call[EnrollReply](t, connect(t, address, token), MethodEnroll, EnrollRequest{CredentialHash: HashSecret(credential)})
	}

	token, until, err := r.Create(t.Context(), "eu-west", "admin", []string{"shop"})
	if err != nil || until != now.Add(EnrolmentLife) || AgentOf(token) != "eu-west" {
		t.Fatalf("create: %v, until %s", err, until)
	}
	first := NewCredential("eu-west")
	wantSame(t, "a credential before enrolment", works(first), codes.Unauthenticated)
	wantSame(t, "an enrolment token as a credential", works(token), codes.Unauthenticated)
	_, err = call[EnrollReply](t, connect(t, address, token), MethodEnroll, EnrollRequest{CredentialHash: "short"})
	wantCode(t, "a hash that is none", err, codes.InvalidArgument)
	if reply, err := enroll(token, first); err != nil || reply.Name != "eu-west" {
		t.Fatalf("enrol: %+v, %v", reply, err)
	}
	wantSame(t, "the credential after enrolment", works(first), codes.OK)
	_, err = enroll(token, NewCredential("eu-west"))
	wantCode(t, "the token a second time", err, codes.Unauthenticated)
	wantSame(t, "another credential of that name", works(NewCredential("eu-west")), codes.Unauthenticated)

	second := NewCredential("eu-west")
	if _, err := call[Empty](t, connect(t, address, first), MethodRotate, RotateRequest{CredentialHash: HashSecret(second)}); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "the replaced credential, for calls on their way", works(first), codes.OK)
	now = now.Add(rotationGrace)
	wantSame(t, "the replaced credential", works(first), codes.Unauthenticated)
	_, err = call[Empty](t, connect(t, address, first), MethodRotate, RotateRequest{CredentialHash: HashSecret(first)})
	wantCode(t, "the replaced credential takes over again", err, codes.Unauthenticated)
	wantSame(t, "the new credential", works(second), codes.OK)

	late, _, err := r.Create(t.Context(), "eu-west", "admin", nil)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(EnrolmentLife + time.Second)
	_, err = enroll(late, first)
	wantCode(t, "a token that is too old", err, codes.Unauthenticated)
	wantSame(t, "the credential meanwhile", works(second), codes.OK)

	if err := r.Revoke(t.Context(), "eu-west"); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "a revoked credential", works(second), codes.Unauthenticated)
	back, _, err := r.Create(t.Context(), "eu-west", "admin", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, "a revoked credential while a token is out", works(second), codes.Unauthenticated)
	if _, err := enroll(back, first); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "let in again", works(first), codes.OK)
	a, err := r.List(t.Context())
	if err != nil || len(a) != 1 || a[0].CreatedBy != "admin" || len(a[0].Projects) != 1 || strings.Contains(a[0].CredentialHash, first.Reveal()) {
		t.Errorf("record: %+v, %v", a, err)
	}
}

func statusCode(err error) codes.Code { return status.Code(err) }

func wantSame(t *testing.T, what string, got, want codes.Code) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestSecretsThatAreNone(t *testing.T) {
	t.Parallel()
	o := offline()
	r := NewRegistry(NewMemoryStore(), time.Now)
	o.Agents = r
	enrolled(t, r, "a")
	address, _ := serve(t, o)
	for _, s := range []string{
		"x", "dvac", "dvac..", "dvac.a.", "dvac.A.x", "dvac.a.x.y", "dvae.a.x", "dvac.../../etc.x", "dvac.b.x",
		"dvac." + strings.Repeat("a", 64) + ".x", "dvac.a." + strings.Repeat("x", 300),
	} {
		_, err := workflowservice.NewWorkflowServiceClient(connect(t, address, promo.Secret(s))).ShutdownWorker(t.Context(), &workflowservice.ShutdownWorkerRequest{})
		wantCode(t, s, err, codes.Unauthenticated)
	}
	for _, name := range []string{"", "A", "1a", "a_b", "a.b", strings.Repeat("a", 64)} {
		if _, _, err := r.Create(t.Context(), name, "admin", nil); promo.CodeOf(err) != promo.CodeConfiguration {
			t.Errorf("name %q: got %v", name, err)
		}
	}
	if err := r.Revoke(t.Context(), "nobody"); promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("revoke nobody: %v", err)
	}
	if a, b := NewCredential("a"), NewCredential("a"); a == b || len(a) != len("dvac.a.")+43 {
		t.Errorf("credentials: %d and %d characters, equal %v", len(a), len(b), a == b)
	}
}

func TestPresenceCountsStreams(t *testing.T) {
	t.Parallel()
	o := offline()
	r := NewRegistry(NewMemoryStore(), time.Now)
	o.Agents = r
	events := make(chan Presence, 10)
	view := NewView(time.Now, func(c Change) { events <- *c.Presence })
	o.Fleet = view
	address, _ := serve(t, o)
	conn := connect(t, address, enrolled(t, r, "a"))
	if _, ok := view.Connected("a"); ok {
		t.Error("an agent that never came is known")
	}
	one, endOne := context.WithCancel(t.Context())
	two, endTwo := context.WithCancel(t.Context())
	helloOn(one, t, conn)
	if p := <-events; !p.Connected || !cmp.Equal(p.Capabilities, []string{"sync"}) {
		t.Errorf("first stream: %+v", p)
	}
	helloOn(two, t, conn)
	endOne()
	endTwo()
	if p := <-events; p.Connected { // the second stream's coming and the first's going made no event
		t.Errorf("last stream's end: %+v", p)
	}
	if p, ok := view.Connected("a"); !ok || p.Connected || time.Since(p.Since) > time.Minute {
		t.Errorf("view: %+v, %v", p, ok)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	o := offline()
	r := NewRegistry(NewMemoryStore(), time.Now)
	o.Agents = r
	address, _ := serve(t, o)
	conn := connect(t, address, enrolled(t, r, "a"))
	got, err := call[steps.Relation](t, conn, MethodCompare, CompareRequest{Repository: "deploy", Wanted: "w", Got: "g", Paths: []string{"prod"}})
	if want := (steps.Relation{Kind: steps.RelationOvertaken, By: "prod,deploy,w,g"}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = call[steps.Relation](t, conn, MethodCompare, CompareRequest{Paths: make([]string, maxComparePaths+1)})
	wantCode(t, "too many paths", err, codes.InvalidArgument)
	_, err = call[steps.Relation](t, connect(t, address, ""), MethodCompare, CompareRequest{})
	wantCode(t, "a stranger", err, codes.Unauthenticated)
}

func apps(names ...string) []promo.Application {
	out := make([]promo.Application, len(names))
	for i, n := range names {
		out[i] = promo.Application{ApplicationRef: promo.ApplicationRef{Agent: "liar", Namespace: "argocd", Name: n}, Labels: map[string]string{"app": n[:1]}}
	}
	return out
}

// TestReports sends parts in and out of order and looks at what the view then holds.
func TestReports(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		parts  []Report
		reply  string // one letter for each part: k accepted, s snapshot wanted
		want   []string
	}{
		"SnapshotAndChanges": {
			"the normal course",
			[]Report{{Epoch: "1", Seq: 1, Snapshot: true, Applications: apps("a", "b")}, {Epoch: "1", Seq: 2, Applications: apps("c"), Removed: []promo.ApplicationRef{{Namespace: "argocd", Name: "a"}}}},
			"kk",
			[]string{"b", "c"},
		},
		"ChangeFirst": {
			"the server was restarted and knows nothing",
			[]Report{{Epoch: "1", Seq: 7, Applications: apps("a")}, {Epoch: "1", Seq: 8, Snapshot: true, Applications: apps("a", "b")}},
			"sk",
			[]string{"a", "b"},
		},
		"Gap": {
			"a part was lost: what follows is not applied on top",
			[]Report{{Epoch: "1", Seq: 1, Snapshot: true, Applications: apps("a")}, {Epoch: "1", Seq: 3, Applications: apps("b")}, {Epoch: "1", Seq: 4, Applications: apps("c")}},
			"kss",
			[]string{"a"},
		},
		"Repeated": {
			"the answer to a part was lost, so it is sent again",
			[]Report{{Epoch: "1", Seq: 1, Snapshot: true, Applications: apps("a")}, {Epoch: "1", Seq: 2, Applications: apps("b")}, {Epoch: "1", Seq: 2, Applications: apps("b")}},
			"kks",
			[]string{"a", "b"},
		},
		"OtherEpoch": {
			"the agent was restarted",
			[]Report{{Epoch: "1", Seq: 1, Snapshot: true, Applications: apps("a")}, {Epoch: "2", Seq: 2, Applications: apps("b")}, {Epoch: "2", Seq: 3, Snapshot: true, Applications: apps("c")}},
			"ksk",
			[]string{"c"},
		},
		"Parts": {
			"a big snapshot replaces everything at its end, not before",
			[]Report{
				{Epoch: "1", Seq: 1, Snapshot: true, Applications: apps("old")},
				{Epoch: "1", Seq: 2, Snapshot: true, More: true, Applications: apps("a")},
				{Epoch: "1", Seq: 3, Snapshot: true, More: true, Applications: apps("b")},
				{Epoch: "1", Seq: 4, Snapshot: true, Applications: apps("c")},
				{Epoch: "1", Seq: 5, Applications: apps("d")},
			},
			"kkkkk",
			[]string{"a", "b", "c", "d"},
		},
		"PartsBroken": {
			"a change in the middle of a snapshot leaves the old state",
			[]Report{
				{Epoch: "1", Seq: 1, Snapshot: true, Applications: apps("old")},
				{Epoch: "1", Seq: 2, Snapshot: true, More: true, Applications: apps("a")},
				{Epoch: "1", Seq: 3, Applications: apps("b")},
			},
			"kks",
			[]string{"old"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := offline()
			r, view := NewRegistry(NewMemoryStore(), time.Now), NewView(time.Now, func(Change) {})
			o.Agents, o.Fleet = r, view
			address, _ := serve(t, o)
			conn := connect(t, address, enrolled(t, r, "agent"))
			var replies strings.Builder
			for _, part := range tc.parts {
				reply, err := call[ReportReply](t, conn, MethodReport, part)
				if err != nil {
					t.Fatal(err)
				}
				replies.WriteByte(map[bool]byte{true: 's', false: 'k'}[reply.SendSnapshot])
			}
			if replies.String() != tc.reply {
				t.Errorf("%s: replies %s, want %s", tc.reason, replies.String(), tc.reply)
			}
			var got []string
			for _, s := range view.All() {
				if s.Agent != "agent" || s.ReportedAt.IsZero() {
					t.Errorf("%s: %+v", tc.reason, s)
				}
				got = append(got, s.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestReportBounds(t *testing.T) {
	t.Parallel()
	many := func(n int, prefix string) []promo.Application {
		out := make([]promo.Application, n)
		for i := range out {
			out[i].Name = prefix + strconv.Itoa(i)
		}
		return out
	}
	var s reportSequence
	if _, ok, err := s.accept(Report{Epoch: "1", Seq: 1, Snapshot: true, More: true, Applications: many(maxApplications-1, "a")}); !ok || err != nil {
		t.Fatalf("first part: %v, %v", ok, err)
	}
	if _, _, err := s.accept(Report{Epoch: "1", Seq: 2, Snapshot: true, Applications: many(2, "b")}); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("a snapshot beyond the bound: %v", err)
	}
	v := NewView(time.Now, func(Change) {})
	if err := v.Report(t.Context(), "a", Report{Snapshot: true, Applications: many(maxApplications, "a")}); err != nil {
		t.Fatal(err)
	}
	if err := v.Report(t.Context(), "a", Report{Applications: many(1, "b")}); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("changes beyond the bound: %v", err)
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	var changes []Change
	v := NewView(time.Now, func(c Change) { changes = append(changes, c) })
	ref := promo.ApplicationRef{Agent: "eu", Namespace: "argocd", Name: "b"}
	for name, err := range map[string]error{"find": second(v.Find(t.Context(), "eu", nil)), "get": second(v.Get(t.Context(), ref))} {
		if promo.CodeOf(err) != promo.CodeConnectivity { // may come yet: a step tries again
			t.Errorf("%s before the first report: %v", name, err)
		}
	}
	snapshot := func(names ...string) Report {
		r := Report{Snapshot: true, Applications: apps(names...)}
		for i := range r.Applications {
			r.Applications[i].Agent = "eu"
		}
		return r
	}
	for _, r := range []Report{snapshot("a", "b", "bb"), snapshot("b", "bb", "c")} {
		if err := v.Report(t.Context(), "eu", r); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(changes[1].Applications); n != 4 { // three present and the one that vanished
		t.Errorf("the second snapshot changed %d applications", n)
	}
	found, err := v.Find(t.Context(), "eu", map[string]string{"app": "b"})
	if err != nil || len(found) != 2 || found[0].Name != "b" || found[1].Name != "bb" {
		t.Errorf("find: %+v, %v", found, err)
	}
	if none, err := v.Find(t.Context(), "eu", map[string]string{"app": "b", "tier": "web"}); err != nil || len(none) != 0 {
		t.Errorf("find by two labels: %+v, %v", none, err)
	}
	if app, err := v.Get(t.Context(), ref); err != nil || app.Name != "b" {
		t.Errorf("get: %+v, %v", app, err)
	}
	ref.Name = "a"
	if _, err := v.Get(t.Context(), ref); promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("get what vanished: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
