package fanout

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Report returns who leads, as a node that hears of the others does.
func (n *fakeNode) Report(_ context.Context, request *nodev1.ReportRequest) (*nodev1.ReportResponse, error) {
	r := &nodev1.ReportResponse{Version: n.id}
	if n.refuses.Load() {
		r.Refusal = "the disk is full"
	}
	if request.GetWithoutGroups() {
		return r, nil
	}
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	for shard, leader := range n.world.leader {
		g := &nodev1.GroupReport{Shard: uint32(shard), Role: tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL, Leads: leader == n.index, Term: n.world.term}
		if leader >= 0 {
			g.Leader = n.world.nodes[leader].id
		}
		r.Groups = append(r.Groups, g)
	}
	return r, nil
}

// TransferLeader has a shard handed over, to the node that was asked alone.
func (n *fakeNode) TransferLeader(_ context.Context, shard uint16, toNode string) error {
	if toNode != n.id {
		return fmt.Errorf("%w: from %s to %s", wire.ErrInvalid, n.id, toNode)
	}
	if n.refuses.Load() {
		return series.ErrUnavailable
	}
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	n.world.asked[shard]++
	n.world.leader[shard] = n.index
	n.world.term++
	return nil
}

// patient limits turn to another node only by what leader probes learn: everything else would
// take longer than the test may.
func patient() Limits {
	return Limits{
		ProbeAfter: 100 * time.Millisecond, AttemptTimeout: waitBound, ProbeTimeout: waitBound, WriteTimeout: waitBound, ReadTimeout: waitBound,
		BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond,
	}
}

// A leader that stops, and another one that is elected somewhat later: reads and writes
// that wait for the first go on at the second, and the leader probes end.
func TestScoutsFindTheNextLeader(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(patient())
	all := w.fill(c, 20, 3)
	for shard := range testShards {
		w.lead(shard, 0)
	}
	w.guessAll(c, 0)
	for shard := range testShards {
		w.lead(shard, -1) // as the others say
	}
	w.nodes[0].frozen.Store(true)
	results := make(chan error, 2)
	go func() {
		got, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), &scan.Request{Selector: scan.Selector{Metric: "m"}, ToMs: scan.TimeMsMax})
		if err == nil && len(got) != len(all) {
			err = fmt.Errorf("%d series of %d", len(got), len(all))
		}
		results <- err
	}()
	go func() {
		_, err := c.Write(context.Background(), frameOfAll())
		results <- err
	}()
	eventually(t, "leader probes", func() bool { return valueOf(t, c.metrics.leaderProbes) > 0 })
	for shard := range testShards {
		w.lead(shard, 1+shard%2)
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if asked := valueOf(t, c.metrics.takeOvers); asked != 0 {
		t.Errorf("%v shards were to be taken over", asked)
	}
	n := c.current.Load().nodes[w.nodes[0].id]
	w.nodes[0].frozen.Store(false)
	eventually(t, "the end of leader probes", func() bool {
		n.leaders.mu.Lock()
		defer n.leaders.mu.Unlock()
		return !n.leaders.mu.running && !n.leaders.silent.Load()
	})
}

// A leader that only this router does not reach: another node is asked to take over,
// once, and serves.
func TestUnreachedLeaderMakesWay(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(patient())
	all := w.fill(c, 20, 3)
	for shard := range testShards {
		w.lead(shard, 0)
	}
	w.guessAll(c, 0)
	w.nodes[0].frozen.Store(true) // the others hear it: they say that it leads
	defer w.nodes[0].frozen.Store(false)
	got, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), &scan.Request{Selector: scan.Selector{Metric: "m"}, ToMs: scan.TimeMsMax})
	if err != nil || len(got) != len(all) {
		t.Fatalf("%d series of %d, %v", len(got), len(all), err)
	}
	if _, err := c.Write(context.Background(), frameOfAll()); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for shard, asked := range w.asked {
		if asked != 1 || w.leader[shard] == 0 {
			t.Errorf("shard %d was handed over %d times, to node %d", shard, asked, w.leader[shard])
		}
	}
}

// A node that takes no writes is not asked to take over, however soon it answers: another one is.
func TestRefusingNodeIsNotAskedToTakeOver(t *testing.T) {
	w := newWorld(t, 3, testShards)
	c := w.open(patient())
	all := w.fill(c, 20, 3)
	for shard := range testShards {
		w.lead(shard, 0)
	}
	w.guessAll(c, 0)
	w.nodes[0].frozen.Store(true)
	defer w.nodes[0].frozen.Store(false)
	w.nodes[1].refuses.Store(true)
	got, err := scantest.Collect(context.Background(), c.Source(scan.Consistency{}), &scan.Request{Selector: scan.Selector{Metric: "m"}, ToMs: scan.TimeMsMax})
	if err != nil || len(got) != len(all) {
		t.Fatalf("%d series of %d, %v", len(got), len(all), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for shard, asked := range w.asked {
		if asked != 1 || w.leader[shard] != 2 {
			t.Errorf("shard %d was handed over %d times, to node %d", shard, asked, w.leader[shard])
		}
	}
	if asked := valueOf(t, c.metrics.takeOvers); asked != testShards {
		t.Errorf("%v nodes were asked to take over one of %d shards", asked, testShards)
	}
}

// frameOfAll has a sample for each shard.
func frameOfAll() *series.Frame {
	frame := &series.Frame{}
	for i := 0; len(frame.Parts) < testShards; i++ {
		key := scantest.Key("", "w", "i", fmt.Sprint(i))
		shard := key.Shard(testShards)
		known := false
		for _, p := range frame.Parts {
			known = known || p.Shard == shard
		}
		if !known {
			var e series.BatchEncoder
			e.Append(e.Define(key), 1, 1, 0)
			frame.Parts, frame.Points = append(frame.Parts, series.Part{Shard: shard, Batch: e.AppendTo(nil)}), frame.Points+1
		}
	}
	return frame
}

// The level travels to the nodes; a part that is written with too few copies is not
// written again, and the frame ends with how many there are.
func TestTooFewCopies(t *testing.T) {
	w := newWorld(t, 3, testShards)
	limits := patient()
	limits.ProbeAfter = waitBound // a busy machine must not look for another leader
	c := w.open(limits)
	for i, n := range w.nodes {
		n.write = func(frame *series.Frame) []wire.PartOutcome {
			if frame.Level != series.LevelAll || frame.Timeout <= 0 {
				t.Errorf("level %d, timeout %v", frame.Level, frame.Timeout)
			}
			outcomes := make([]wire.PartOutcome, len(frame.Parts))
			for k := range outcomes {
				outcomes[k] = wire.PartOutcome{Copies: 2, Level: series.LevelAll}
				if i == 0 { // that leads, as far as the router knows
					outcomes[k] = wire.PartOutcome{Copies: 1, Missing: 2}
				}
			}
			return outcomes
		}
	}
	frame := frameOfAll()
	frame.Level = series.LevelAll
	var copies *series.CopiesError
	if _, err := c.Write(context.Background(), frame); !errors.As(err, &copies) || copies.Copies != 1 || copies.Missing != 2 {
		t.Fatal(err)
	}
	if tries := valueOf(t, c.metrics.retries); tries != 0 {
		t.Errorf("%v parts were sent again", tries)
	}
}

// However many writes of level all wait for a full voter that is away, there is room for
// others.
func TestLevelAllLeavesRoom(t *testing.T) {
	w := newWorld(t, 1, testShards)
	limits := patient()
	limits.WritesMax = 8
	c := w.open(limits)
	w.nodes[0].waits.Store(true)
	const waiting = 20
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, waiting)
	for range waiting {
		go func() {
			frame := frameOfAll()
			frame.Level = series.LevelAll
			_, err := c.Write(ctx, frame)
			ended <- err
		}()
	}
	eventually(t, "writes of level all", func() bool { return valueOf(t, c.metrics.attempts) >= 4 })
	for range 20 {
		bounded, stop := context.WithTimeout(ctx, waitBound/2)
		_, err := c.Write(bounded, frameOfAll())
		stop()
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	for range waiting {
		if err := <-ended; err == nil {
			t.Error("a write of level all has all copies")
		}
	}
}

// Of two nodes that say that they lead, the one of the later era does, then the one of the
// later term.
func TestTermsOnlyGrow(t *testing.T) {
	var s shardTerm
	for _, step := range []struct {
		era  uint32
		term uint64
		want bool
	}{{1, 3, true}, {1, 3, true}, {1, 2, false}, {1, 4, true}, {1, 3, false}, {2, 1, true}, {1, 5, false}, {2, 2, true}} {
		if got := s.raise(step.era, step.term); got != step.want {
			t.Errorf("era %d, term %d: %v", step.era, step.term, got)
		}
	}
	if !s.mayAsk() || s.mayAsk() {
		t.Error("another leader may be asked for once")
	}
}
