package storage

import (
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// errReplaced ends a scan that began before a shard was dropped or replaced.
var errReplaced = fmt.Errorf("%w: the shard's replica was replaced", series.ErrUnavailable)

// sequenceBits is how many sequences of segments a generation of the page log has.
// The first is that of its flush; the others are for what is installed while the
// next generation is being written.
const sequenceBits = 20

// sequenceOf returns the sequence of the segments that a generation becomes.
func sequenceOf(generation uint32) uint64 { return uint64(generation) << sequenceBits }

// floor says where the present replica of a shard begins. What lies below it is of
// one that was dropped or replaced, and does not count any more, though it is
// deleted only when the files that it shares with other shards are written anew.
type floor struct {
	Generation  uint32 `json:"generation"` // pages of older generations, and those of this one
	Offset      uint32 `json:"offset"`     // before the offset, do not count,
	Sequence    uint64 `json:"sequence"`   // nor what segments have whose highest sequence is lower,
	LogPosition uint64 `json:"logPosition"`
	Number      uint64 `json:"number"` // of replacements of the shard so far
	Dropped     bool   `json:"dropped,omitempty"`
}

// hidesPage reports whether a page at a position lies below the floor.
func (f *floor) hidesPage(generation, offset uint32) bool {
	return generation < f.Generation || generation == f.Generation && offset < f.Offset
}

// hidesSegment reports whether a segment lies below the floor.
func (f *floor) hidesSegment(sequenceHigh uint64) bool { return sequenceHigh < f.Sequence }

// hidesRef is hidesPage while the page log is opened, when it is known which
// generation a slot belongs to.
func (f *floor) hidesRef(generations *[pagelog.Slots]uint32, ref pagelog.Ref) bool {
	return f.hidesPage(generations[ref.Slot()], ref.Offset())
}

// slotGenerations returns the number of the live generation of each slot.
func slotGenerations(state *pagelog.State) *[pagelog.Slots]uint32 {
	var numbers [pagelog.Slots]uint32
	for _, g := range state.Generations {
		numbers[g.Number%pagelog.Slots] = g.Number
	}
	return &numbers
}

// reclaimShare is the part of a segment, as a divisor, that lies below floors when it
// is rewritten for that alone. Much less would make each drop of a shard cost the
// bytes of all others.
const reclaimShare = 4

// planReclaim returns the job that frees most of what dropped, replaced and repaired
// replicas hold. The caller holds the maintenance lock.
func (e *Engine) planReclaim(limits *jobLimits) (segment.Job, bool) {
	v := e.versions.peek()
	if len(v.excluded) == 0 && !slices.ContainsFunc(v.floors, func(f floor) bool { return f.Number > 0 }) {
		return segment.Job{}, false
	}
	damaged := map[string]bool{}
	for i := range e.manifest.Segments {
		if m := &e.manifest.Segments[i]; m.Damaged {
			damaged[m.Name] = true
		}
	}
	var most int64
	var chosen *segment.Meta
	for _, r := range v.segments {
		m := r.Meta()
		if damaged[m.Name] || m.Level == math.MaxUint8 || !limits.allow(m) {
			continue
		}
		if below := v.hiddenBytes(r); below > most && below*reclaimShare >= m.Bytes {
			most, chosen = below, m
		}
	}
	if chosen == nil {
		return segment.Job{}, false
	}
	return rewriteJob(chosen, "reclaim"), true
}

// hiddenBytes returns the bytes of a segment that do not count any more.
func (v *version) hiddenBytes(r *segment.Reader) (bytes int64) {
	for _, info := range r.Shards() {
		if v.hides(r.Meta(), info.Shard) {
			bytes += info.Bytes
		}
	}
	return bytes
}
