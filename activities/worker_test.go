package activities_test

import (
	"context"

	"go.temporal.io/sdk/worker"
)

// workerOptions make a worker whose activities end with ctx.
func workerOptions(ctx context.Context) worker.Options {
	return worker.Options{BackgroundActivityContext: ctx}
}
