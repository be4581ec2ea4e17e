package index

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/tickmesh/tickmesh/api/series"
)

// The hash table has a persisted table, which is a mapped file, and stripes in memory for the series
// that came since it was written. A reader who finds a key in neither looks again if the persisted
// table was replaced meanwhile: the entries of a stripe go only after that.
//
// The part in memory is cut into stripes by the top bits of the hash, each an
// open-addressing table of its own, so that creators seldom meet and growth
// copies a 256th of the whole at a time. A slot is 0 when empty, else
//
//	24 bits of the hash · 40 bits: where the key's record is in the file
//
// A slot's home is its hash bits scaled to the size of the stripe, which lets a
// stripe grow by a quarter, without reading a key. Slots are written once:
// readers need no lock.
const (
	stripeBits     = 8
	stripesCount   = 1 << stripeBits
	stripeSlotsMin = 16
	slotPlaceBits  = 40
	slotPlaceMask  = 1<<slotPlaceBits - 1
	slotHashBits   = 64 - slotPlaceBits
	// A stripe grows at 7/8: linear probing then costs about 4 slots, half a
	// cache line, to find what is there.
	loadNumerator, loadDenominator = 7, 8
)

type table struct {
	seed      uint64
	mask      uint64 // all ones, but in tests that want collisions
	persisted atomic.Pointer[persistedTable]
	stripes   [stripesCount]stripe
}

type stripe struct {
	slots atomic.Pointer[[]atomic.Uint64]
	mu    struct {
		sync.Mutex
		used int
	}
	_ [40]byte // a cache line each
}

func newTable() *table {
	return &table{seed: rand.Uint64(), mask: ^uint64(0)}
}

// reserve makes every stripe large enough for its share of count entries. It is
// for Open, before anyone else uses the table.
func (t *table) reserve(count int) {
	share := count / stripesCount
	share += share/16 + 16 // the hash is not quite even
	for i := range t.stripes {
		slots := make([]atomic.Uint64, max(stripeSlotsMin, share*loadDenominator/loadNumerator+1))
		t.stripes[i].slots.Store(&slots)
	}
}

func (t *table) hash(key series.Key) uint64 { return xxh3.HashSeed(key, t.seed) & t.mask }

func (t *table) stripe(hash uint64) *stripe { return &t.stripes[hash>>(64-stripeBits)] }

// tag returns the bits of a hash that a slot has, where the slot has them.
func tag(hash uint64) uint64 { return hash << slotPlaceBits }

// home returns where a slot wants to be.
func home(slot uint64, slots int) int {
	return int(slot >> slotPlaceBits * uint64(slots) >> slotHashBits)
}

// probe walks the candidates for one hash.
type probe struct {
	slots []atomic.Uint64
	tag   uint64
	at    int
	seen  int // slots, at most all of them
}

func (s *stripe) probe(hash uint64) probe {
	p := probe{tag: tag(hash)}
	if slots := s.slots.Load(); slots != nil {
		p.slots = *slots
		p.at = home(p.tag, len(p.slots))
	}
	return p
}

// next returns the next place whose hash bits agree.
func (p *probe) next() (place int64, ok bool) {
	for uint(p.at) < uint(len(p.slots)) && p.seen < len(p.slots) {
		slot := p.slots[p.at].Load()
		if slot == 0 {
			return 0, false
		}
		p.at++
		p.seen++
		if p.at == len(p.slots) {
			p.at = 0
		}
		if (slot^p.tag)>>slotPlaceBits == 0 {
			return int64(slot & slotPlaceMask), true
		}
	}
	return 0, false
}

// slot loads the slot that next looks at first.
func (p *probe) slot() uint64 {
	if uint(p.at) < uint(len(p.slots)) {
		return p.slots[p.at].Load()
	}
	return 0
}

// makeRoomLocked grows the stripe when one more entry would be too many.
func (s *stripe) makeRoomLocked() {
	var before []atomic.Uint64
	if slots := s.slots.Load(); slots != nil {
		before = *slots
	}
	if (s.mu.used+1)*loadDenominator <= len(before)*loadNumerator {
		return
	}
	grown := make([]atomic.Uint64, max(stripeSlotsMin, len(before)+len(before)/4))
	for i := range before {
		if slot := before[i].Load(); slot != 0 {
			put(grown, slot)
		}
	}
	s.slots.Store(&grown)
}

// insertLocked adds an entry; makeRoomLocked has made room.
func (s *stripe) insertLocked(hash uint64, place int64) {
	put(*s.slots.Load(), tag(hash)|uint64(place))
	s.mu.used++
}

func put(slots []atomic.Uint64, slot uint64) {
	at := home(slot, len(slots))
	for slots[at].Load() != 0 {
		at++
		if at == len(slots) {
			at = 0
		}
	}
	slots[at].Store(slot)
}

// takePersisted puts another persisted table in place, and drops from the stripes what it has: the records
// that lie before a place in the file of keys.
func (t *table) takePersisted(persisted *persistedTable, end int64) {
	t.persisted.Store(persisted)
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		kept := s.entriesLocked(end, slotPlaceMask+1)
		slots := make([]atomic.Uint64, max(stripeSlotsMin, (len(kept)+1)*loadDenominator/loadNumerator+1))
		for _, slot := range kept {
			put(slots, slot)
		}
		s.slots.Store(&slots)
		s.mu.used = len(kept)
		s.mu.Unlock()
	}
}

// entriesLocked returns the slots of the records from one place to another (excluded).
func (s *stripe) entriesLocked(from, end int64) (list []uint64) {
	slots := s.slots.Load()
	if slots == nil {
		return nil
	}
	for i := range *slots {
		slot := (*slots)[i].Load()
		if place := int64(slot & slotPlaceMask); slot != 0 && place >= from && place < end {
			list = append(list, slot)
		}
	}
	return list
}

// size returns the number of entries and slots in memory.
func (t *table) size() (used, slots int) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		used += s.mu.used
		if p := s.slots.Load(); p != nil {
			slots += len(*p)
		}
		s.mu.Unlock()
	}
	return used, slots
}
