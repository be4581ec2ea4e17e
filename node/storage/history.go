package storage

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
)

// history has, for any recent entry of a shard, the least time that entries after it have
// touched, so that readers who keep answers know which of them still hold. It stands beside
// watches, is fed by the same calls, and is guarded by the shard's lock. It looks after
// entries from the first question on.
type history struct {
	run   uint64 // names this history; 0: nobody has asked yet
	since uint64 // entries up to this one are not known
	// Suffix minima: entries grow, and times too. What was touched after an entry is
	// touched from the time of the first element behind it on.
	steps []step
	// Samples are going without an entry: nothing can be said meanwhile.
	suspended bool
}

// step is an entry, and the least time, whole minutes, that it or a later one has touched.
type step struct {
	entry   uint64
	leastMs int64
}

// historyStepsMax bounds the steps of a shard. Writes of the present make one a minute, so
// it is about a day; who asks about an earlier entry is told that it is not known.
const historyStepsMax = 1500

// historyGrainMs is what times are rounded down to.
const historyGrainMs = 60_000

// finish notes an entry that has touched what lies at leastMs and later; math.MaxInt64: nothing.
func (h *history) finish(entry uint64, leastMs int64) {
	if h.run == 0 || leastMs == math.MaxInt64 {
		return
	}
	if rest := leastMs % historyGrainMs; rest < 0 {
		leastMs -= min(rest+historyGrainMs, leastMs-math.MinInt64)
	} else {
		leastMs -= rest
	}
	n := len(h.steps)
	for n > 0 && h.steps[n-1].leastMs >= leastMs {
		n--
	}
	if n == historyStepsMax {
		gone := n / 2
		h.since = h.steps[gone-1].entry
		n = copy(h.steps, h.steps[gone:n])
	}
	h.steps = append(h.steps[:n], step{entry, leastMs})
}

// touched returns the least time that entries after one have touched: math.MaxInt64 for none,
// math.MinInt64 if that is not known.
func (h *history) touched(run, entry uint64) int64 {
	if run != h.run || run == 0 || entry < h.since {
		return math.MinInt64
	}
	at, _ := slices.BinarySearchFunc(h.steps, entry, func(s step, entry uint64) int {
		if s.entry <= entry {
			return -1
		}
		return 1
	})
	if at == len(h.steps) {
		return math.MaxInt64
	}
	return h.steps[at].leastMs
}

// History returns the present mark of a shard, and the least time at which something may have
// changed since an earlier one. What is touched is looked after from the first call on. The
// mark of a shard that is not here, or of which nothing can be said now, has Run 0.
func (e *Engine) History(since scan.Mark) scan.Change {
	unknown := scan.Change{Mark: scan.Mark{Shard: since.Shard}, LeastMs: scan.ChangedAll}
	if int(since.Shard) >= len(e.shards) {
		return unknown
	}
	s := e.shards[since.Shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.mu.watches
	h := &w.history
	if h.suspended || s.absent.Load() {
		return unknown
	}
	if h.run == 0 {
		for h.run == 0 {
			h.run = rand.Uint64()
		}
		h.since = s.mu.applied
	}
	// An entry that stalls halfway can be seen already.
	return scan.Change{
		Mark:    scan.Mark{Shard: s.number, Run: h.run, Index: s.mu.applied},
		LeastMs: min(h.touched(since.Run, since.Index), w.leastMs),
	}
}

// suspendHistories has nothing said of any shard while samples go without an entry.
func (e *Engine) suspendHistories(suspended bool) {
	for _, s := range e.shards {
		s.mu.Lock()
		s.mu.watches.history = history{suspended: suspended}
		s.mu.Unlock()
	}
}
