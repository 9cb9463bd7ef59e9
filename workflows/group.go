package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/promo"
)

// together runs fn for 0..n-1, at most limit at once (0: all). With failFast the first error cancels the others;
// in every case all are waited for. It returns the first error in the order of the indices, a real one before a
// "stopped".
func together(ctx workflow.Context, n, limit int, failFast bool, fn func(ctx workflow.Context, i int) *promo.Error) *promo.Error { //nolint:revive // failFast is the language's word
	if n == 1 {
		return fn(ctx, 0)
	}
	if limit <= 0 || limit > n {
		limit = n
	}
	groupCtx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	slots := workflow.NewSemaphore(groupCtx, int64(limit))
	wg := workflow.NewWaitGroup(groupCtx)
	errs := make([]*promo.Error, n)
	for i := range n {
		if slots.Acquire(groupCtx, 1) != nil {
			errs[i] = stopped()
			continue
		}
		wg.Add(1)
		workflow.Go(groupCtx, func(ctx workflow.Context) {
			defer wg.Done()
			defer slots.Release(1)
			if errs[i] = fn(ctx, i); errs[i] != nil && failFast {
				cancel()
			}
		})
	}
	wg.Wait(detached(ctx))
	return first(errs)
}

func first(errs []*promo.Error) *promo.Error {
	var out *promo.Error
	for _, err := range errs {
		if err != nil && (out == nil || isStopped(out)) {
			out = err
		}
	}
	return out
}
