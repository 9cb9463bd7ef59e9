package policy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// Recorder keeps decisions and the documents they were made on. Both calls are upserts by id and hash.
type Recorder interface {
	RecordDecision(ctx context.Context, d Decision) error
	// RecordInput stores a document of at most MaxInputBytes under its hash.
	RecordInput(ctx context.Context, hash string, json []byte) error
}

// Request asks for a decision.
type Request struct {
	// Key makes the decision's id: the same key is the same decision, so that a repeated activity doesn't
	// record it twice. Empty: every decision is its own.
	Key   string
	Event On
	// Project, Subject (what is decided about: a promotion's id, a definition's name) and By are for the record.
	Project, Subject, By string
	// Entity is the kind of thing concerned (pipeline, service, environment …); empty matches sets of any.
	Entity string
	// Named says that what asks named the sets (a Policy step, a step's policies). Named sets are evaluated
	// whatever event and entity they are for: a gate is never dropped in silence. Others are passed over.
	Named bool
	Sets  []Set
	// Document is the input; Build makes it.
	Document any
}

// Decision is the outcome of a request, for the record and for people.
type Decision struct {
	ID        string      `json:"id"`
	Event     On          `json:"event"`
	Project   string      `json:"project,omitempty"`
	Subject   string      `json:"subject,omitempty"`
	By        string      `json:"by,omitempty"`
	Entity    string      `json:"entity,omitempty"`
	Allowed   bool        `json:"allowed"`
	Deny      []string    `json:"deny"`
	Warn      []string    `json:"warn"`
	Sets      []SetResult `json:"sets"`
	InputHash string      `json:"inputHash"`
	At        time.Time   `json:"at"`
	// ReplayOf is the id of the decision whose input and time were used again.
	ReplayOf string `json:"replayOf,omitempty"`
}

// SetResult is what one set said. Hash is Set.Hash at the time.
type SetResult struct {
	Name     string         `json:"name"`
	Project  string         `json:"project,omitempty"`
	Hash     string         `json:"hash"`
	Policies []ModuleResult `json:"policies"`
}

// ModuleResult is what one module said; Deny is already a warning where Action is warn.
type ModuleResult struct {
	Module string        `json:"module"`
	Action Action        `json:"action"`
	Deny   []string      `json:"deny"`
	Warn   []string      `json:"warn"`
	Failed bool          `json:"failed,omitempty"`
	Took   time.Duration `json:"took"`
}

// Engine decides. It keeps compiled sets by hash, so that an unchanged set is compiled once.
type Engine struct {
	recorder Recorder
	now      func() time.Time
	log      *slog.Logger

	mu    sync.Mutex
	cache map[string]*CompiledSet
}

// maxCached bounds the compiled sets kept; a compiled set takes some 100 KiB, and a miss costs milliseconds.
const maxCached = 256

// NewEngine makes an engine. recorder may be nil where nothing is to be recorded (dry runs).
func NewEngine(recorder Recorder, now func() time.Time, log *slog.Logger) *Engine {
	return &Engine{recorder: recorder, now: now, log: log, cache: map[string]*CompiledSet{}}
}

// Decide evaluates every set that the event concerns and records the decision before it answers. Without any
// such set it allows. A set that doesn't compile and a document that can't be used deny. The error is non-nil
// where ctx ended or the decision could not be recorded: then nothing was decided.
func (e *Engine) Decide(ctx context.Context, r Request) (Decision, error) {
	d, in, err := e.decide(ctx, r, e.now().UTC())
	if err != nil {
		return Decision{}, err
	}
	if e.recorder != nil {
		if in != nil {
			if err := e.recorder.RecordInput(ctx, d.InputHash, in.JSON); err != nil {
				return Decision{}, promo.Errorf(promo.CodeOf(err), "record policy input: %w", err)
			}
		}
		if err := e.recorder.RecordDecision(ctx, d); err != nil {
			return Decision{}, promo.Errorf(promo.CodeOf(err), "record policy decision: %w", err)
		}
	}
	if !d.Allowed {
		e.log.InfoContext(ctx, "policy denied", "decision", d.ID, "event", string(d.Event), "reasons", len(d.Deny))
	}
	return d, nil
}

// Replay decides again on a recorded document, at the recorded time, with other sets. It records nothing.
func (e *Engine) Replay(ctx context.Context, old Decision, document []byte, sets []Set) (Decision, error) {
	in, err := ParseInput(document)
	if err != nil {
		return Decision{}, err
	}
	if got := hash(in.JSON); got != old.InputHash {
		return Decision{}, promo.Errorf(promo.CodeConflict, "decision %q was made on another document", old.ID).
			WithHint("its hash is %s, that of the given one %s", old.InputHash, got)
	}
	d := old
	d.ID, d.ReplayOf = "replay-"+old.ID, old.ID
	return d, e.evaluate(ctx, &d, sets, in)
}

func (e *Engine) decide(ctx context.Context, r Request, at time.Time) (Decision, *Input, error) {
	d := Decision{Event: r.Event, Project: r.Project, Subject: r.Subject, By: r.By, Entity: r.Entity, At: at}
	in, err := NewInput(r.Document)
	if err != nil {
		d.Deny, d.Warn, d.Sets = []string{err.Error()}, []string{}, []SetResult{}
		d.ID = identify(r.Key, d)
		return d, nil, nil //nolint:nilerr // fail closed: what can't be looked at is denied
	}
	d.InputHash = hash(in.JSON)
	d.ID = identify(r.Key, d)
	if err := e.evaluate(ctx, &d, r.concerned(), in); err != nil {
		return Decision{}, nil, err
	}
	return d, in, nil
}

// concerned picks the sets for the event and entity.
func (r Request) concerned() []Set {
	if r.Named {
		return r.Sets
	}
	return slices.DeleteFunc(slices.Clone(r.Sets), func(s Set) bool {
		return !slices.Contains(s.On, r.Event) || (r.Entity != "" && s.Entity != "" && s.Entity != r.Entity)
	})
}

func identify(key string, d Decision) string {
	if key == "" {
		key = d.At.Format(time.RFC3339Nano) + " " + d.By + " " + d.Subject + " " + d.InputHash
	}
	return hash([]byte(string(d.Event) + " " + key))[:20]
}

// evaluate fills in what the sets say.
func (e *Engine) evaluate(ctx context.Context, d *Decision, sets []Set, in *Input) error {
	var deny, warn []string
	d.Sets = make([]SetResult, 0, len(sets))
	for _, s := range sets {
		res := SetResult{Name: s.Name, Project: s.Project, Hash: s.Hash(), Policies: []ModuleResult{}}
		set, err := e.compiled(ctx, s, res.Hash)
		if ctx.Err() != nil {
			return promo.Errorf(promo.CodeTimeout, "policy set %q: %w", s.Name, context.Cause(ctx))
		}
		if err != nil {
			deny = append(deny, err.Error())
			d.Sets = append(d.Sets, res)
			continue
		}
		for i, m := range set.modules {
			p, err := evaluateOne(ctx, m, set.Policies[i].Action, in, d.At)
			if err != nil {
				return err
			}
			deny, warn = append(deny, p.Deny...), append(warn, p.Warn...)
			res.Policies = append(res.Policies, p)
		}
		d.Sets = append(d.Sets, res)
	}
	d.Deny, d.Warn = tidy(deny), tidy(warn)
	d.Allowed = len(d.Deny) == 0
	return nil
}

func evaluateOne(ctx context.Context, m *Module, action Action, in *Input, at time.Time) (ModuleResult, error) {
	began := time.Now()
	r, err := m.EvalAt(ctx, in, at)
	if err != nil {
		return ModuleResult{}, err
	}
	p := ModuleResult{Module: m.Name, Action: action, Deny: r.Deny, Warn: r.Warn, Failed: r.Failed, Took: time.Since(began)}
	if action == ActionWarn {
		p.Warn, p.Deny = tidy(append(r.Warn, r.Deny...)), []string{}
	}
	return p, nil
}

func (e *Engine) compiled(ctx context.Context, s Set, key string) (*CompiledSet, error) {
	e.mu.Lock()
	set := e.cache[key]
	e.mu.Unlock()
	if set != nil {
		return set, nil
	}
	set, err := CompileSet(ctx, s) // outside the lock: one slow module must not hold up the others
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.cache) >= maxCached {
		clear(e.cache)
	}
	e.cache[key] = set
	return set, nil
}
