package flush

import (
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/segment"
	"pgregory.net/rapid"
)

// TestLayoutsAreDisjoint: partitions are those of segments, have the samples that go there, do not
// overlap and are few; no month that has fewer samples has narrower partitions for nothing.
func TestLayoutsAreDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layout{months: map[segment.Partition]*monthCount{}}
		var times []int64
		baseMs := rapid.Int64Range(-1000, 1000).Draw(t, "month") * 30 * segment.DayMs
		for range rapid.IntRange(1, 40).Draw(t, "series") {
			backMs := rapid.SampledFrom([]int64{segment.HourMs, segment.DayMs, 40 * segment.DayMs, 4000 * segment.DayMs}).Draw(t, "back")
			some := rapid.SliceOfN(rapid.Int64Range(baseMs-backMs, baseMs), 1, 60).Draw(t, "times")
			slices.Sort(some)
			l.count(some)
			times = append(times, some...)
		}
		l.plan()
		months, partitions := map[segment.Partition]bool{}, map[segment.Partition]bool{}
		for _, at := range times {
			p := l.partitionAt(at)
			if !p.Has(at) || !slices.ContainsFunc([]segment.Span{segment.SpanTwoHours, segment.SpanDay, segment.SpanMonth}, func(span segment.Span) bool {
				return p == segment.PartitionOf(at, span)
			}) {
				t.Fatalf("%d goes to %v", at, p)
			}
			months[segment.PartitionOf(at, segment.SpanMonth)], partitions[p] = true, true
		}
		list := make([]segment.Partition, 0, len(partitions))
		for p := range partitions {
			list = append(list, p)
		}
		slices.SortFunc(list, func(a, b segment.Partition) int { return int(min(max(a.StartMs-b.StartMs, -1), 1)) })
		for i := 1; i < len(list); i++ {
			if list[i].Overlaps(list[i-1]) {
				t.Fatalf("%v overlaps %v", list[i], list[i-1])
			}
		}
		if most := max(PartitionsAtOnce, len(months)+narrowPartitions); len(list) > most {
			t.Fatalf("%d partitions of %d months, %d are allowed", len(list), len(months), most)
		}
	})
}

// TestLayoutOfTooManyMonths: times without end make months, and take bounded memory.
func TestLayoutOfTooManyMonths(t *testing.T) {
	l := layout{months: map[segment.Partition]*monthCount{}}
	for month := range int64(monthsCounted + 10) {
		l.count([]int64{month * 31 * segment.DayMs})
	}
	l.plan()
	if l.months != nil || l.partitionAt(5) != segment.PartitionOf(5, segment.SpanMonth) {
		t.Errorf("%d months are known", len(l.months))
	}
}
