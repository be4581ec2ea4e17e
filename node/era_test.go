package node

import (
	"context"
	"errors"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// frameOfEra is a write of one sample that names its series by an id of era 1.
func frameOfEra(shard uint16, timeMs int64) *series.Frame {
	var e series.BatchEncoder
	e.Append(0, timeMs, 1, 0)
	return &series.Frame{Parts: []series.Part{{Shard: shard, Era: 1, Batch: e.AppendTo(nil)}}, Points: 1}
}

// TestWriteIsOfTheEraThatItIsProposedIn lets a group go on in a new era between the check
// of a write and its proposal: its ids may mean other series then. What was known of the
// history of shards is not either.
func TestWriteIsOfTheEraThatItIsProposedIn(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.open(name)
	}
	c.create(roles2(), "a", "b", "c")
	want, at := map[string]float64{}, int64(1_700_000_000_000)
	c.writeSome(want, &at, 20)
	a, shard := c.reach("", "a"), testKey(0).Shard(testShards)
	checked, err := a.prepare(context.Background(), frameOfEra(shard, at+1))
	if err != nil {
		t.Fatal(err)
	}
	b := c.reach("", "b")
	var known []scan.Change
	c.await("a to lead shard 0, and to know its history", func() bool {
		_ = b.TransferLeader(0, "a") // it leads already, or will be asked again
		known, err = a.History(t.Context(), []uint16{0}, nil)
		return err == nil && known[0].Run != 0
	})
	again, err := a.History(t.Context(), []uint16{0}, []scan.Mark{known[0].Mark})
	if err != nil || again[0].LeastMs != scan.ChangedNothing {
		t.Errorf("%+v, then %+v, %v", known, again, err)
	}
	c.kill("b")
	c.kill("c")
	rs := c.recoveries()
	c.await("all groups to be without a leader", func() bool {
		rs = c.recoveries()
		return len(rs) == testShards
	})
	c.place(func(m shardmap.Map) shardmap.Map { // on a person's word
		for i := range rs {
			if m, err = m.Recover(&rs[i], 1, false); err != nil {
				t.Fatal(err)
			}
		}
		return m
	})
	c.await("all groups to go on", func() bool {
		for shard := range uint16(testShards) {
			if a.Era(shard) != 2 || a.Confirm(t.Context(), []uint16{shard}, 0)[0] != nil {
				return false
			}
		}
		return true
	})
	later, err := a.History(t.Context(), []uint16{0}, []scan.Mark{again[0].Mark})
	if err != nil || later[0].LeastMs != scan.ChangedAll {
		t.Errorf("of an era that is over: %+v, %v", later, err)
	}
	err = a.submit(context.Background(), checked.write)
	if checked.end(); err != nil || !errors.Is(checked.outcomes[0].Err, series.ErrEra) {
		t.Errorf("a write with ids of a lost era: %v, %+v", err, checked.outcomes[0])
	}
	c.mustHave(want)
}

// TestEraOfAShardThatIsElsewhere: who asks a node that has no replica is sent to another
// one, and does not forget the ids of the shard.
func TestEraOfAShardThatIsElsewhere(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for _, name := range []string{"a", "b"} {
		c.open(name)
	}
	c.create(roles2(), "a")
	parts, err := c.reach("", "b").WriteParts(t.Context(), frameOfEra(0, 1))
	var other *replica.NotLeaderError
	if err != nil || !errors.As(parts[0].Err, &other) || errors.Is(parts[0].Err, series.ErrEra) {
		t.Errorf("%+v, %v", parts, err)
	}
}
