package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// One goroutine starts many writes. Each ends once, in its own way.
func TestStartWrite(t *testing.T) {
	n, err := Open(testOptions(vfs.NewMemFS(), SyncOff))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	const frames = 200
	var ended sync.WaitGroup
	var ends [frames]atomic.Int32
	for i := range frames {
		shard := uint16(i % n.Shards())
		var e series.BatchEncoder
		e.Append(e.Define(testKey(i)), int64(i), 1, 0)
		frame := &series.Frame{Parts: []series.Part{{Shard: shard, Batch: e.AppendTo(nil)}}, Points: 1}
		var frameErr, partErr error
		switch i % 4 {
		case 1:
			frame.Parts[0].Shard, frameErr = uint16(n.Shards()), series.ErrBatch
		case 2:
			frame.Parts[0].Era, partErr = 77, series.ErrEra
		case 3:
			frame.Parts[0].Batch, partErr = []byte{1}, series.ErrBatch
		}
		ended.Add(1)
		n.StartWrite(t.Context(), frame, func(parts []PartOutcome, err error) {
			defer ended.Done()
			ends[i].Add(1)
			switch {
			case !errors.Is(err, frameErr) || (err == nil) != (len(parts) == 1):
				t.Errorf("frame %d: %v, %v", i, parts, err)
			case err == nil && !errors.Is(parts[0].Err, partErr), err == nil && partErr == nil && parts[0].Copies != 1:
				t.Errorf("frame %d: %+v", i, parts[0])
			}
		})
	}
	ended.Wait()
	for i := range ends {
		if ends[i].Load() != 1 {
			t.Errorf("frame %d ended %d times", i, ends[i].Load())
		}
		if _, known, err := n.LookupSeries(testKey(i)); err != nil || known != (i%4 == 0) {
			t.Errorf("the series of frame %d is known: %t, %v", i, known, err)
		}
	}
}

// Whoever starts writes does not wait while the log takes none, not even with more bytes
// than may wait for it.
func TestStartWriteWaitsForNothing(t *testing.T) {
	n, err := Open(testOptions(vfs.NewMemFS(), SyncOff))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	stuck, release := make(chan struct{}), make(chan struct{})
	var loop sync.WaitGroup
	loop.Go(func() {
		if err := n.loop.queue.do(func() {
			close(stuck)
			<-release
		}); err != nil {
			t.Error(err)
		}
	})
	<-stuck
	const frames = 12
	batch := make([]byte, 8<<20) // no batch at all
	ends := make(chan error, 2*frames)
	for i := range frames {
		frame := &series.Frame{ID: series.BatchID{Session: 1, Counter: uint64(i + 1)}, Parts: []series.Part{{Batch: batch}}, Points: 1}
		n.StartWrite(context.Background(), frame, func(parts []PartOutcome, err error) {
			if err == nil {
				err = parts[0].Err
			}
			ends <- err
		})
	}
	if len(ends) > 0 {
		t.Errorf("%d writes have ended", len(ends))
	}
	close(release)
	for range frames {
		if err := <-ends; !errors.Is(err, series.ErrBatch) && !errors.Is(err, series.ErrOverloaded) {
			t.Error(fmt.Errorf("a write ended with %w", err))
		}
	}
	loop.Wait()
	if len(ends) > 0 {
		t.Errorf("%d writes have ended twice", len(ends))
	}
}
