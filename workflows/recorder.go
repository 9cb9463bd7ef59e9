package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// recordRetry is how long a record that could not be stored waits before it is tried again. The store may be
// full or locked; nothing is lost meanwhile, because the state is the workflow's.
const recordRetry = 10 * time.Second

// recorder stores the state for people. Changes of one workflow task are coalesced into one local activity.
type recorder struct {
	save            func(ctx workflow.Context) error
	dirty           bool
	closing, closed bool
}

// start runs the recorder until close. It must not be cancelled with the run, so ctx is disconnected here.
func (r *recorder) start(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { r.closed = true }()
		for {
			if err := workflow.Await(ctx, func() bool { return r.dirty || r.closing }); err != nil {
				return
			}
			if !r.dirty {
				return
			}
			r.dirty = false
			if err := r.save(ctx); err != nil {
				workflow.GetLogger(ctx).Error("state not recorded, will try again", "error", err)
				r.dirty = true
				if workflow.Sleep(ctx, recordRetry) != nil {
					return
				}
			}
		}
	})
}

// changed asks for a record of the present state.
func (r *recorder) changed() { r.dirty = true }

// close waits until the last change is stored.
func (r *recorder) close(ctx workflow.Context) error {
	r.closing = true
	return workflow.Await(ctx, func() bool { return r.closed })
}
