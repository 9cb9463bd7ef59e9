package gateway

import (
	"context"
	"sync"

	"github.com/davit-cd/davit/internal/promo"
)

// maxApplications bounds what one agent can make the server remember.
const maxApplications = 20000

// reportSequence puts the parts of an agent's reports in order. Its lock is held while the fleet takes a part,
// so the fleet sees them one at a time.
type reportSequence struct {
	mu      sync.Mutex
	epoch   string
	last    uint64
	partial *Report // a snapshot of which more parts will come
	count   int     // applications since the last snapshot's start, an upper bound
}

// accept returns the report that the fleet gets now: nil while a snapshot is incomplete. ok is false where a
// part was missed and only a snapshot helps.
func (s *reportSequence) accept(r Report) (out *Report, ok bool, err error) {
	begins := r.Snapshot && (s.partial == nil || s.epoch != r.Epoch || r.Seq != s.last+1)
	if !begins && (s.epoch != r.Epoch || r.Seq != s.last+1 || r.Snapshot != (s.partial != nil)) {
		s.reset()
		return nil, false, nil
	}
	if begins {
		s.reset()
		s.epoch = r.Epoch
	}
	s.last = r.Seq
	s.count += len(r.Applications)
	if len(r.Applications) > maxApplications || s.partial != nil && s.count > maxApplications {
		s.reset()
		return nil, false, promo.Errorf(promo.CodeConfiguration, "more than %d applications in one report", maxApplications)
	}
	switch {
	case !r.Snapshot:
		return &r, true, nil
	case s.partial != nil:
		s.partial.Applications = append(s.partial.Applications, r.Applications...)
	default:
		s.partial = &r
	}
	if r.More {
		return nil, true, nil
	}
	out, s.partial, s.count = s.partial, nil, 0
	out.More = false
	return out, true, nil
}

// reset forgets everything, so that only a snapshot is accepted next.
func (s *reportSequence) reset() { s.epoch, s.last, s.partial, s.count = "", 0, nil, 0 }

func (s *service) report(ctx context.Context, r Report) (ReportReply, error) {
	agent := callerOf(ctx).Name
	for i := range r.Applications {
		r.Applications[i].Agent = agent // whatever it says
	}
	for i := range r.Removed {
		r.Removed[i].Agent = agent
	}
	s.g.mu.Lock()
	seq := &s.g.state(agent).reports
	s.g.mu.Unlock()
	seq.mu.Lock()
	defer seq.mu.Unlock()
	out, ok, err := seq.accept(r)
	if err != nil || !ok {
		return ReportReply{SendSnapshot: !ok}, err
	}
	if out == nil {
		return ReportReply{}, nil
	}
	if err := s.g.o.Fleet.Report(ctx, agent, *out); err != nil {
		seq.reset()
		return ReportReply{}, err
	}
	return ReportReply{}, nil
}
