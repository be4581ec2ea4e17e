package rules

import (
	"cmp"
	"math"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// Bounds of what is remembered of series that rules write.
const (
	recentMax     = 1 << 18
	recentKeptMs  = 60 * 60 * 1000 // when there is no room for more
	recentSweepMs = 60 * 1000      // between two searches for those, which look at all
)

// recent has the newest sample of each series that the rules of a database have written. Where several rules write
// one series, Prometheus keeps the first sample of a time and none before the newest; storage, where the later write
// wins, would let the staleness marker of one rule hide the sample of another. Beyond recentMax series it knows
// nothing of the others, whose samples are all taken.
type recent struct {
	max int // series; 0: recentMax
	mu  struct {
		sync.Mutex
		newest  map[uint64]sampleBits // by the hash of labels
		sweptMs int64                 // time of the last search for room
	}
}

type sampleBits struct {
	timeMs int64
	bits   uint64
}

// see notes a sample. Errors: those by which Prometheus' storage refuses it.
func (r *recent) see(l labels.Labels, timeMs int64, v float64) error {
	hash, is := l.Hash(), sampleBits{timeMs, math.Float64bits(v)}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.mu.newest[hash]
	switch {
	case known && timeMs < last.timeMs:
		return storage.ErrOutOfOrderSample
	case known && timeMs == last.timeMs && is != last:
		return storage.ErrDuplicateSampleForTimestamp
	case r.mu.newest == nil:
		r.mu.newest = map[uint64]sampleBits{}
	case !known && len(r.mu.newest) >= r.room() && !r.makeRoomLocked(timeMs):
		return nil
	}
	r.mu.newest[hash] = is
	return nil
}

func (r *recent) room() int { return cmp.Or(r.max, recentMax) }

// makeRoomLocked forgets series that nothing was written to for long, and reports whether there were some. It does not
// look for them again and again: rules with more series than there is room for ask with each sample.
func (r *recent) makeRoomLocked(nowMs int64) bool {
	if since := nowMs - r.mu.sweptMs; -recentSweepMs < since && since < recentSweepMs {
		return false
	}
	r.mu.sweptMs = nowMs
	for hash, s := range r.mu.newest {
		if s.timeMs < nowMs-recentKeptMs {
			delete(r.mu.newest, hash)
		}
	}
	return len(r.mu.newest) < r.room()
}
