package storage

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/exemplar"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

const (
	noDoubt = math.MaxUint32
)

// ErrStalled reports that an entry is in the log but cannot be applied yet, because
// the disk does not take what applying it writes. The engine keeps such entries
// in order; Resume applies them when the disk takes writes again.
var ErrStalled = errors.New("storage has stalled")

// shard is the state of one shard: hot pages and the place in its log.
type shard struct {
	number uint16
	engine *Engine
	cutMs  atomic.Int64                    // samples before it are gone
	rules  atomic.Pointer[retention.Table] // cuts of some series; nil: none
	thin   atomic.Pointer[thinCuts]        // cuts before which hours are thinned
	// By these cuts files may be thinned: see PrepareThin.
	thinned atomic.Pointer[retention.Table]
	absent  atomic.Bool // it was dropped, and nothing has been applied since

	forgotten *index.Forgotten // ids that are forgotten

	resuming sync.Mutex // held by who resumes, as mu is not held all the time then

	mu struct {
		sync.Mutex
		set        *page.Set
		outOfOrder outOfOrder
		applied    uint64 // index of the last entry
		backlog    []backlogEntry
		stall      error // why the backlog's first entry could not be applied
		reader     series.BatchReader
		slots      []slot
		points     points
		ledger     dedup.Ledger
		exemplars  exemplar.Ring

		// Of the present replica: see manifest.LowWater.
		number      uint64
		logPosition uint64

		watches watches
		// Repairs since the start have replaced samples from here to there: what the heads
		// know of newest samples in it may be of what was replaced.
		repaired segment.TimeRange

		// Of the entry of samples that is being applied: what there is in hours that it has, see hours.go.
		hours knownHours

		doubtful uint32 // ids from here on are not what the log says: see DoubtIDs
	}
}

type backlogEntry struct {
	epoch uint16
	entry entry.Entry
}

func newShard(engine *Engine, number uint16, applied uint64, cutMs int64, rules *retention.Table, batches dedup.Table) *shard {
	s := &shard{number: number, engine: engine}
	s.cutMs.Store(cutMs)
	s.rules.Store(rules)
	s.mu.applied, s.mu.doubtful = applied, noDoubt
	s.mu.watches.leastMs = math.MaxInt64
	s.mu.repaired = segment.TimeRange{FromMs: math.MaxInt64, ToMs: math.MinInt64}
	s.mu.ledger = dedup.NewLedger(batches, applied)
	s.mu.set = page.NewSet(page.Options{
		Sealer: s, Arena: &engine.arena, OnDay: func(id uint32, timeMs int64) { engine.index.MarkActiveWithin(number, series.ID(id), timeMs, timeMs) },
	})
	return s
}

// Seal implements page.Sealer: the page goes to the page log.
func (s *shard) Seal(id, previous uint32, payload []byte, late bool) (uint32, error) {
	ref, err := s.engine.appendPage(s.number, id, pagelog.Ref(previous), payload)
	if err == nil && late {
		s.markOutOfOrderLocked(id)
	}
	return uint32(ref), err
}

// markOutOfOrderLocked notes that a series' pages are not in order of time.
func (s *shard) markOutOfOrderLocked(id uint32) {
	generation, _ := s.engine.pages.End()
	s.mu.outOfOrder.mark(id, generation)
}

// sealPagesInSlice bounds how long a shard's lock is held at a time.
const sealPagesInSlice = 256

func (s *shard) seal(epoch uint16, all bool) error {
	for {
		s.engine.makeRoom()
		s.mu.Lock()
		if len(s.mu.backlog) > 0 {
			s.mu.Unlock()
			return ErrStalled
		}
		var done bool
		var err error
		if all {
			done, err = true, s.mu.set.SealAll()
		} else {
			done, err = s.mu.set.SealThrough(epoch, sealPagesInSlice)
		}
		s.mu.Unlock()
		if done || err != nil {
			return err
		}
	}
}

func (s *shard) stalledLocked() error { return fmt.Errorf("shard %d: %w", s.number, s.mu.stall) }

func stalled(err error) error { return fmt.Errorf("%w: %w", ErrStalled, err) }
