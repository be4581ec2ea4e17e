package storage

import "slices"

// Tombstone hides the samples of some series of one shard in a range of time
// that were written before it. When it is applied the series' hot pages are
// sealed, so what is earlier is what lies before a position of the page log.
type Tombstone struct {
	Shard        uint16   `json:"shard"`
	IDs          []uint32 `json:"ids"` // sorted
	FromMs, ToMs int64
	Generation   uint32 `json:"generation"` // pages of older generations are hidden,
	Offset       uint32 `json:"offset"`     // and those of this one before the offset
}

// hidesPage says whether pages at a position come before the tombstone.
func (t *Tombstone) hidesPage(generation, offset uint32) bool {
	return generation < t.Generation || generation == t.Generation && offset < t.Offset
}

// hidesSegment says whether a segment comes before the tombstone. The generation
// in which the tombstone stands is filtered when it is flushed.
func (t *Tombstone) hidesSegment(sequenceHigh uint64) bool {
	return sequenceHigh < uint64(t.Generation)
}

func (t *Tombstone) has(id uint32) bool {
	_, ok := slices.BinarySearch(t.IDs, id)
	return ok
}

// span is a closed range of time.
type span struct{ fromMs, toMs int64 }

func (s span) has(timeMs int64) bool { return timeMs >= s.fromMs && timeMs <= s.toMs }

// tombstones are all tombstones, oldest first. The slice is never changed in
// place, so that versions may share it.
type tombstones []Tombstone

// of gives the tombstones of one series.
func (ts tombstones) of(shard uint16, id uint32) []*Tombstone {
	var found []*Tombstone
	for i := range ts {
		if ts[i].Shard == shard && ts[i].has(id) {
			found = append(found, &ts[i])
		}
	}
	return found
}

// hiddenInSegment gives the spans that the tombstones of one series hide in a
// segment.
func hiddenInSegment(of []*Tombstone, sequenceHigh uint64) []span {
	var spans []span
	for _, t := range of {
		if t.hidesSegment(sequenceHigh) {
			spans = append(spans, span{t.FromMs, t.ToMs})
		}
	}
	return spans
}

// hiddenInPage gives the spans that they hide in a page.
func hiddenInPage(of []*Tombstone, generation, offset uint32) []span {
	var spans []span
	for _, t := range of {
		if t.hidesPage(generation, offset) {
			spans = append(spans, span{t.FromMs, t.ToMs})
		}
	}
	return spans
}

func hidden(spans []span, timeMs int64) bool {
	for _, s := range spans {
		if s.has(timeMs) {
			return true
		}
	}
	return false
}

// needed says whether a tombstone still hides something: a segment that is
// older than it and overlaps its time.
func (t *Tombstone) needed(segments []segmentSpan, generationOldest uint32) bool {
	if generationOldest <= t.Generation {
		return true // its generation has not been flushed yet
	}
	for _, s := range segments {
		if s.sequenceLow < uint64(t.Generation) && s.fromMs <= t.ToMs && s.toMs >= t.FromMs {
			return true
		}
	}
	return false
}

type segmentSpan struct {
	sequenceLow  uint64
	fromMs, toMs int64
}
