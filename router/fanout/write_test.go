package fanout

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/wire"
)

// Many writers under faults: what was acknowledged is applied exactly once, nothing
// more than once, and ids that were learnt name the series that they should.
func TestWritesAreAppliedOnce(t *testing.T) {
	for name, f := range map[string]faults{
		"none": {}, "lost answers": {forget: 3}, "moves": {move: 3, hideLeader: 3, slow: 5}, "cuts": {cut: 15},
		"all": {forget: 8, move: 6, hideLeader: 3, refuse: 8, slow: 8, cut: 40},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, testShards)
			c := w.open(Limits{BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, WriteTimeout: waitBound, AttemptTimeout: waitBound})
			w.setFaults(f)
			const writers, rounds, seriesCount = 8, 40, 60
			var all sync.WaitGroup
			for writer := range writers {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(writer), 3))
					for round := range rounds {
						samples := map[string][]series.Sample{}
						for range 10 {
							key := string(scantest.Key("", "m", "n", fmt.Sprint(rng.IntN(seriesCount))))
							at := int64(writer*rounds+round)*1000 + int64(len(samples[key]))
							samples[key] = append(samples[key], series.Sample{TimeMs: at, Value: float64(at)})
						}
						outcome, err := c.Write(context.Background(), frameOf(c, testShards, samples))
						if err != nil || outcome.Copies < 2 {
							t.Errorf("write: %+v, %v", outcome, err)
							return
						}
						w.wantApplied(samples)
					}
				})
			}
			all.Wait()
			for _, s := range w.shards {
				s.mu.Lock()
				for what, times := range s.applied {
					if times != 1 {
						t.Errorf("%q was applied %d times", what, times)
					}
				}
				s.mu.Unlock()
			}
			if c.sessions.count() > writers {
				t.Errorf("%d sessions for %d writers", c.sessions.count(), writers)
			}
		})
	}
}

func (w *world) wantApplied(samples map[string][]series.Sample) {
	for key, list := range samples {
		s := w.shards[series.Key(key).Shard(testShards)]
		s.mu.Lock()
		for _, sample := range list {
			if n := s.applied[fmt.Sprint(key, sample.TimeMs)]; n != 1 {
				w.t.Errorf("%v at %d was acknowledged and applied %d times", series.Key(key), sample.TimeMs, n)
			}
		}
		s.mu.Unlock()
	}
}

// Outcomes of several nodes become one, by the parts of the frame.
func TestOutcomesMerge(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{})
	samples := map[string][]series.Sample{}
	for i := range 50 {
		metric := "fine"
		if i%5 == 0 {
			metric = "refused"
		}
		samples[string(scantest.Key("", metric, "n", fmt.Sprint(i)))] = []series.Sample{{TimeMs: 1, Value: 1}}
	}
	frame := frameOf(c, testShards, samples)
	outcome, err := c.Write(context.Background(), frame)
	if err != nil || outcome.Copies != 2 || len(outcome.Refused) != 10 || len(outcome.Defined) != 40 {
		t.Fatalf("%d copies, %d refused, %d defined, %v", outcome.Copies, len(outcome.Refused), len(outcome.Defined), err)
	}
	keyOf := func(part, definition int) series.Key {
		var r series.BatchReader
		r.Reset(frame.Parts[part].Batch)
		var key series.Key
		for range definition + 1 {
			key, _ = r.NextDefinition()
		}
		return key
	}
	for _, r := range outcome.Refused {
		if _, metric, _, _ := keyOf(r.Part, r.Definition).Parts(nil); string(metric) != "refused" || !errors.Is(r.Err, series.ErrSeriesLimit) {
			t.Errorf("%s was refused: %v", metric, r.Err)
		}
	}
	for _, d := range outcome.Defined {
		key := keyOf(d.Part, d.Definition)
		if s := w.shards[key.Shard(testShards)]; s.ids[string(key)] != d.ID {
			t.Errorf("%v has id %d, not %d", key, s.ids[string(key)], d.ID)
		}
	}
	if again := frameOf(c, testShards, samples); len(again.Parts) == 0 || c.Resolver().Stats().Hits != 40 {
		t.Errorf("learnt: %v", c.Resolver().Stats())
	}
}

// A leader that hangs makes way after AttemptTimeout. Its late answer does no harm.
func TestHungLeader(t *testing.T) {
	w := newWorld(t, 3, 1)
	c := w.open(Limits{BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, AttemptTimeout: 20 * time.Millisecond, WriteTimeout: waitBound})
	key := string(scantest.Key("", "m", "n", "1"))
	write := func(at int64) error {
		_, err := c.Write(context.Background(), frameOf(c, 1, map[string][]series.Sample{key: {{TimeMs: at, Value: 1}}}))
		return err
	}
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	w.nodes[0].hung.Store(true)
	w.lead(0, 2)
	if err := write(2); err != nil {
		t.Fatal(err)
	}
	w.nodes[0].hung.Store(false)
	w.lead(0, 0)
	if err := write(3); err != nil {
		t.Fatal(err)
	}
	for at := range int64(3) {
		if n := w.shards[0].applied[fmt.Sprint(key, at+1)]; n != 1 {
			t.Errorf("write %d was applied %d times", at+1, n)
		}
	}
}

// A write follows a shard that is handed over without waiting, and goes on at once from a node that has left
// the group and knows nobody.
func TestHandedOver(t *testing.T) {
	w := newWorld(t, 3, 1)
	w.m.Rows[0].Members = w.m.Rows[0].Members[:2]
	c := w.open(Limits{BackoffMin: waitBound, BackoffMax: waitBound, WriteTimeout: waitBound})
	answers := func(o wire.PartOutcome) func(*series.Frame) []wire.PartOutcome {
		return func(*series.Frame) []wire.PartOutcome { return []wire.PartOutcome{o} }
	}
	w.nodes[0].write = answers(wire.PartOutcome{Err: &wire.NotLeaderError{Leader: "b"}})
	w.nodes[1].write = answers(wire.PartOutcome{Copies: 2})
	w.nodes[2].write = answers(wire.PartOutcome{Err: &wire.NotLeaderError{}})
	c.leads(0, c.current.Load().nodes["c"])
	key := string(scantest.Key("", "m", "n", "1"))
	outcome, err := c.Write(context.Background(), frameOf(c, 1, map[string][]series.Sample{key: {{TimeMs: 1, Value: 1}}}))
	if err != nil || outcome.Copies != 2 {
		t.Fatalf("%+v, %v", outcome, err)
	}
	if redirects, retries := valueOf(t, c.metrics.redirects), valueOf(t, c.metrics.retries); redirects != 2 || retries != 0 {
		t.Fatalf("%v redirects, %v retries", redirects, retries)
	}
}

// What a part has followed does not make it wait longer afterwards.
func TestBackoffAfterRedirects(t *testing.T) {
	w := newWorld(t, 2, 1)
	c := w.open(Limits{BackoffMin: time.Second, BackoffMax: time.Hour})
	v, now := c.current.Load(), time.Now()
	a, b := v.nodes["a"], v.nodes["b"]
	call := &call{cluster: c, frame: &series.Frame{Parts: []series.Part{{}}}, parts: make([]part, 1)}
	for i := range redirectsMax {
		call.failed(v, 0, a, &wire.NotLeaderError{Leader: b.id}, now)
		if !call.parts[0].due.Equal(now) {
			t.Fatalf("redirect %d waits until %v", i, call.parts[0].due)
		}
		a, b = b, a
	}
	call.failed(v, 0, a, &wire.NotLeaderError{Leader: b.id}, now)
	if wait := call.parts[0].due.Sub(now); wait <= 0 || wait > time.Second {
		t.Fatalf("it waits %v", wait)
	}
}

// Errors keep their kind, and the time is bounded.
func TestWriteErrors(t *testing.T) {
	w := newWorld(t, 3, 1)
	c := w.open(Limits{BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, WriteTimeout: waitBound})
	hasty := w.open(Limits{BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, WriteTimeout: 20 * time.Millisecond})
	samples := map[string][]series.Sample{string(scantest.Key("", "m")): {{TimeMs: 1, Value: 1}}}
	w.lead(0, -1)
	if _, err := hasty.Write(context.Background(), frameOf(c, 1, samples)); !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("no leader: %v", err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Write(cancelled, frameOf(c, 1, samples)); !errors.Is(err, series.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	w.lead(0, 0)
	old := frameOf(c, 1, samples)
	old.ID = series.BatchID{Session: 5, Counter: 1}
	new := frameOf(c, 1, map[string][]series.Sample{string(scantest.Key("", "m")): {{TimeMs: 2, Value: 1}}})
	new.ID = series.BatchID{Session: 5, Counter: 200}
	if _, err := c.Write(context.Background(), new); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(context.Background(), old); !errors.Is(err, series.ErrBatchOld) {
		t.Errorf("an old id: %v", err)
	}
	for name, part := range map[string]series.Part{
		"shard": {Shard: 9, Batch: old.Parts[0].Batch}, "batch": {Batch: []byte{1}}, "size": {Batch: make([]byte, batchBytesMax+1)},
	} {
		if _, err := c.Write(context.Background(), &series.Frame{Parts: []series.Part{part}, Points: 1}); !errors.Is(err, series.ErrBatch) {
			t.Errorf("a bad %s: %v", name, err)
		}
	}
	hasty.Close()
	if _, err := hasty.Write(context.Background(), frameOf(hasty, 1, samples)); !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("closed: %v", err)
	}
}

// When a shard's ids change, a frame with old ones is not written, and the same
// points split again are.
func TestEra(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{})
	samples := map[string][]series.Sample{}
	for i := range 30 {
		samples[string(scantest.Key("", "m", "n", fmt.Sprint(i)))] = []series.Sample{{TimeMs: 1, Value: float64(i)}}
	}
	write := func() error {
		for key := range samples {
			samples[key][0].TimeMs++
		}
		_, err := c.Write(context.Background(), frameOf(c, testShards, samples))
		return err
	}
	for range 2 {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range w.shards {
		s.newEra()
	}
	early, generation := frameOf(c, testShards, samples), c.Generation()
	eras := 0
	for ; ; eras++ {
		err := write()
		if err == nil {
			break
		}
		if !errors.Is(err, series.ErrEra) || eras > testShards {
			t.Fatal(err)
		}
	}
	if eras == 0 || c.Generation() == generation {
		t.Errorf("%d writes met another era, generation %d after %d", eras, c.Generation(), generation)
	}
	if _, err := c.Write(context.Background(), early); !errors.Is(err, series.ErrEra) {
		t.Errorf("a frame that was split before: %v", err)
	}
	w.wantApplied(samples)
	if err := write(); err != nil {
		t.Fatal(err)
	}
	w.wantApplied(samples)
}

// Counters of a session in flight stay close, each is given once, and sessions come
// back into use.
func TestSessions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type held struct {
			of *session
			id series.BatchID
		}
		var s sessions
		var flying []held
		given, most := map[series.BatchID]bool{}, 1
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			if len(flying) > 0 && rapid.IntRange(0, 2).Draw(t, "give") == 0 {
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				s.give(flying[i].of, flying[i].id)
				flying = append(flying[:i], flying[i+1:]...)
				continue
			}
			of, id := s.take()
			if id.Session == 0 || id.Counter == 0 || given[id] {
				t.Fatalf("id %+v", id)
			}
			given[id] = true
			flying = append(flying, held{of, id})
			most = max(most, len(flying))
			for _, f := range flying {
				if f.id.Session == id.Session && id.Counter-f.id.Counter >= sessionSpan {
					t.Fatalf("counters %d and %d are in flight", f.id.Counter, id.Counter)
				}
			}
		}
		if s.count() > most {
			t.Fatalf("%d sessions for %d frames in flight", s.count(), most)
		}
	})
}

// Older maps and those of other clusters are refused; nodes come, go and move.
func TestViews(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Microsecond, BackoffMax: time.Millisecond, WriteTimeout: waitBound})
	newer, other := w.m, w.m
	newer.Epoch, other.ID = 5, identity("e")
	if err := c.SetView(&newer, w.infos()); err != nil || c.Epoch() != 5 || c.Shards() != testShards {
		t.Fatalf("epoch %d, %d shards, %v", c.Epoch(), c.Shards(), err)
	}
	if err := c.SetView(&w.m, w.infos()); !errors.Is(err, wire.ErrStaleMap) {
		t.Errorf("an older map: %v", err)
	}
	other.Epoch = 9
	if err := c.SetView(&other, w.infos()); !errors.Is(err, wire.ErrWrongCluster) {
		t.Errorf("another cluster: %v", err)
	}
	// The store has lost all nodes, but the map names them.
	before := c.current.Load().nodes["b"]
	if err := c.SetView(nil, map[string]shardmap.NodeInfo{}); err != nil || c.current.Load().nodes["b"] != before {
		t.Fatalf("%v", err)
	}
	if err := w.put(c, scantest.Key("", "m"), series.Sample{TimeMs: 1, Value: 1}); err != nil {
		t.Fatal(err)
	}
	// A node comes back at another address while writes go on.
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for at := int64(2); !stop.Load(); at++ {
			samples := map[string][]series.Sample{}
			for i := range 20 {
				samples[string(scantest.Key("", "m", "n", fmt.Sprint(i)))] = []series.Sample{{TimeMs: at, Value: 1}}
			}
			if _, err := c.Write(context.Background(), frameOf(c, testShards, samples)); err != nil {
				t.Error(err)
				return
			}
			w.wantApplied(samples)
		}
	})
	for range 5 {
		for _, n := range w.nodes {
			n.stop()
			n.start()
			if err := c.SetView(nil, w.infos()); err != nil {
				t.Error(err)
			}
		}
	}
	stop.Store(true)
	writer.Wait()
	if c.current.Load().nodes["b"] == before {
		t.Error("the connection to an address that is not valid any more is kept")
	}
}

// Before the first map there is nothing to write to.
func TestNoMap(t *testing.T) {
	c := New(Options{Limits: Limits{ResolverBytesMax: 1}})
	defer c.Close()
	frame := &series.Frame{Parts: []series.Part{{Batch: []byte{0, 0}}}, Points: 1}
	if _, err := c.Write(context.Background(), frame); !errors.Is(err, series.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := c.Source(scan.Consistency{}).Databases(context.Background()); !errors.Is(err, series.ErrUnavailable) {
		t.Error(err)
	}
}

// Follow takes what a store tells until it is closed, bad maps aside.
func TestFollow(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{})
	newer := w.m
	newer.Epoch = 4
	views := make(chan shardmap.View)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Follow(views)
	}()
	views <- shardmap.View{Map: &newer, Nodes: w.infos()}
	views <- shardmap.View{Map: &w.m, Nodes: w.infos()}
	views <- shardmap.View{Err: shardmap.ErrUnavailable}
	close(views)
	<-done
	if c.Epoch() != 4 || len(c.current.Load().nodes) != 3 {
		t.Errorf("epoch %d, %d nodes", c.Epoch(), len(c.current.Load().nodes))
	}
}

// A leader whose disk takes no writes is not the last word where there is another copy: the shard is handed over. Where nobody takes
// it the writer hears of the disk.
func TestReadOnlyLeader(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(Limits{BackoffMin: time.Microsecond, BackoffMax: 10 * time.Microsecond, WriteTimeout: waitBound, AttemptTimeout: waitBound})
	for shard := range testShards {
		w.lead(shard, 0)
	}
	w.guessAll(c, 0)
	refuse := func(frame *series.Frame) []wire.PartOutcome {
		outcomes := make([]wire.PartOutcome, len(frame.Parts))
		for i := range outcomes {
			outcomes[i].Err = fmt.Errorf("%w: no room", series.ErrReadOnly)
		}
		return outcomes
	}
	var refused atomic.Int64
	w.nodes[0].write = func(frame *series.Frame) []wire.PartOutcome {
		if refused.Add(1) == 3 {
			for shard := range testShards {
				w.lead(shard, 1)
			}
		}
		return refuse(frame)
	}
	samples := map[string][]series.Sample{string(scantest.Key("", "m", "n", "a")): {{TimeMs: 1, Value: 1}}}
	if _, err := c.Write(t.Context(), frameOf(c, testShards, samples)); err != nil {
		t.Fatal(err)
	}
	if refused.Load() < 3 {
		t.Errorf("it was written after %d refusals", refused.Load())
	}
	w.wantApplied(samples)
	for _, n := range w.nodes {
		n.write = refuse
	}
	samples = map[string][]series.Sample{string(scantest.Key("", "m", "n", "b")): {{TimeMs: 1, Value: 1}}}
	if _, err := c.Write(t.Context(), frameOf(c, testShards, samples)); !errors.Is(err, series.ErrReadOnly) {
		t.Fatalf("nobody takes it: %v", err)
	}
}
