package storage

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// TestShardsMoveUnderWork installs and drops one shard while another one is written to,
// all are read, and checkpoints, flushes and merges go on.
func TestShardsMoveUnderWork(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 9))
	logs := newLabLogs()
	from, to := newLabNode(t, logs), newLabNode(t, logs)
	from.hosts[0], to.hosts[1] = true, true
	for range 300 {
		logs[0].write(rng)
		logs[1].grow(rng)
	}
	from.apply(0, 100)

	var mu sync.Mutex // of to's log
	stop := make(chan struct{})
	var workers sync.WaitGroup
	work := func(do func() error) {
		workers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work(func() error {
		mu.Lock()
		defer mu.Unlock()
		to.apply(1, 1)
		return nil
	})
	work(func() error {
		err := to.e.Scan(context.Background(), &scan.Request{
			Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Parallel: 2,
		}, func(int, *scan.Chunk) error { return nil })
		if errors.Is(err, series.ErrUnavailable) {
			return nil
		}
		return err
	})
	work(func() error {
		_, err := to.contents(1)
		to.e.ShardStats(0)
		return err
	})
	work(func() error {
		mu.Lock()
		c := Checkpoint{Position: to.position, Applied: to.applied, SealThrough: to.epoch - 1}
		mu.Unlock()
		if err := to.e.Checkpoint(c); err != nil {
			return err
		}
		mu.Lock()
		to.epoch++
		to.position, to.applied = uint64(len(to.written)), to.e.AppliedIndexes()
		mu.Unlock()
		return to.e.Flush()
	})
	work(func() error {
		_, err := to.e.Compact(context.Background(), logs[0].nowMs+rand.Int64N(40*24*3600_000))
		return err
	})
	position := func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return uint64(len(to.written))
	}
	for round := range 4 {
		x, err := from.e.ExportShard(0)
		if err != nil {
			t.Fatal(err)
		}
		info, err := to.e.InstallShard(context.Background(), 0, position(), x.OpenAt(0))
		if err != nil {
			t.Fatal(err)
		}
		got, err := to.contents(0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := labDifference(logs[0].at(info.Index).contents(), got); diff != "series without samples" {
			t.Fatalf("round %d: %s", round, diff)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if round%3 == 2 {
			if err := to.e.DropShard(0, position()); err != nil {
				t.Fatal(err)
			}
		}
		from.apply(0, 10)
	}
	close(stop)
	workers.Wait()
	to.hosts[0] = true // the last round was no drop
	to.check("at the end")
	to.crash(rng)
	to.check("after a crash")
	from.end()
	to.end()
}
