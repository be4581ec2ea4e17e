package node

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// writeExemplars has the leaders keep exemplars, whoever these are, and returns what became of them.
func (c *testCluster) writeExemplars(exemplars []series.Exemplar) (all series.ExemplarOutcomes) {
	c.t.Helper()
	left := PartExemplars(series.Sharding{Shards: testShards}, exemplars)
	c.await("exemplars are written", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, name := range c.names() {
			n := c.reach("", name)
			if n == nil || len(left) == 0 {
				continue
			}
			written, err := n.WriteExemplarParts(ctx, left)
			if err != nil {
				continue
			}
			var again []ShardExemplars
			for i := range written {
				if written[i].Err != nil {
					again = append(again, left[i])
					continue
				}
				all.Add(written[i].ExemplarOutcomes)
			}
			left = again
		}
		return len(left) == 0
	})
	return all
}

// exemplarsOn returns those that a node has of all shards, as text.
func exemplarsOn(t *testing.T, n *Node) (texts []string) {
	t.Helper()
	if err := n.Exemplars(t.Context(), &scan.Selector{MetricAny: true}, scan.TimeMsMin, scan.TimeMsMax, func(e *series.Exemplar) error {
		texts = append(texts, fmt.Sprint(e.Key, e.TimeMs, e.Value, e.Labels))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestClusterExemplars: exemplars are on all copies, outlive a node that is killed, and come to a node that joins; those of series
// that are not there, and those that are old, are not kept. While a node is of an earlier version none are.
func TestClusterExemplars(t *testing.T) {
	c := newTestCluster(t)
	c.options = func(_ string, o *Options) { o.ExemplarBytes = 1 << 20 }
	for _, name := range []string{"a", "b", "c", "d"} {
		c.open(name)
	}
	c.create(map[string]shardmap.Role{"a": shardmap.Full, "b": shardmap.Full, "c": shardmap.Full}, "a", "b", "c")
	c.upgrade("a", "b", "c", "d")
	const count = 20
	for i := range count {
		c.write(testKey(i), 1000, 1, series.BatchID{})
	}
	exemplars := func(timeMs int64) (all []series.Exemplar) {
		for i := range count {
			all = append(all, series.Exemplar{Key: testKey(i), TimeMs: timeMs, Value: float64(i), Labels: []series.ExemplarLabel{{Name: "trace_id", Value: fmt.Sprint(timeMs)}}})
		}
		return all
	}
	if o := c.writeExemplars(exemplars(1000)); o != (series.ExemplarOutcomes{Kept: count}) {
		t.Fatalf("%+v", o)
	}
	if o := c.writeExemplars(exemplars(1000)); o != (series.ExemplarOutcomes{Kept: count}) {
		t.Fatalf("sent again: %+v", o)
	}
	if o := c.writeExemplars(append(exemplars(999), series.Exemplar{Key: testKey(count), TimeMs: 1000})); o != (series.ExemplarOutcomes{OutOfOrder: count, Refused: 1}) {
		t.Fatalf("older ones, and one of no series: %+v", o)
	}
	same := func(what string, want int, names ...string) {
		t.Helper()
		c.await(what, func() bool {
			first := exemplarsOn(t, c.reach("", names[0]))
			for _, name := range names[1:] {
				if !reflect.DeepEqual(exemplarsOn(t, c.reach("", name)), first) {
					return false
				}
			}
			return len(first) == want
		})
	}
	same("all copies have them", count, "a", "b", "c")
	c.kill("b")
	if o := c.writeExemplars(exemplars(2000)); o != (series.ExemplarOutcomes{Kept: count}) {
		t.Fatalf("without b: %+v", o)
	}
	c.open("b")
	same("b has them again", 2*count, "a", "b", "c")
	for shard := range uint16(testShards) {
		c.move(shard, "d")
	}
	c.await("d has them", func() bool { return len(exemplarsOn(t, c.reach("", "d"))) == 2*count })
	for _, name := range c.names() {
		c.reach("", name).HeardEntries("a", Entries{Forgets: entriesUnderstood, Thins: entriesUnderstood})
	}
	c.mu.Lock()
	clear(c.mu.tells) // an earlier version would go on to say nothing of exemplars
	c.mu.Unlock()
	for _, name := range c.names() {
		c.reach("", name).HeardEntries("b", Entries{Forgets: entriesUnderstood, Thins: entriesUnderstood})
		c.reach("", name).HeardEntries("c", Entries{Forgets: entriesUnderstood, Thins: entriesUnderstood})
	}
	if o := c.writeExemplars(exemplars(3000)); o != (series.ExemplarOutcomes{Refused: count}) {
		t.Fatalf("beside an earlier version: %+v", o)
	}
}

// TestExemplarsOfFollowers are refused with who leads.
func TestExemplarsOfFollowers(t *testing.T) {
	c := newTestCluster(t)
	c.options = func(_ string, o *Options) { o.ExemplarBytes = 1 << 20 }
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(map[string]shardmap.Role{"a": shardmap.Full, "b": shardmap.Full, "c": shardmap.Full}, "a", "b", "c")
	c.write(testKey(0), 1000, 1, series.BatchID{})
	parts := PartExemplars(series.Sharding{Shards: testShards}, []series.Exemplar{{Key: testKey(0), TimeMs: 5}})
	kept, followers := 0, 0
	for _, name := range c.names() {
		written, err := c.reach("", name).WriteExemplarParts(t.Context(), parts)
		if err != nil {
			t.Fatal(err)
		}
		kept += written[0].Kept
		var notLeader *replica.NotLeaderError
		if errors.As(written[0].Err, &notLeader) {
			followers++
		}
	}
	if kept != 1 || followers != 2 {
		t.Fatalf("%d kept, %d followers", kept, followers)
	}
	if _, err := c.reach("", "a").WriteExemplarParts(t.Context(), []ShardExemplars{{Shard: testShards}}); !errors.Is(err, series.ErrBatch) {
		t.Fatal(err)
	}
}

// TestExemplarsOff: a node that keeps none says so without asking the other replicas.
func TestExemplarsOff(t *testing.T) {
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(map[string]shardmap.Role{"a": shardmap.Full, "b": shardmap.Full, "c": shardmap.Full}, "a", "b", "c")
	c.write(testKey(0), 1000, 1, series.BatchID{})
	parts := PartExemplars(series.Sharding{Shards: testShards}, []series.Exemplar{{Key: testKey(0), TimeMs: 5}})
	for _, name := range c.names() {
		if written, err := c.reach("", name).WriteExemplarParts(t.Context(), parts); err != nil || written[0].Err != nil || written[0].Refused != 1 {
			t.Errorf("%s: %+v, %v", name, written, err)
		}
	}
}
