package storage

import (
	"math"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// TestRecentPartitionsStayNarrow: one device with old timestamps does not widen the partitions of
// the others' samples, which retention would keep longer for that.
func TestRecentPartitionsStayNarrow(t *testing.T) {
	logs := newLabLogs()
	n := newLabNode(t, logs)
	defer n.end()
	n.hosts[0] = true
	const nowMs = int64(1_700_000_000_000)
	for minute := range int64(60) {
		logs[0].put(logs[0].keys[1:], nowMs+minute*60_000)
	}
	for day := range int64(2000) {
		logs[0].put(logs[0].keys[:1], nowMs-(day+40)*segment.DayMs)
	}
	n.apply(0, math.MaxInt)
	n.seal()
	recent := 0
	for _, r := range n.e.files.Current().Segments {
		if m := r.Meta(); m.MaxMs >= nowMs {
			recent++
			if m.Partition != segment.PartitionOf(m.MaxMs, segment.SpanTwoHours) {
				t.Errorf("recent samples are in %s", m.Name)
			}
		}
	}
	if recent == 0 {
		t.Error("no segment has the recent samples")
	}
	n.check("flushed")
}
