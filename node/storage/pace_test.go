package storage

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Writers wait while many generations wait for a flush, and no longer.
func TestWritersWaitForFlushes(t *testing.T) {
	options := Options{FS: vfs.NewMemFS(), Dir: "data", Shards: 1, SyncLog: func() error { return nil }, ExtentBytes: 16 << 10, GenerationBytesMax: 16 << 10}
	open := func() *Engine {
		e, err := Open(options)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	var previous pagelog.Ref
	for e.pace.waiting.Load() < generationsWaitingMax {
		if err := e.AwaitFlush(context.Background()); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, 100)
		ref, err := e.appendPage(0, 1, previous, payload)
		if err != nil {
			t.Fatal(err)
		}
		previous = ref
	}
	if err := e.Checkpoint(Checkpoint{Applied: []uint64{0}, SealAll: true}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open() // which counts them
	defer e.Close()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if !e.FlushLags() {
		t.Fatal("the flush does not lag")
	}
	if err := e.AwaitFlush(cancelled); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want that of the context", err)
	}
	waited := make(chan error)
	go func() { waited <- e.AwaitFlush(context.Background()) }()
	for e.Stats().FlushWaits < 2 {
		runtime.Gosched()
	}
	// A flush that fails ends all waits: there is nothing to wait for.
	points, err := failpoint.Parse(FailFlushPublish+"=error@1", Failpoints())
	if err != nil {
		t.Fatal(err)
	}
	e.hit = points.Hit
	if err := e.Flush(); err == nil {
		t.Fatal("the flush did not fail")
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	before := e.Stats().FlushWaits
	if err := e.AwaitFlush(context.Background()); err != nil || e.Stats().FlushWaits != before {
		t.Fatalf("%v; want no wait", err)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := e.pace.waiting.Load(); n != 0 || e.FlushLags() {
		t.Fatalf("%d generations wait after a flush", n)
	}
}
