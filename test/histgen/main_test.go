package main

import (
	"bytes"
	"compress/gzip"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// TestRecord plays every case on a real server with workers that remember nothing: each workflow task replays the
// whole history, as after a restart of the server at that moment.
func TestRecord(t *testing.T) {
	worker.SetStickyWorkflowCacheSize(0)
	files, err := record(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < len(cases()) {
		t.Fatalf("%d histories of %d cases", len(files), len(cases()))
	}
	for name, b := range files {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h, err := client.HistoryFromJSON(z, client.HistoryJSONOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h.GetEvents()[0].GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED {
			t.Errorf("%s begins with %s", name, h.GetEvents()[0].GetEventType())
		}
		for _, e := range h.GetEvents() {
			if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED {
				t.Errorf("%s: event %d: %s", name, e.GetEventId(), e.GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage())
			}
		}
	}
}
