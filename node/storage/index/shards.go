package index

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
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
	gaps   atomic.Uint32 // ids below next that never had a record here: see MakeGap
	chunks atomic.Pointer[[]*idChunk]
	// seals are those of the chunks that are mapped, at least while they are. Who finds none reads memory.
	seals atomic.Pointer[[]*sealedIDs]
	// persisted marks the chunks of which the file of ids has a copy, which is then what chunks leads to.
	persisted []bool       // guarded by Index.syncing
	mapped    atomic.Int64 // how many that are
	healed    []healedIDs  // guarded by mu: what is to be written again
}

// sealedIDs finds that a mapped chunk is not what it was.
type sealedIDs struct {
	*seal
	chunk *idChunk
	place uint32 // its number in the file
}

// healedIDs is a chunk in memory whose copy in the file is not what it was.
type healedIDs struct {
	n     int
	chunk *idChunk
	place uint32
}

type idChunk [idChunkEntries]atomic.Uint32

// idSealBytes is the memory of a sealedIDs with its sums.
const idSealBytes = 24 + 48 + idChunkEntries*4/sealBlock*4

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

// local returns the local id of a series of the shard. It is for use within vfs.Guard: a chunk may be mapped.
func (s *shardIDs) local(id series.ID) (uint32, bool) {
	chunks := s.chunks.Load()
	if chunks == nil || int(id/idChunkEntries) >= len(*chunks) {
		return 0, false
	}
	c := (*chunks)[id/idChunkEntries]
	entry := c[id%idChunkEntries].Load()
	return entry - 1, entry != 0
}

// find returns the local id of a series of the shard. Rotten is the seal of its chunk, if that is mapped and not
// what it was: then the answer means nothing.
func (s *shardIDs) find(id series.ID) (local uint32, ok bool, rotten *sealedIDs) {
	sealed := s.sealed(int(id / idChunkEntries)) // before the chunk: who finds none reads memory
	err := vfs.Guard(func() error {
		local, ok = s.local(id)
		if at := int(id % idChunkEntries * 4); sealed != nil && !sealed.intact(at, at+4) {
			rotten = sealed
		}
		return nil
	})
	if err != nil {
		return 0, false, sealed
	}
	return local, ok, rotten
}

func (s *shardIDs) sealed(n int) *sealedIDs {
	if seals := s.seals.Load(); seals != nil && n < len(*seals) {
		return (*seals)[n]
	}
	return nil
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
// there is another one: then it returns false. It may run beside set for other ids.
func (s *shardIDs) set(id series.ID, local uint32) bool {
	entry := &(*s.chunks.Load())[id/idChunkEntries][id%idChunkEntries]
	if known := entry.Load(); known != 0 { // the chunk may be mapped, and is not to be written then
		return known == local+1
	}
	return entry.CompareAndSwap(0, local+1)
}

// setOver is set, over a record that was dropped. It is for Open.
func (s *shardIDs) setOver(id series.ID, local uint32, dropped *bitSet) bool {
	if before, known := s.local(id); known && before != local && dropped.has(before) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.put(id, local)
		return true
	}
	return s.set(id, local)
}

// put stores the local id of id, whatever there was, while no other is stored. A chunk that is mapped is copied, and
// written again by the next Sync. The caller holds mu, or nobody else reads yet.
func (s *shardIDs) put(id series.ID, local uint32) {
	n := int(id / idChunkEntries)
	c := (*s.chunks.Load())[n]
	sealed := s.sealed(n)
	if sealed == nil {
		c[id%idChunkEntries].Store(local + 1)
		return
	}
	c = new(idChunk)
	for i := range c {
		c[i].Store(sealed.chunk[i].Load())
	}
	c[id%idChunkEntries].Store(local + 1)
	s.healLocked(n, sealed, c)
}

// fillGap takes an id off those that never had a record.
func (s *shardIDs) fillGap() {
	if n := s.gaps.Load(); n > 0 {
		s.gaps.Store(n - 1)
	}
}

// adopt makes room for ids below end with chunks that are persisted, by their number. It is for Open.
func (s *shardIDs) adopt(end uint32, persisted map[uint32]*sealedIDs) {
	chunks := make([]*idChunk, (uint64(end)+idChunkEntries-1)/idChunkEntries)
	seals := make([]*sealedIDs, len(chunks))
	s.persisted = make([]bool, len(chunks))
	for n := range chunks {
		if c := persisted[uint32(n)]; c != nil {
			chunks[n], seals[n], s.persisted[n] = c.chunk, c, true
			s.mapped.Add(1)
		} else {
			chunks[n] = new(idChunk)
		}
	}
	s.seals.Store(&seals)
	s.chunks.Store(&chunks)
}

// unpersisted visits the chunks that are full of series below count and have no copy in the file of
// ids. The caller holds Index.syncing.
func (s *shardIDs) unpersisted(count uint32, gone *Forgotten, visit func(n int, c *idChunk)) {
	next := s.next.Load()
	chunks := s.chunks.Load()
	if chunks == nil {
		return
	}
	for n, c := range *chunks {
		if n == len(s.persisted) {
			s.persisted = append(s.persisted, false)
		}
		if s.persisted[n] || uint64(n+1)*idChunkEntries > uint64(next) {
			continue
		}
		if c.complete(count, func(i int) bool { return gone.Has(uint32(n*idChunkEntries + i)) }) {
			visit(n, c)
		}
	}
}

// complete reports whether a chunk has a series for each id that is no gap, and all are below count.
func (c *idChunk) complete(count uint32, gap func(i int) bool) bool {
	for i := range c {
		if entry := c[i].Load(); entry == 0 && !gap(i) || entry > count {
			return false
		}
	}
	return true
}

// missing returns how many ids of a chunk have no local id, of those that are no gaps.
func (c *idChunk) missing(gap func(i int) bool) (n int) {
	for i := range c {
		if c[i].Load() == 0 && !gap(i) {
			n++
		}
	}
	return n
}

// missing returns how many ids that were given have no local id, or more: gaps may be among them. In chunks that are persisted
// only those may have one whose first records were dropped.
func (s *shardIDs) missing(gone *Forgotten, dropped *bitSet) (n uint32) {
	next, some := s.next.Load(), dropped.ones.Load() > 0
	for number, c := range *s.chunks.Load() {
		persisted := number < len(s.persisted) && s.persisted[number]
		if persisted && !some {
			continue
		}
		for i := range c {
			id, entry := uint32(number*idChunkEntries+i), c[i].Load()
			known := entry != 0 && !dropped.has(entry-1)
			if id < next && !known && (!persisted || entry != 0 && !gone.Has(id)) {
				n++
			}
		}
	}
	return n
}

// persist puts copies of chunks in their places. The caller holds Index.syncing.
func (s *shardIDs) persist(copies map[uint32]*sealedIDs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chunks, seals := slices.Clone(*s.chunks.Load()), make([]*sealedIDs, len(*s.chunks.Load()))
	if before := s.seals.Load(); before != nil {
		copy(seals, *before)
	}
	for n, c := range copies {
		s.persisted[n] = true
		same := true
		_ = vfs.Guard(func() error { same = c.same(chunks[n]); return nil })
		if !same { // one of its ids has got another record meanwhile
			s.healed = append(s.healed, healedIDs{int(n), chunks[n], c.place})
			continue
		}
		chunks[n], seals[n] = c.chunk, c
		s.mapped.Add(1)
	}
	s.seals.Store(&seals)
	s.chunks.Store(&chunks)
}

// same reports whether a chunk in memory is what was written.
func (s *sealedIDs) same(c *idChunk) bool {
	for i := range c {
		if c[i].Load() != s.chunk[i].Load() {
			return false
		}
	}
	return true
}

// replace puts a chunk in memory in the place of one that is mapped and rotten, and reports whether it has.
func (s *shardIDs) replace(n int, rotten *sealedIDs, c *idChunk) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed(n) != rotten {
		return false // somebody else was faster
	}
	s.healLocked(n, rotten, c)
	return true
}

// healLocked puts a chunk in memory in the place of one that is mapped, to be written again.
func (s *shardIDs) healLocked(n int, rotten *sealedIDs, c *idChunk) {
	chunks, seals := slices.Clone(*s.chunks.Load()), slices.Clone(*s.seals.Load())
	chunks[n], seals[n] = c, nil
	s.mapped.Add(-1)
	s.chunks.Store(&chunks)
	s.seals.Store(&seals)
	s.healed = append(s.healed, healedIDs{n, c, rotten.place})
}

// takeHealed returns what is to be written again.
func (s *shardIDs) takeHealed() []healedIDs {
	s.mu.Lock()
	defer s.mu.Unlock()
	healed := s.healed
	s.healed = nil
	return healed
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

// bytes returns the memory of the array.
func (s *shardIDs) bytes() int64 {
	p := s.chunks.Load()
	if p == nil {
		return 0
	}
	n := int64(len(*p)) - s.mapped.Load()
	return n*idChunkEntries*4 + int64(len(*p))*16 + s.mapped.Load()*idSealBytes
}

func idChunkOf(payload []byte) *idChunk {
	return (*idChunk)(unsafe.Pointer(unsafe.SliceData(payload[idHeadBytes : idHeadBytes+idChunkBytes])))
}

func sealIDs(n uint32, payload []byte) *sealedIDs {
	return &sealedIDs{seal: newSeal(payload[idHeadBytes : idHeadBytes+idChunkBytes]), chunk: idChunkOf(payload), place: n}
}
