package index

import (
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
)

// Series are forgotten by an entry of their shard's log. The record of one stays, so that its id means
// its key for ever, but it is neither found by its key nor by a query, and its key gets another id when it
// comes again.
//
// The table on disk is ahead of the entries that a start applies again: it may have a record of a key
// that was forgotten and came again, while the entry that forgot it is still to come. So each id that was
// forgotten has the entry that did it, until a checkpoint has passed that one, and an id whose entry is still to come
// counts as not forgotten. Of several records of a key that are not forgotten the one with the least id is what the key
// means, and the others are its twins: hidden, until what comes before them is forgotten.
type forgets struct {
	hidden  bitSet // by local id: forgotten, or a twin
	dropped bitSet // by local id: forgotten for good, and the record counts for nothing

	mu     sync.Mutex // guards what follows, and each change of the sets
	shards map[uint16]*Forgotten
	// twins are records of which another one of their key, with a lesser id, is not forgotten for good. There may be
	// more in it.
	twins   map[uint32]struct{}
	staged  *stagedForgets
	changed bool
	holders int                 // of keys: see HoldKeys
	final   []uint32            // local ids that are forgotten for good, and may be dropped
	holes   map[uint32]struct{} // blocks of the file of keys with records that are dropped, and not given back
	unsaved bool                // more is dropped than files tell
	noHoles bool                // the file system keeps none
	given   int64               // bytes that were given back to the disk
	files   *ForgottenState     // that have all of it when nothing has changed; nil: there are none
}

// stagedForgets are what a shard is going to have forgotten.
type stagedForgets struct {
	shard uint16
	ids   []uint32
}

// Forgotten are the ids of a shard that are forgotten.
type Forgotten struct {
	set    bitSet
	recent map[uint32]uint64 // by id: its entry, unless a checkpoint has passed it; guarded by forgets.mu
	// later has likewise what is not forgotten yet, and is going to be: a start applies the entry again.
	later   map[uint32]uint64
	begins  bool          // ReplaceForgotten is about to be called; guarded by forgets.mu
	dropped int           // of them whose records are; guarded by forgets.mu
	awaited atomic.Uint64 // the first entry of later; 0: none
}

// Has reports whether an id is forgotten. It takes no lock.
func (f *Forgotten) Has(id uint32) bool { return f.set.has(id) }

// Any reports whether any is, or was.
func (f *Forgotten) Any() bool { return f.set.chunks.Load() != nil }

// Some reports whether any is.
func (f *Forgotten) Some() bool { return f.set.ones.Load() > 0 }

// IDs returns all that are forgotten. The caller keeps others from being forgotten.
func (f *Forgotten) IDs() []uint32 { return f.set.list() }

// Awaited reports whether a start is to apply entries again that have forgotten ids, up to one. It takes no lock.
func (f *Forgotten) Awaited(entry uint64) bool {
	first := f.awaited.Load()
	return first != 0 && first <= entry
}

// ofLocked returns what is forgotten of a shard.
func (f *forgets) ofLocked(shard uint16) *Forgotten {
	of := f.shards[shard]
	if of == nil {
		of = &Forgotten{recent: map[uint32]uint64{}, later: map[uint32]uint64{}}
		f.shards[shard] = of
	}
	return of
}

// of returns what is forgotten of a shard.
func (f *forgets) of(shard uint16) *Forgotten {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ofLocked(shard)
}

// has reports whether an id of a shard is forgotten.
func (f *forgets) has(shard uint16, id series.ID) bool { return f.of(shard).Has(uint32(id)) }

func (f *forgets) hide(local uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hidden.set(local)
}

// finalLocked reports whether a record is forgotten for good.
func (f *forgets) finalLocked(r *series.Ref) bool {
	of := f.ofLocked(r.Shard)
	_, recent := of.recent[uint32(r.ID)]
	return of.set.has(uint32(r.ID)) && !recent
}

// stagedLocked reports whether other series of a shard are going to be forgotten than are.
func (f *forgets) stagedLocked(shard uint16) bool {
	return f.staged != nil && f.staged.shard == shard || f.ofLocked(shard).begins
}

// dropLocked drops a record that is hidden already, at a place of the file of keys.
func (f *forgets) dropLocked(local uint32, shard uint16, place int64) {
	if f.dropped.has(local) {
		return
	}
	f.dropped.set(local)
	f.ofLocked(shard).dropped++
	f.holes[uint32(place>>blockBits)] = struct{}{}
	f.changed, f.unsaved = true, true
}

// addTwin notes a new record of a key that has others, before anybody can see it.
func (f *forgets) addTwin(shard uint16, id series.ID, local uint32, others []series.Ref) {
	if len(others) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range others {
		if others[i].Shard == shard && others[i].ID > id { // the id was a gap
			f.twins[others[i].Hint] = struct{}{}
			f.hidden.set(others[i].Hint)
			f.changed = true
			continue
		}
		if !f.finalLocked(&others[i]) {
			f.twins[local] = struct{}{}
			f.changed = true
		}
		if !f.ofLocked(others[i].Shard).set.has(uint32(others[i].ID)) {
			f.hidden.set(local)
		}
	}
}

// explains reports whether two records of a key may both be there: one of them is forgotten, or a twin.
func (f *forgets) explains(a, b *series.Ref) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, twin := f.twins[max(a.Hint, b.Hint)]
	return twin || f.ofLocked(a.Shard).set.has(uint32(a.ID)) || f.ofLocked(b.Shard).set.has(uint32(b.ID))
}

// stats returns how many series are forgotten, and the memory of their records.
func (f *forgets) stats() (count, bytes int64) {
	const recentBytes = 16
	f.mu.Lock()
	defer f.mu.Unlock()
	bytes = f.hidden.bytes() + f.dropped.bytes() + int64(len(f.twins)+len(f.holes))*recentBytes + int64(len(f.final))*4
	for _, of := range f.shards {
		count += of.set.ones.Load()
		bytes += of.set.bytes() + int64(len(of.recent)+len(of.later))*recentBytes
	}
	return count, bytes
}
