package flush

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

const (
	// PartitionsAtOnce bounds the segments that are written at one time. If a layout has more
	// partitions, since samples are of many months, they are written in further passes.
	PartitionsAtOnce = 48
	// narrowPartitions is how many partitions a flush may make beyond one for each month, so that
	// old samples of many months do not widen the partitions of recent ones.
	narrowPartitions = 24
	// keptPartitions is how many partitions a flush may make rather than wider ones than retention wants:
	// as many days as are kept where days are the widest, and some narrower ones. Such a wide one would be freed
	// late, and compaction could neither join it with the narrower ones of other flushes nor join those across it.
	keptPartitions = 10*31 + narrowPartitions
	// monthsCounted bounds the memory of a layout. If samples are of more months, which
	// happens only if their times are wrong, all partitions are months.
	monthsCounted = 1 << 12
)

// dayCount counts the samples of a day that are to be written.
type dayCount struct {
	samples int64
	cells   uint16 // set of its twelve partitions of two hours that have any
	wide    bool   // it is one partition
}

func (d *dayCount) partitions() int {
	if d.wide {
		return 1
	}
	return bits.OnesCount16(d.cells)
}

// monthCount counts the samples of a month that are to be written.
type monthCount struct {
	samples int64
	days    [31]dayCount
	wide    bool // it is one partition
}

func (m *monthCount) partitions() (n int) {
	if m.wide {
		return 1
	}
	for i := range m.days {
		n += m.days[i].partitions()
	}
	return n
}

// layout chooses the partitions that a flush writes samples into: of two hours, and wider
// ones for the days and months with the fewest samples if there would be too many. Count is called
// for all samples, then plan, then partitionAt.
type layout struct {
	spanMax segment.Span // the widest that retention wants
	months  map[segment.Partition]*monthCount
	wide    bool // all partitions are months, and months is nil
}

func newLayout(spanMax segment.Span) *layout {
	return &layout{spanMax: spanMax, months: map[segment.Partition]*monthCount{}}
}

// partitionAt returns the partition that a time's samples are written into.
func (l *layout) partitionAt(timeMs int64) segment.Partition {
	month := segment.PartitionOf(timeMs, segment.SpanMonth)
	if l.wide {
		return month
	}
	switch m := l.months[month]; {
	case m == nil:
		return segment.PartitionOf(timeMs, segment.SpanTwoHours)
	case m.wide:
		return month
	case m.days[(timeMs-month.StartMs)/segment.DayMs].wide:
		return segment.PartitionOf(timeMs, segment.SpanDay)
	}
	return segment.PartitionOf(timeMs, segment.SpanTwoHours)
}

// count adds samples. Their times must be in ascending order.
func (l *layout) count(timesMs []int64) {
	for len(timesMs) > 0 && !l.wide {
		month := segment.PartitionOf(timesMs[0], segment.SpanMonth)
		m := l.months[month]
		if m == nil {
			if len(l.months) == monthsCounted {
				l.wide, l.months = true, nil
				return
			}
			m = new(monthCount)
			l.months[month] = m
		}
		for len(timesMs) > 0 && timesMs[0] < month.EndMs {
			cell := segment.PartitionOf(timesMs[0], segment.SpanTwoHours)
			n := 1
			for n < len(timesMs) && timesMs[n] < cell.EndMs {
				n++
			}
			sinceMs := cell.StartMs - month.StartMs
			day := &m.days[sinceMs/segment.DayMs]
			day.samples += int64(n)
			day.cells |= 1 << (sinceMs % segment.DayMs / (2 * segment.HourMs))
			m.samples += int64(n)
			timesMs = timesMs[n:]
		}
	}
}

// plan widens partitions until there are few enough: first in the months with the fewest samples,
// and there on the days with the fewest. What is wider than retention wants is made only if there
// are far too many otherwise.
func (l *layout) plan() {
	months := make([]segment.Partition, 0, len(l.months))
	total := 0
	for month, m := range l.months {
		months = append(months, month)
		total += m.partitions()
	}
	slices.SortFunc(months, func(a, b segment.Partition) int {
		return cmp.Or(cmp.Compare(l.months[a].samples, l.months[b].samples), cmp.Compare(a.StartMs, b.StartMs))
	})
	most := max(PartitionsAtOnce, len(months)+narrowPartitions)
	if l.spanMax == segment.SpanMonth {
		l.widen(months, total-most, (*monthCount).widen)
		return
	}
	kept := max(most, keptPartitions)
	if l.spanMax == segment.SpanTwoHours {
		most = kept
	}
	total -= l.widen(months, total-most, (*monthCount).widenDays)
	l.widen(months, total-kept, (*monthCount).widen)
}

// widen plans fewer partitions for months, by at least fewer if they can, and returns by how many.
func (l *layout) widen(months []segment.Partition, fewer int, by func(m *monthCount, fewer int) int) (saved int) {
	for _, month := range months {
		if saved >= fewer {
			break
		}
		saved += by(l.months[month], fewer-saved)
	}
	return saved
}

// widenDays plans one partition for days of the month, the emptiest first, to save fewer partitions
// if that is enough, and returns how many it saves.
func (m *monthCount) widenDays(fewer int) (saved int) {
	before := m.partitions()
	var days []*dayCount
	for i := range m.days {
		if m.days[i].partitions() > 1 {
			days = append(days, &m.days[i])
		}
	}
	slices.SortStableFunc(days, func(a, b *dayCount) int { return cmp.Compare(a.samples, b.samples) })
	for _, day := range days {
		if before-m.partitions() >= fewer {
			break
		}
		day.wide = true
	}
	return before - m.partitions()
}

// widen is widenDays, and then makes the month one partition if that was not enough.
func (m *monthCount) widen(fewer int) (saved int) {
	before := m.partitions()
	m.wide = m.widenDays(fewer) < fewer
	return before - m.partitions()
}
