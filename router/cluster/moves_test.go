package cluster

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// TestMovement has nodes tell how far copies are: one that comes, one that waits, one that
// catches up, and a witness, which has no bytes.
func TestMovement(t *testing.T) {
	member := func(id uint64, node string, role shardmap.Role) shardmap.Member {
		return shardmap.Member{RaftID: id, Node: node, Incarnation: node, Role: role}
	}
	a, b := member(1, "a", shardmap.Full), member(2, "b", shardmap.Full)
	row := func(intended ...shardmap.Member) shardmap.Row {
		return shardmap.Row{Members: []shardmap.Member{a, b}, Intended: intended}
	}
	learner := row(a, member(3, "c", shardmap.Full))
	learner.Members = append(learner.Members, member(3, "c", shardmap.Learner))
	m := &shardmap.Map{Rows: []shardmap.Row{row(a, member(3, "c", shardmap.Full)), row(a, member(3, "c", shardmap.Full)), learner, row(a, b, member(3, "c", shardmap.Witness))}}
	reports := map[string]*nodev1.ReportResponse{
		"a": {MoveBytesPerSecond: 900, Groups: []*nodev1.GroupReport{
			{Shard: 0, Leads: true, Bytes: 100}, {Shard: 1, Leads: true, Bytes: 200}, {Shard: 2, Leads: true, Bytes: 300}, {Shard: 3, Leads: true, Bytes: 400},
		}},
		"b": {MoveBytesPerSecond: 700}, // the slowest counts
		"c": {Groups: []*nodev1.GroupReport{{Shard: 0, Fetch: &nodev1.FetchProgress{FromNode: "a", DoneBytes: 40, TotalBytes: 120, BytesPerSecond: 20}}}},
	}
	v := newMovement(m, reports, leaders(reports))
	want := []struct {
		phase, from           string
		done, total, pace, ms uint64
	}{{"files", "b", 40, 120, 20, 4000}, {"waiting", "b", 0, 200, 0, 0}, {"log", "b", 0, 300, 0, 0}, {"waiting", "", 0, 0, 0, 0}}
	for shard := range m.Rows {
		moves := v.of(uint16(shard), &m.Rows[shard])
		if len(moves) != 1 {
			t.Fatalf("shard %d: %v", shard, moves)
		}
		got, w := moves[0], want[shard]
		if got.GetToNode() != "c" || got.GetPhase() != w.phase || got.GetFromNode() != w.from || got.GetDoneBytes() != w.done ||
			got.GetTotalBytes() != w.total || got.GetBytesPerSecond() != w.pace || got.GetRemainingMs() != w.ms {
			t.Errorf("shard %d: %v, want %+v", shard, got, w)
		}
	}
	rates := v.rates()
	if rates.BytesPerSecond != 700 || rates.ShardBytes[2] != 300 || rates.Arrived(0, "c") != 40 || rates.Arrived(1, "c") != 0 {
		t.Errorf("rates %+v", rates)
	}
}
