package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// TestRecoveryProblems describes shards that are alike in one line.
func TestRecoveryProblems(t *testing.T) {
	quarantined := shardmap.FoundCopy{Node: "n1", Copy: shardmap.Copy{Role: shardmap.Full, Quarantined: true}}
	of := func(shard uint16, missing ...shardmap.Member) shardmap.Recovery {
		return shardmap.Recovery{Shard: shard, Copies: []shardmap.FoundCopy{quarantined}, Best: &quarantined, Lost: true, Missing: missing, LossMsMax: 1000}
	}
	n2 := shardmap.Member{Node: "n2", Role: shardmap.Full}
	got := strings.Join(recoveryProblems([]shardmap.Recovery{of(0, n2), of(1), of(2, n2), of(3, n2), of(7, n2), {Shard: 9}}), "\n")
	for _, want := range []string{"no majority of shards 0, 2-3, 7: copies on n1 (quarantined); waits for n2 or `tickmesh recover`", "shards 1: copies on n1 (quarantined); goes on by itself",
		"shards 9: no copy is there; waits for `tickmesh recover --begin-empty`", "at most of the last 1s before the power cut"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	m := &shardmap.Map{Rows: []shardmap.Row{{}, {Recovered: &shardmap.Recovered{Node: "n1", Ms: 5_000, NewestMs: 4_000, LossMsMax: 1000}}}}
	told := strings.Join(recoveredProblems(m, time.UnixMilli(6_000)), "\n")
	if want := "shards 1 had lost their majority and went on, 1970-01-01T00:00:05Z, from the copy of n1: lost is what was answered after 1970-01-01T00:00:04.000Z"; !strings.Contains(told, want) {
		t.Errorf("%q", told)
	}
	if late := recoveredProblems(m, time.UnixMilli(6_000).Add(recoveredShown)); len(late) > 0 {
		t.Errorf("it is told for ever: %q", late)
	}
}
