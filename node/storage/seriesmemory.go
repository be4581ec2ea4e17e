package storage

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/page"
)

// seriesMemory bounds the memory that the index, the hot pages and the exemplars of all shards hold together:
//
//   - Beyond the bound, pages of the shards with the most are sealed before they are full. Entries
//     are not applied meanwhile, so that writes get slower.
//   - New series are refused that would leave less than a quarter of the bound for pages: see
//     SeriesMax, which limits.Limiter keeps.
//
// The size of the index is measured now and then (KeepWithinMemory), and estimated in between.
type seriesMemory struct {
	arena  *page.Arena
	table  *index.Index
	shards []*shard

	bytesMax  int64         // 0: no bound
	index     atomic.Int64  // bytes of the index when it was measured last
	series    atomic.Int64  // series then
	exemplars *atomic.Int64 // bytes of exemplars
	lent      atomic.Int64  // bytes of snapshots that are open for reading
	seriesMax atomic.Int64  // most series within the bound, by what they took then
	trigger   atomic.Int64  // bytes beyond which pages are sealed
	reliefs   atomic.Int64  // times that pages were sealed
	relieving sync.Mutex    // held by the one caller of relieve that seals
}

const (
	// indexSeriesBytes estimates the memory of a new series: 8 to 16 in the hash table, 10 of ids and
	// offsets, a head of 32, and what the dictionary grows by.
	indexSeriesBytes = 96
	// measuredSeriesMin is the number of series from which on their average size is used.
	measuredSeriesMin = 10_000
	// seriesPart: one in so many bytes of the bound is kept for pages, however many series there are.
	seriesPart = 4
	// reliefPart: sealing frees memory down to the bound less one in so many of its bytes.
	reliefPart = 16
	// sealedPart: at least one in so many bytes of pages is sealed at a time. Pages that are sealed
	// early are short and take more bytes on disk, so it should happen seldom.
	sealedPart = 4
)

func (m *seriesMemory) init(bytesMax int64) {
	m.bytesMax = bytesMax
	m.seriesMax.Store(math.MaxInt64)
	m.trigger.Store(bytesMax)
}

// SeriesBytes returns the memory of the index, of the hot pages and the exemplars of all shards, and of snapshots.
func (m *seriesMemory) SeriesBytes() int64 {
	return m.arena.Bytes() + m.index.Load() + m.exemplars.Load() + m.lent.Load() + max(0, int64(m.table.Len())-m.series.Load())*indexSeriesBytes
}

// Lend counts as held, until giveBack, what a snapshot takes of memory that is opened for reading: an index and heads, as there are
// here. It returns false if that would leave less than a quarter of the bound for pages.
func (m *seriesMemory) Lend() (giveBack func(), ok bool) {
	if m.bytesMax == 0 {
		return func() {}, true
	}
	m.countIndex()
	bytes := m.index.Load() + m.headBytes()
	if lent := m.lent.Add(bytes); bytes+lent > m.bytesMax-m.bytesMax/seriesPart {
		m.lent.Add(-bytes)
		return nil, false
	}
	return sync.OnceFunc(func() { m.lent.Add(-bytes) }), true
}

// SeriesMax returns how many series there may be within the bound of memory, by the last
// measurement.
func (m *seriesMemory) SeriesMax() int64 { return m.seriesMax.Load() }

// KeepWithinMemory measures the index, and seals pages if there is more than the bound. It is
// called now and then by the node's maintenance.
func (m *seriesMemory) KeepWithinMemory() {
	if m.bytesMax == 0 {
		return
	}
	m.countIndex()
	if m.SeriesBytes() <= m.bytesMax {
		m.trigger.Store(m.bytesMax)
	}
	m.relieve()
}

// countIndex measures the index, and computes seriesMax by it.
func (m *seriesMemory) countIndex() {
	s := m.table.Stats()
	series := int64(s.Series)
	bytes := s.TailBytes + s.OffsetBytes + s.ShardBytes + s.TableBytes + s.ActivityBytes + s.PartBytes
	m.index.Store(bytes)
	m.series.Store(series)
	fixed := bytes + m.headBytes()
	each := int64(indexSeriesBytes)
	if series >= measuredSeriesMin {
		each = max(each, fixed/series)
	}
	left := m.bytesMax - m.bytesMax/seriesPart - fixed
	m.seriesMax.Store(series + max(left, 0)/each)
}

// headBytes returns the memory of the heads of all shards.
func (m *seriesMemory) headBytes() (n int64) {
	for _, s := range m.shards {
		s.mu.Lock()
		n += int64(s.mu.set.Stats().HeadBytes)
		s.mu.Unlock()
	}
	return n
}

// relieve seals pages if more memory is held than trigger. If it is called at once by several
// goroutines, one seals and the others wait for it. The caller holds no lock.
func (m *seriesMemory) relieve() {
	if m.bytesMax == 0 || m.SeriesBytes() <= m.trigger.Load() {
		return
	}
	m.relieving.Lock()
	defer m.relieving.Unlock()
	if m.SeriesBytes() <= m.trigger.Load() {
		return
	}
	m.reliefs.Add(1)
	m.sealBiggest(m.SeriesBytes() - (m.bytesMax - m.bytesMax/reliefPart))
	held := m.SeriesBytes()
	m.arena.Trim(max(m.bytesMax-held, 0))
	// If the index alone takes too much, do not seal again before there are pages worth it.
	m.trigger.Store(max(m.bytesMax, held+m.bytesMax/reliefPart))
}

// sealBiggest seals the pages of the shards with the most, until bytes and at least a part of all
// pages are free. Errors are ignored: if the disk takes nothing, the next entries stall by the same
// cause, which is reported.
func (m *seriesMemory) sealBiggest(bytes int64) {
	type sized struct {
		shard *shard
		bytes int64
	}
	shards, all := make([]sized, 0, len(m.shards)), int64(0)
	for _, s := range m.shards {
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
