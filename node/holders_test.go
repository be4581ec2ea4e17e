package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

// writeAll writes one sample of LevelAll through whoever leads, and returns what the
// leader says in the end.
func (c *testCluster) writeAll(ctx context.Context, each time.Duration, key series.Key, timeMs, value int64, id series.BatchID) (outcome series.Outcome, err error) {
	c.t.Helper()
	var e series.BatchEncoder
	e.Append(e.Define(key), timeMs, value, 0)
	frame := series.Frame{
		Parts: []series.Part{{Shard: key.Shard(testShards), Batch: e.AppendTo(nil)}}, Points: 1, ID: id, Level: series.LevelAll,
	}
	c.await("a leader for a write of all", func() bool {
		for _, name := range c.names() {
			n := c.reach("", name)
			if n == nil {
				continue
			}
			var copies *series.CopiesError
			bounded, cancel := context.WithTimeout(ctx, each) // of an attempt: there may be no leader yet
			outcome, err = n.Write(bounded, &frame)
			cancel()
			if err == nil || errors.As(err, &copies) {
				return true
			}
		}
		return false
	})
	return outcome, err
}

// TestLevelAll: a write of level all has every full voter, waits for one that is away,
// says so when it does not come, and is written all the same.
func TestLevelAll(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	ctx := context.Background()
	next := func(each time.Duration, id series.BatchID) error {
		at++
		key := testKey(int(at % 12))
		want[fmt.Sprintf("%s@%d", key, at)] = float64(at % 1000)
		outcome, err := c.writeAll(ctx, each, key, at, at%1000, id)
		if err == nil && outcome.Copies < 2 {
			t.Errorf("%d copies", outcome.Copies)
		}
		return err
	}
	for range 24 {
		if err := next(time.Minute, series.BatchID{}); err != nil {
			t.Fatal(err)
		}
	}
	c.kill("b") // a and the witness go on
	for range 3 {
		err := next(400*time.Millisecond, series.KeyedID(uint64(at)))
		var copies *series.CopiesError
		if !errors.As(err, &copies) || copies.Missing != 1 || copies.Copies < 2 || !errors.Is(err, series.ErrUnavailable) {
			t.Fatalf("with a full voter away: %v", err)
		}
	}
	c.mustHave(want)
	// Repeated, they wait until the voter is there, and are not applied again.
	again := make(chan error, 1)
	go func() {
		_, err := c.writeAll(ctx, time.Minute, testKey(int(at%12)), at, at%1000, series.KeyedID(uint64(at-1)))
		again <- err
	}()
	c.await("the wait", func() bool {
		waits := 0
		if err := c.reach("", "a").loop.queue.do(func() { waits = c.reach("", "a").loop.machine.Holding() }); err != nil {
			t.Fatal(err)
		}
		return waits == 1
	})
	c.open("b")
	if err := <-again; err != nil {
		t.Fatal(err)
	}
	if err := next(time.Minute, series.BatchID{}); err != nil {
		t.Fatal(err)
	}
	c.mustHave(want)
}

// TestLevelAllEnds: a node that closes ends the waits.
func TestLevelAllEnds(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	key := testKey(1)
	if _, err := c.writeAll(context.Background(), time.Minute, key, 1, 1, series.BatchID{}); err != nil {
		t.Fatal(err)
	}
	c.kill("b")
	c.write(key, 2, 2, series.BatchID{})
	a := c.reach("", "a")
	ended := make(chan error, 1)
	go func() {
		_, _, err := a.awaitHolders(context.Background(), key.Shard(testShards))
		ended <- err
	}()
	c.await("the wait", func() bool {
		waits := 0
		_ = a.loop.queue.do(func() { waits = a.loop.machine.Holding() })
		return waits == 1
	})
	c.close("a")
	if err := <-ended; !errors.Is(err, series.ErrUnavailable) {
		t.Fatal(err)
	}
}

// TestStartedLevelAll: a write that was started, as routers' writes are, waits for full
// voters as well.
func TestStartedLevelAll(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	start := func(timeout time.Duration, timeMs int64) (o PartOutcome) {
		var e series.BatchEncoder
		e.Append(e.Define(testKey(1)), timeMs, 1, 0)
		frame := series.Frame{
			Parts: []series.Part{{Shard: testKey(1).Shard(testShards), Batch: e.AppendTo(nil)}}, Points: 1,
			ID: series.BatchID{Session: 7, Counter: uint64(timeMs)}, Level: series.LevelAll, Timeout: timeout,
		}
		c.await("a leader", func() bool {
			for _, name := range c.names() {
				n := c.reach("", name)
				if n == nil {
					continue
				}
				ended := make(chan error, 1)
				n.StartWrite(t.Context(), &frame, func(parts []PartOutcome, err error) {
					if err == nil {
						o, err = parts[0], parts[0].Err
					}
					ended <- err
				})
				if err := <-ended; err == nil {
					return true
				}
			}
			return false
		})
		return o
	}
	if o := start(0, 1); o.Level != series.LevelAll || o.Missing != 0 || o.Copies < 2 {
		t.Fatalf("with all full voters: %+v", o)
	}
	c.kill("b") // a and the witness go on
	if o := start(400*time.Millisecond, 2); o.Level == series.LevelAll || o.Missing != 1 || o.Copies < 2 {
		t.Fatalf("with a full voter away: %+v", o)
	}
}
