package storage

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// seriesMemory is what the index and the hot pages of all shards hold together. It is bounded so:
//
//   - Pages of the shards that have most are sealed, short as they are, when there is more than
//     the bound. Entries are not applied meanwhile, so that writes get slower.
//   - Of series there are no more than leave a quarter of the bound for pages: see
//     Engine.SeriesMax. Whoever lets in writes refuses further ones.
//
// What is known of the index is counted once in a while, and estimated in between.
type seriesMemory struct {
	bytesMax  int64        // 0: no bound
	index     atomic.Int64 // bytes when it was counted
	series    atomic.Int64 // and series
	seriesMax atomic.Int64
	trigger   atomic.Int64 // of bytes: beyond it pages are sealed
	reliefs   atomic.Int64
	relieving sync.Mutex
}

const (
	// indexSeriesBytes is about what the index and the head of a new series take: 8 to 16 of the
	// hash table, 10 of ids and offsets, a head of 32 and what the dictionary gains.
	indexSeriesBytes = 96
	// measuredSeriesMin is how many series tell what one takes.
	measuredSeriesMin = 10_000
	// seriesPart of the bound is left for pages, whatever series there are.
	seriesPart = 4
	// reliefPart of the bound is free when pages have been sealed.
	reliefPart = 16
	// sealedPart of all pages are sealed at least: each of them is short, so sealing seldom
	// spares bytes on disk.
	sealedPart = 4
)

func (m *seriesMemory) init(bytesMax int64) {
	m.bytesMax = bytesMax
	m.seriesMax.Store(math.MaxInt64)
	m.trigger.Store(bytesMax)
}

// SeriesBytes returns the memory of the index and of the hot pages of all shards.
func (e *Engine) SeriesBytes() int64 {
	m := &e.memory
	return e.arena.Bytes() + m.index.Load() + max(0, e.SeriesCount()-m.series.Load())*indexSeriesBytes
}

// SeriesMax returns how many series there may be within the bound of memory, as was counted last.
func (e *Engine) SeriesMax() int64 { return e.memory.seriesMax.Load() }

// KeepWithinMemory counts what the index holds, and seals pages if that is too much.
func (e *Engine) KeepWithinMemory() {
	m := &e.memory
	if m.bytesMax == 0 {
		return
	}
	e.countIndex()
	if e.SeriesBytes() <= m.bytesMax {
		m.trigger.Store(m.bytesMax)
	}
	e.relieve()
}

func (e *Engine) countIndex() {
	m := &e.memory
	s := e.index.Stats()
	series := int64(s.Series)
	bytes := s.TailBytes + s.OffsetBytes + s.ShardBytes + s.TableBytes + s.ActivityBytes + s.PartBytes
	m.index.Store(bytes)
	m.series.Store(series)
	fixed := bytes + e.headBytes()
	each := int64(indexSeriesBytes)
	if series >= measuredSeriesMin {
		each = max(each, fixed/series)
	}
	left := m.bytesMax - m.bytesMax/seriesPart - fixed
	m.seriesMax.Store(series + max(left, 0)/each)
}

// headBytes returns the memory of the heads of all shards.
func (e *Engine) headBytes() (n int64) {
	for _, s := range e.shards {
		s.mu.Lock()
		n += int64(s.mu.set.Stats().HeadBytes)
		s.mu.Unlock()
	}
	return n
}

// relieve seals pages if there are more than memory allows. The caller holds no lock. Of many
// callers one seals, and the others wait for it.
func (e *Engine) relieve() {
	m := &e.memory
	if m.bytesMax == 0 || e.SeriesBytes() <= m.trigger.Load() {
		return
	}
	m.relieving.Lock()
	defer m.relieving.Unlock()
	if e.SeriesBytes() <= m.trigger.Load() {
		return
	}
	m.reliefs.Add(1)
	e.sealBiggest(e.SeriesBytes() - (m.bytesMax - m.bytesMax/reliefPart))
	held := e.SeriesBytes()
	e.arena.Trim(max(m.bytesMax-held, 0))
	// Where the series themselves are too many, pages are not sealed again before they have grown.
	m.trigger.Store(max(m.bytesMax, held+m.bytesMax/reliefPart))
}

// sealBiggest seals the pages of the shards that have most, until so many bytes are free, or a part
// of all pages. What cannot be sealed, as the disk takes nothing, stalls entries soon, which says so.
func (e *Engine) sealBiggest(bytes int64) {
	type sized struct {
		shard *shard
		bytes int64
	}
	shards, all := make([]sized, 0, len(e.shards)), int64(0)
	for _, s := range e.shards {
		s.mu.Lock()
		n := int64(s.mu.set.Stats().PageBytes)
		s.mu.Unlock()
		all += n
		shards = append(shards, sized{s, n})
	}
	slices.SortFunc(shards, func(a, b sized) int { return cmp.Compare(b.bytes, a.bytes) })
	bytes = max(bytes, all/sealedPart)
	for _, s := range shards {
		if bytes <= 0 || s.bytes == 0 {
			return
		}
		if err := s.shard.seal(0, true); err == nil {
			bytes -= s.bytes
		}
	}
}
