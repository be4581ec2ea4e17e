package manifest

import (
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Tombstone hides the samples of some series of one shard in a range of time
// that were written before it. When it is applied the series' hot pages are
// sealed, so what is earlier is what lies before a position of the page log.
type Tombstone struct {
	Shard        uint16   `json:"shard"`
	IDs          []uint32 `json:"ids"` // sorted
	FromMs, ToMs int64
	Generation   uint32 `json:"generation"` // pages of older generations are hidden,
	Offset       uint32 `json:"offset"`     // those of this one before the offset,
	Sequence     uint64 `json:"sequence"`   // and segments whose highest sequence is lower
	Number       uint64 `json:"number"`     // grows with each tombstone of the node
	Entry        uint64 `json:"entry"`      // index of the log entry that made it
}

// hidesPage reports whether pages at a position come before the tombstone.
func (t *Tombstone) hidesPage(generation, offset uint32) bool {
	return generation < t.Generation || generation == t.Generation && offset < t.Offset
}

// HidesSegment reports whether a segment comes before the tombstone. The generation
// in which the tombstone stands is filtered when it is flushed.
func (t *Tombstone) HidesSegment(sequenceHigh uint64) bool {
	return sequenceHigh < t.Sequence
}

func (t *Tombstone) has(id uint32) bool {
	_, ok := slices.BinarySearch(t.IDs, id)
	return ok
}

// TombstonesMax bounds the deletes that still hide something: each entry of a shard
// is one. Beyond it deletes have to wait for compaction.
const TombstonesMax = 1 << 14

// Tombstones are all tombstones, by shard and number. The slice is never changed in
// place, so that versions may share it.
type Tombstones []Tombstone

// OfShard returns the place of a shard's tombstones.
func (ts Tombstones) OfShard(shard uint16) (from, to int) {
	from, _ = slices.BinarySearchFunc(ts, int(shard), func(t Tombstone, s int) int { return int(t.Shard) - s })
	to, _ = slices.BinarySearchFunc(ts, int(shard)+1, func(t Tombstone, s int) int { return int(t.Shard) - s })
	return from, to
}

// Of returns the tombstones of one series.
func (ts Tombstones) Of(shard uint16, id uint32) []*Tombstone {
	if len(ts) == 0 {
		return nil
	}
	var found []*Tombstone
	from, to := ts.OfShard(shard)
	for i := from; i < to; i++ {
		if ts[i].has(id) {
			found = append(found, &ts[i])
		}
	}
	return found
}

// with returns a copy with one more. An entry makes one, or a few that differ in their ranges. A replay of the log makes the same one again,
// which hides what was replayed before it, too, and takes the place of the first.
func (ts Tombstones) with(t Tombstone) Tombstones {
	from, to := ts.OfShard(t.Shard)
	next := make(Tombstones, 0, len(ts)+1)
	next = append(next, ts[:from]...)
	for i := from; i < to; i++ {
		if same := ts[i].Entry == t.Entry && ts[i].FromMs == t.FromMs && ts[i].ToMs == t.ToMs; !same {
			next = append(next, ts[i])
		}
	}
	return append(append(next, t), ts[to:]...)
}

// Replaced returns a copy with other ones for a shard.
func (ts Tombstones) Replaced(shard uint16, by Tombstones) Tombstones {
	from, to := ts.OfShard(shard)
	return slices.Concat(ts[:from], by, ts[to:])
}

// Last returns the greatest number.
func (ts Tombstones) Last() (number uint64) {
	for i := range ts {
		number = max(number, ts[i].Number)
	}
	return number
}

// awaited are the tombstones that may hide what is on its way here: those of a shard
// after a number. The zero value is of none.
type awaited struct {
	comes bool
	shard uint16
	after uint64
}

func (a awaited) has(t *Tombstone) bool { return a.comes && t.Shard == a.shard && t.Number > a.after }

// needed returns the tombstones that still hide something: those in generations that
// are not flushed yet, those that a segment has samples for, and those that hide what
// will come. Purged is the number up to which they have been merged into a segment.
func (ts Tombstones) needed(segments []segment.Meta, purged map[string]uint64, generationOldest uint32, coming awaited) (kept Tombstones) {
	for i := range ts {
		t := &ts[i]
		if generationOldest <= t.Generation || coming.has(t) || slices.ContainsFunc(segments, func(m segment.Meta) bool {
			return t.Concerns(&m, purged)
		}) {
			kept = append(kept, *t)
		}
	}
	return kept
}

// Concerns reports whether a segment may have samples that a tombstone hides.
func (t *Tombstone) Concerns(m *segment.Meta, purged map[string]uint64) bool {
	return m.SequenceLow < t.Sequence && m.MinMs <= t.ToMs && m.MaxMs >= t.FromMs &&
		m.ShardLow <= t.Shard && m.ShardHigh >= t.Shard && purged[m.Name] < t.Number
}

// HiddenInSegment returns the spans that the tombstones of one series hide in a
// segment.
func HiddenInSegment(of []*Tombstone, sequenceHigh uint64) []segment.TimeRange {
	var spans []segment.TimeRange
	for _, t := range of {
		if t.HidesSegment(sequenceHigh) {
			spans = append(spans, segment.TimeRange{FromMs: t.FromMs, ToMs: t.ToMs})
		}
	}
	return spans
}

// HiddenInPage returns the spans that they hide in a page.
func HiddenInPage(of []*Tombstone, generation, offset uint32) []segment.TimeRange {
	var spans []segment.TimeRange
	for _, t := range of {
		if t.hidesPage(generation, offset) {
			spans = append(spans, segment.TimeRange{FromMs: t.FromMs, ToMs: t.ToMs})
		}
	}
	return spans
}

// HidesAll reports whether one of some spans has a whole range.
func HidesAll(spans []segment.TimeRange, within segment.TimeRange) bool {
	return slices.ContainsFunc(spans, func(s segment.TimeRange) bool { return s.FromMs <= within.FromMs && s.ToMs >= within.ToMs })
}

func Hides(spans []segment.TimeRange, timeMs int64) bool {
	for _, s := range spans {
		if s.Has(timeMs) {
			return true
		}
	}
	return false
}

// DropHidden removes the samples from index start on that lie in one of the ranges.
func DropHidden(c *codec.Columns, start int, hidden []segment.TimeRange) {
	codec.KeepColumns(c, start, func(timeMs int64) bool { return !Hides(hidden, timeMs) })
}
