package index

import (
	"math/bits"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

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
