// Package main records the histories that the replay test of package workflows plays: it runs fixed cases on an
// embedded Temporal server, with the real workflows and activities that only answer, and writes each history as
// gzipped JSON. Run it from the repository's root, with the version that is released next:
//
//	go run ./test/histgen -version v0.2
//
// Recorded versions are never recorded anew: what a released Davit has written must stay replayable. It must not
// know what the workflows do inside. Start reading at record; the cases are in cases.go.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/temporal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("histories not recorded", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	f := flag.NewFlagSet("histgen", flag.ContinueOnError)
	f.SetOutput(stderr)
	version := f.String("version", "", "version whose workflows are recorded, such as v0.2")
	out := f.String("out", "workflows/testdata/history", "folder of the recorded histories")
	overwrite := f.Bool("overwrite", false, "record a version anew that was not released yet")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *version == "" {
		return errors.New("say which version: go run ./test/histgen -version v0.2")
	}
	dir := filepath.Join(*out, *version)
	if _, err := os.Stat(dir); err == nil && !*overwrite {
		return fmt.Errorf("%s exists: a released version is not recorded anew (-overwrite for one that is not released)", dir)
	}
	files, err := record(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name+".json.gz"), b, 0o644); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(stderr, "%d histories in %s\n", len(files), dir)
	return err
}

// record plays every case and returns the histories by file name.
func record(ctx context.Context) (files map[string][]byte, err error) {
	dir, err := os.MkdirTemp("", "histgen")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := slog.New(slog.DiscardHandler)
	server, err := temporal.Start(ctx, temporal.Options{Dir: dir, Namespace: contract.Namespace, Logger: log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	c, err := server.Dial(ctx, client.Options{Logger: sdklog.NewStructuredLogger(log)})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	city := newCity(c)
	stop, err := city.work(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	files = map[string][]byte{}
	for _, cs := range cases() {
		if err := city.play(ctx, cs, files); err != nil {
			return nil, fmt.Errorf("case %s: %w", cs.name, err)
		}
	}
	return files, nil
}

// caseTime bounds one case; every one takes some seconds at most.
const caseTime = time.Minute

// play plays a case and keeps the history of each workflow that it names.
func (c *city) play(ctx context.Context, cs scenario, files map[string][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	ids, err := cs.play(ctx, c, cs.name)
	if err != nil {
		return err
	}
	for i, id := range ids {
		b, err := c.history(ctx, id)
		if err != nil {
			return fmt.Errorf("history of %s: %w", id, err)
		}
		kind, _, _ := strings.Cut(id, "/")
		files[fmt.Sprintf("%s-%d-%s", cs.name, i+1, kind)] = b
	}
	return nil
}

// history reads what has happened so far; a lane never ends by itself.
func (c *city) history(ctx context.Context, id string) ([]byte, error) {
	var h historypb.History
	it := c.client.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, err
		}
		h.Events = append(h.Events, e)
	}
	b, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(&h)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
