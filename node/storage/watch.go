package storage

import (
	"math"
)

// watches tell which entries of a shard have changed what lies before some time, so
// that replicas can compare digests of a range that nobody writes while others are
// written all the time. They are guarded by the shard's lock.
type watches struct {
	list  [watchesMax]watch
	clock uint64 // grows with each use
	// The least time that the present entry has touched; math.MaxInt64 if it has none.
	leastMs int64
	history history
}

// watchesMax bounds the watches of a shard; of too many, the one that was asked for
// longest ago goes.
const watchesMax = 4

// watch is one time that is looked at.
type watch struct {
	toMs  int64
	since uint64 // the last entry that may have changed something at toMs or before
	used  uint64 // 0: none
}

// since returns the entry from which on nothing at toMs or before has changed. The first
// time that is the last entry, applied.
func (w *watches) since(toMs int64, applied uint64) uint64 {
	w.clock++
	oldest := &w.list[0]
	for i := range w.list {
		if one := &w.list[i]; one.used > 0 && one.toMs == toMs {
			one.used = w.clock
			return one.since
		} else if one.used < oldest.used {
			oldest = one
		}
	}
	*oldest = watch{toMs: toMs, since: applied, used: w.clock}
	return applied
}

// restart forgets all that was: samples have changed without an entry. Of the present
// entry leastMs is kept.
func (w *watches) restart(leastMs int64) {
	*w = watches{leastMs: leastMs, history: history{suspended: w.history.suspended}}
}

// touch notes that the present entry changes something at a time, or later.
func (w *watches) touch(timeMs int64) { w.leastMs = min(w.leastMs, timeMs) }

// touchAll is touch for each of some times.
func (w *watches) touchAll(times []int64) {
	if w.clock == 0 && w.history.run == 0 {
		return
	}
	least := w.leastMs
	for _, t := range times {
		least = min(least, t)
	}
	w.leastMs = least
}

// finish ends an entry.
func (w *watches) finish(entry uint64) {
	for i := range w.list {
		if w.list[i].toMs >= w.leastMs {
			w.list[i].since = entry
		}
	}
	w.history.finish(entry, w.leastMs)
	w.leastMs = math.MaxInt64
}
