package index

import (
	"fmt"
	"math/bits"
	"runtime"
	"slices"
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

// ForgottenOf returns which ids of a shard are forgotten, for the life of the Index.
func (x *Index) ForgottenOf(shard uint16) *Forgotten { return x.forgets.of(shard) }

// Known returns the number of series that are not forgotten.
func (x *Index) Known() int64 { return int64(x.Len()) - x.forgets.hidden.ones.Load() }

// Forget forgets series of a shard by an entry of its log: ids that were given. From now on they are
// not found by their keys, nor by queries. The caller holds the lock of the shard. After an error it may be
// repeated. Errors: *CorruptError, *vfs.FaultError.
func (x *Index) Forget(shard uint16, ids []uint32, entry uint64) error {
	var locals []uint32
	for _, id := range ids {
		if local, ok := x.Local(shard, series.ID(id)); ok {
			locals = append(locals, local)
		}
	}
	f := &x.forgets
	f.mu.Lock()
	of := f.ofLocked(shard)
	for _, id := range ids {
		delete(of.later, id)
		if !of.set.has(id) {
			of.recent[id] = entry
			of.set.set(id)
			f.changed = true
		}
	}
	for _, local := range locals {
		f.hidden.set(local)
	}
	twins := len(f.twins) > 0
	f.mu.Unlock()
	if twins {
		for _, local := range locals {
			if err := x.chooseRecord(local); err != nil {
				return err
			}
		}
	}
	x.activity.empty(locals) // their marks go with the next checkpoint
	return nil
}

// Awaited reports whether a start is to apply entries again that have forgotten ids, up to one. It takes no lock.
func (f *Forgotten) Awaited(entry uint64) bool {
	first := f.awaited.Load()
	return first != 0 && first <= entry
}

// EndAwaited is told that a shard has applied an entry: what it or those before have not forgotten is not forgotten. That is so where the
// log has lost its end, and numbers are used again.
func (x *Index) EndAwaited(shard uint16, entry uint64) {
	f := &x.forgets
	f.mu.Lock()
	defer f.mu.Unlock()
	of, first := f.ofLocked(shard), uint64(0)
	for id, by := range of.later {
		switch {
		case by <= entry:
			delete(of.later, id)
			f.changed = true
		case first == 0 || by < first:
			first = by
		}
	}
	of.awaited.Store(first)
}

// ForgottenBetween returns what entries of a shard have forgotten, from one to another, that a start was to apply again.
func (x *Index) ForgottenBetween(shard uint16, first, last uint64) (ids []uint32) {
	x.forgets.mu.Lock()
	defer x.forgets.mu.Unlock()
	for id, entry := range x.forgets.ofLocked(shard).later {
		if entry >= first && entry <= last {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// FinalizeForgotten is told the last entry of each shard that no start applies again.
func (x *Index) FinalizeForgotten(applied []uint64) error {
	f := &x.forgets
	f.mu.Lock()
	changed := false
	var final []series.Ref
	for shard, of := range f.shards {
		for id, entry := range of.recent {
			if int(shard) < len(applied) && entry <= applied[shard] {
				delete(of.recent, id)
				changed = true
				final = append(final, series.Ref{Shard: shard, ID: series.ID(id)})
			}
		}
	}
	twins := make([]uint32, 0, len(f.twins))
	for local := range f.twins {
		twins = append(twins, local)
	}
	f.mu.Unlock()
	if !changed {
		return nil
	}
	x.noteFinal(final)
	for _, local := range twins {
		if err := x.dropTwin(local); err != nil {
			return err
		}
	}
	return nil
}

// noteFinal notes that series are forgotten for good.
func (x *Index) noteFinal(final []series.Ref) {
	var locals []uint32
	for i := range final {
		if local, ok := x.Local(final[i].Shard, final[i].ID); ok {
			locals = append(locals, local)
		}
	}
	f := &x.forgets
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.noHoles {
		f.final = append(f.final, locals...)
	}
}

// dropTwin takes a record out of the twins if all of its key before it are forgotten for good.
func (x *Index) dropTwin(local uint32) error {
	list, err := x.recordsLike(local)
	if err != nil {
		return err
	}
	f := &x.forgets
	f.mu.Lock()
	defer f.mu.Unlock()
	self := slices.IndexFunc(list, func(r series.Ref) bool { return r.Hint == local })
	for i := range list {
		if self < 0 || list[i].ID < list[self].ID && !f.finalLocked(&list[i]) {
			return nil
		}
	}
	delete(f.twins, local)
	f.changed = true
	return nil
}

// finalLocked reports whether a record is forgotten for good.
func (f *forgets) finalLocked(r *series.Ref) bool {
	of := f.ofLocked(r.Shard)
	_, recent := of.recent[uint32(r.ID)]
	return of.set.has(uint32(r.ID)) && !recent
}

// chooseRecord hides of all records with the key of one those that it does not mean.
func (x *Index) chooseRecord(local uint32) error {
	list, err := x.recordsLike(local)
	if err != nil {
		return err
	}
	f := &x.forgets
	f.mu.Lock()
	defer f.mu.Unlock()
	chosen := false
	for i := range list {
		if !chosen && !f.ofLocked(list[i].Shard).set.has(uint32(list[i].ID)) {
			f.hidden.clear(list[i].Hint)
			chosen = true
		} else {
			f.hidden.set(list[i].Hint)
		}
	}
	return nil
}

// recordsLike returns all records that the hash table has with the key of one, which is among them, by growing id.
func (x *Index) recordsLike(local uint32) (list []series.Ref, err error) {
	key, err := x.Key(local, nil)
	if err != nil {
		return nil, err
	}
	hash := x.table.hash(key)
	err = x.Guard(func() error {
		for {
			persisted := x.table.persisted.Load()
			list = x.collectRecords(list[:0], persisted, x.table.stripe(hash), hash, key)
			rotten := persisted != nil && !persisted.intact(hash)
			runtime.KeepAlive(persisted)
			if rotten {
				x.dropTable(persisted)
			} else if x.table.persisted.Load() == persisted {
				break
			}
		}
		self := x.keys.record(local)
		if self == nil {
			return fmt.Errorf("%w: the record of series %d is lost", ErrUnknown, local)
		}
		if ref := recordRef(self); !slices.Contains(list, ref) {
			list = append(list, ref)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b series.Ref) int { return int(int64(a.ID) - int64(b.ID)) })
	return list, err
}

// collectRecords appends the records of a key in the persisted table and a stripe, those that are hidden too, each once.
func (x *Index) collectRecords(list []series.Ref, persisted *persistedTable, s *stripe, hash uint64, key series.Key) []series.Ref {
	collect := func(p probe) {
		for place, ok := p.next(); ok; place, ok = p.next() {
			if record := x.keys.recordAt(place); record != nil && recordHasKey(record, key) {
				ref, ok := x.keys.ref(record, place, key)
				if ok && !x.keys.dropped.has(ref.Hint) && !slices.Contains(list, ref) {
					list = append(list, ref)
				}
			}
		}
	}
	if persisted != nil {
		collect(persisted.probe(hash))
	}
	collect(s.probe(hash))
	return list
}

// recordsLocked is collectRecords while the stripe is locked. Error: errTableRotten.
func (x *Index) recordsLocked(s *stripe, hash uint64, key series.Key) (list []series.Ref, err error) {
	persisted := x.table.persisted.Load()
	list = x.collectRecords(nil, persisted, s, hash, key)
	if persisted != nil && !persisted.intact(hash) {
		err = errTableRotten
	}
	runtime.KeepAlive(persisted)
	return list, err
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

// Unmarked visits series without a mark on any of days, from one on, until visit returns false: of up to most series that it
// looks at. It returns the series that it would look at next. Of those whose samples it is not known to have marked, none
// is visited.
func (x *Index) Unmarked(from, most uint32, days Days, visit func(shard uint16, id series.ID) bool) (next uint32) {
	count := x.keys.count.Load()
	end := uint32(min(uint64(from)+uint64(most), uint64(count)))
	v := x.activity.view(days)
	for next = from; next < end; {
		w := ^v.word(next&^63) &^ x.forgets.hidden.word(next&^63) >> (next % 64) << (next % 64)
		for ; w != 0; w &= w - 1 {
			local := next&^63 + uint32(bits.TrailingZeros64(w))
			if local >= end {
				break
			}
			refs, err := x.Refs([]uint32{local}, nil)
			if err == nil && len(refs) == 1 && !visit(refs[0].Shard, refs[0].ID) {
				return local + 1
			}
		}
		next = min(next&^63+64, end)
	}
	return next
}

// MarkedOn returns what reports whether a series of a shard may have samples on one of days, as long as nobody marks any of
// the shard. One that is not known may.
func (x *Index) MarkedOn(days Days) func(shard uint16, id series.ID) bool {
	v := x.activity.view(days)
	return func(shard uint16, id series.ID) bool {
		local, ok := x.Local(shard, id)
		return !ok || x.forgets.hidden.has(local) || v.has(local)
	}
}
