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
		l := newLayout(rapid.SampledFrom([]segment.Span{segment.SpanTwoHours, segment.SpanDay, segment.SpanMonth}).Draw(t, "widest"))
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
		most := max(PartitionsAtOnce, len(months)+narrowPartitions)
		if l.spanMax != segment.SpanMonth {
			most = max(most, keptPartitions)
		}
		if len(list) > most {
			t.Fatalf("%d partitions of %d months, %d are allowed", len(list), len(months), most)
		}
	})
}

// TestLayoutOfTooManyMonths: times without end make months, and take bounded memory.
func TestLayoutOfTooManyMonths(t *testing.T) {
	l := newLayout(segment.SpanMonth)
	for month := range int64(monthsCounted + 10) {
		l.count([]int64{month * 31 * segment.DayMs})
	}
	l.plan()
	if l.months != nil || l.partitionAt(5) != segment.PartitionOf(5, segment.SpanMonth) {
		t.Errorf("%d months are known", len(l.months))
	}
}

// TestLayoutsFollowRetention: what is kept for as long as days are the widest is written into no wider partition, and
// what is kept for days into partitions of two hours. Of much that is older, wide ones are made all the same.
func TestLayoutsFollowRetention(t *testing.T) {
	widest := func(spanMax segment.Span, days int64) (width int64) {
		l := newLayout(spanMax)
		for hour := range days * 24 {
			l.count([]int64{hour * segment.HourMs})
		}
		l.plan()
		for hour := range days * 24 {
			p := l.partitionAt(hour * segment.HourMs)
			width = max(width, p.EndMs-p.StartMs)
		}
		return width
	}
	for _, c := range []struct {
		spanMax segment.Span
		days    int64
		want    int64
	}{
		{segment.SpanTwoHours, 10, 2 * segment.HourMs}, {segment.SpanDay, 10, segment.DayMs}, {segment.SpanDay, 309, segment.DayMs},
		{segment.SpanTwoHours, 30, segment.DayMs}, {segment.SpanDay, 400, 30 * segment.DayMs}, {segment.SpanMonth, 100, 31 * segment.DayMs},
	} {
		if got := widest(c.spanMax, c.days); got != c.want {
			t.Errorf("%d days with a widest span of %v are in partitions of up to %d h, want %d", c.days, c.spanMax, got/segment.HourMs, c.want/segment.HourMs)
		}
	}
}
