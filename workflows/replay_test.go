package workflows_test

import (
	"compress/gzip"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/workflows"
)

// histories reads what every version recorded; an empty set proves nothing and is refused.
func histories(t *testing.T) map[string]*historypb.History {
	t.Helper()
	files, err := filepath.Glob("testdata/history/*/*.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no recorded histories below testdata/history: record them with `go run ./test/histgen -version v0.1`")
	}
	out := map[string]*historypb.History{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h, err := client.HistoryFromJSON(z, client.HistoryJSONOptions{})
		if err != nil || len(h.GetEvents()) < 5 {
			t.Fatalf("%s: %d events, %v", name, len(h.GetEvents()), err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		out[name] = h
	}
	return out
}

func replay(t *testing.T, h *historypb.History, register func(r worker.WorkflowReplayer)) error {
	t.Helper()
	r := worker.NewWorkflowReplayer()
	register(r)
	return r.ReplayWorkflowHistory(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)), h)
}

func named(name string) workflow.RegisterOptions { return workflow.RegisterOptions{Name: name} }

// TestReplay proves that this code goes on with everything that earlier versions have begun.
func TestReplay(t *testing.T) {
	t.Parallel()
	for name, h := range histories(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := replay(t, h, func(r worker.WorkflowReplayer) {
				r.RegisterWorkflowWithOptions(workflows.Promotion, named(contract.PromotionWorkflow))
				r.RegisterWorkflowWithOptions(workflows.Lane, named(contract.LaneWorkflow))
				r.RegisterWorkflowWithOptions(workflows.Rollback, named(contract.RollbackWorkflow))
			})
			if err != nil {
				t.Errorf("this code would break runs that %s began: %v\nmend it: put the change of behaviour behind workflow.GetVersion, "+
					"with its change id in versions.go, and record the new behaviour with `go run ./test/histgen -version <next>`; "+
					"never record a released version anew", filepath.Base(filepath.Dir(name)), err)
			}
		})
	}
}

// TestReplayNoticesChanges replays the same histories with twins that each do one thing more: all must fail, or the
// test above proves nothing.
func TestReplayNoticesChanges(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for name, h := range histories(t) {
		kind := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()
		seen[kind]++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := replay(t, h, func(r worker.WorkflowReplayer) {
				r.RegisterWorkflowWithOptions(brokenPromotion, named(contract.PromotionWorkflow))
				r.RegisterWorkflowWithOptions(brokenLane, named(contract.LaneWorkflow))
				r.RegisterWorkflowWithOptions(brokenRollback, named(contract.RollbackWorkflow))
			})
			if err == nil || !strings.Contains(err.Error(), "TMPRL1100") {
				t.Errorf("a changed %s replays %s: %v", kind, name, err)
			}
		})
	}
	for _, kind := range []string{contract.PromotionWorkflow, contract.LaneWorkflow, contract.RollbackWorkflow} {
		if seen[kind] == 0 {
			t.Errorf("no recorded history of a %s", kind)
		}
	}
}

// brokenPromotion asks first whether it is alive.
func brokenPromotion(ctx workflow.Context, in contract.PromotionInput) (contract.PromotionResult, error) {
	if _, err := contract.RunAlive.Call(ctx, contract.RunAliveRequest{ID: in.Run.ID}); err != nil {
		return contract.PromotionResult{}, err
	}
	return workflows.Promotion(ctx, in)
}

// brokenLane waits a moment before it takes messages.
func brokenLane(ctx workflow.Context, st contract.LaneState) error {
	if err := workflow.Sleep(ctx, time.Second); err != nil {
		return err
	}
	return workflows.Lane(ctx, st)
}

// brokenRollback looks at the hold first.
func brokenRollback(ctx workflow.Context, in contract.RollbackInput) (contract.RollbackResult, error) {
	if _, err := contract.ReadHold.Call(ctx, contract.LaneID{Environment: in.Target.Environment}); err != nil {
		return contract.RollbackResult{}, err
	}
	return workflows.Rollback(ctx, in)
}
