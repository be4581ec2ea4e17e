package index

import (
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
)

// shardTable leads from (shard, id) to local ids. It has two levels, so that the
// 65,536 possible shards cost nothing while they do not exist.
type shardTable [shardPages]atomic.Pointer[shardPage]

type shardPage [shardPageEntries]atomic.Pointer[shardIDs]

const (
	shardPageEntries = 256
	shardPages       = 1 << 16 / shardPageEntries
	idChunkEntries   = 512
)

// shardIDs is the flat array of one shard. Entries are the local id + 1; 0 is
// none, for an id whose record is lost.
type shardIDs struct {
	mu     sync.Mutex // held while a series is created
	next   atomic.Uint32
	chunks atomic.Pointer[[]*idChunk]
}

type idChunk [idChunkEntries]atomic.Uint32

func (t *shardTable) get(shard uint16) *shardIDs {
	page := t[shard/shardPageEntries].Load()
	if page == nil {
		return nil
	}
	return page[shard%shardPageEntries].Load()
}

func (t *shardTable) make(shard uint16) *shardIDs {
	if s := t.get(shard); s != nil {
		return s
	}
	page := &t[shard/shardPageEntries]
	page.CompareAndSwap(nil, new(shardPage))
	entry := &page.Load()[shard%shardPageEntries]
	entry.CompareAndSwap(nil, new(shardIDs))
	return entry.Load()
}

// each visits the shards that exist, in order.
func (t *shardTable) each(visit func(shard uint16, s *shardIDs)) {
	for i := range t {
		page := t[i].Load()
		if page == nil {
			continue
		}
		for j := range page {
			if s := page[j].Load(); s != nil {
				visit(uint16(i*shardPageEntries+j), s)
			}
		}
	}
}

// local returns the local id of a series of the shard.
func (s *shardIDs) local(id series.ID) (uint32, bool) {
	chunks := s.chunks.Load()
	if chunks == nil || int(id/idChunkEntries) >= len(*chunks) {
		return 0, false
	}
	c := (*chunks)[id/idChunkEntries]
	entry := c[id%idChunkEntries].Load()
	return entry - 1, entry != 0
}

// find returns the id of a local id. It does not look far: series are made in the order of their
// ids, but for those whose records were lost. Then ok is false.
func (s *shardIDs) find(local uint32) (id series.ID, ok bool) {
	from, to := uint32(0), s.next.Load()
	for from < to {
		middle := from + (to-from)/2
		switch found, ok := s.local(series.ID(middle)); {
		case ok && found == local:
			return series.ID(middle), true
		case ok && found > local:
			to = middle
		default:
			from = middle + 1
		}
	}
	return 0, false
}

// growLocked makes room for ids below end.
func (s *shardIDs) growLocked(end uint32) {
	var chunks []*idChunk
	if p := s.chunks.Load(); p != nil {
		chunks = *p
	}
	if uint64(len(chunks))*idChunkEntries >= uint64(end) {
		return
	}
	for uint64(len(chunks))*idChunkEntries < uint64(end) {
		// Readers of the shorter slice never look at what append adds.
		chunks = append(chunks, new(idChunk))
	}
	s.chunks.Store(&chunks)
}

// set stores the local id of id, for which growLocked has made room, unless
// there is one: then it gives false. It may run beside set for other ids.
func (s *shardIDs) set(id series.ID, local uint32) bool {
	c := (*s.chunks.Load())[id/idChunkEntries]
	return c[id%idChunkEntries].CompareAndSwap(0, local+1)
}

// raiseNext makes next at least n.
func (s *shardIDs) raiseNext(n uint32) {
	for {
		before := s.next.Load()
		if before >= n || s.next.CompareAndSwap(before, n) {
			return
		}
	}
}

func (s *shardIDs) bytes() int64 {
	if p := s.chunks.Load(); p != nil {
		return int64(len(*p)) * (idChunkEntries*4 + 8)
	}
	return 0
}
