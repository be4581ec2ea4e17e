package index

import (
	"errors"
	"fmt"
	"path"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// fillSlice is how many series a worker takes at a time.
const fillSlice = 1 << 14

// fill builds the hash table and the arrays of the shards from the records.
// Should two records claim one identity, it begins again with one worker, so that
// the earlier one wins.
func (x *Index) fill(o *Options) error {
	conflicts, err := x.fillWith(o, 0, o.Workers, func(uint32, string) {})
	if err == nil && conflicts {
		x.table = &table{seed: x.table.seed, mask: x.table.mask}
		x.shards = shardTable{}
		_, err = x.fillWith(o, 0, 1, func(local uint32, what string) {
			o.Corrupt(&CorruptError{
				File: x.keys.file.Name(), Offset: x.keys.offset(local), What: fmt.Sprintf("series %d %s", local, what),
			})
			x.keys.setLost(local)
		})
	}
	x.countLost(0, o.State.Count)
	return err
}

// countLost counts the series from lo to hi (excluded) whose records are lost.
func (x *Index) countLost(lo, hi uint32) {
	for local := lo; local < hi; local++ {
		if x.keys.record(local) == nil && !x.keys.dropped.has(local) {
			x.lost.Add(1)
		}
	}
}

// loadPersisted takes what is persisted from its files, and fills in what has come since. If that cannot be
// done without doubt, it takes nothing and returns false.
func (x *Index) loadPersisted(o *Options) (ok bool, err error) {
	found, err := x.persister.openOffsets(o, x.keys.dropped)
	if err == nil {
		ok, err = x.keys.scanAfter(o, found.chunks, found.seals)
	}
	if err != nil || !ok {
		reportUnusable(o, err)
		return false, x.dropPersisted(o)
	}
	ids, err := x.persister.openIDs(o, &x.forgets)
	if err != nil {
		reportUnusable(o, err)
	}
	for shard, chunks := range ids {
		x.shards.make(shard).adopt(o.State.Next[shard], chunks)
	}
	if s := o.State.Persisted.Table; s != nil {
		t, err := openPersistedTable(o.FS, path.Join(o.Dir, tableFile(s.File)), s.Count, o.State.Bytes)
		if err == nil {
			t.file, x.table.seed = s.File, t.seed
			x.table.persisted.Store(t)
		} else {
			reportUnusable(o, err)
		}
	}
	from := uint32(0)
	if t := x.table.persisted.Load(); t != nil {
		from = t.count
	}
	conflicts, err := x.fillWith(o, from, o.Workers, func(uint32, string) {})
	if err == nil && !conflicts {
		conflicts, err = x.fillIDs(from)
	}
	if err != nil || conflicts {
		reportUnusable(o, err)
		return false, x.dropPersisted(o)
	}
	x.lost.Add(found.lost)
	x.countLost(o.State.Persisted.Offsets*offsetChunk, o.State.Count)
	x.persister.files = max(x.persister.files, o.State.Persisted.Files)
	parts := x.persister.openParts(o)
	x.parts.parts.Store(&parts)
	return true, nil
}

// dropPersisted undoes what loadPersisted has done.
func (x *Index) dropPersisted(o *Options) error {
	err := x.closePersisted()
	files, existing := x.persister.files, x.persister.existing
	x.persister = newPersister(o)
	x.persister.files, x.persister.existing = files, existing
	x.table, x.shards = &table{seed: x.table.seed, mask: x.table.mask}, shardTable{}
	x.parts = newPartList(x.keys, x.damaged)
	x.keys.offsets.Store(nil)
	x.keys.seals.Store(nil)
	return err
}

// closePersisted unmaps all. Nobody may read any more.
func (x *Index) closePersisted() error {
	errs := []error{x.persister.offsets.close(), x.persister.ids.close()}
	if t := x.table.persisted.Load(); t != nil {
		errs = append(errs, t.held.close())
	}
	if x.parts != nil {
		for _, p := range *x.parts.parts.Load() {
			errs = append(errs, p.held.close())
		}
	}
	return errors.Join(errs...)
}

// fillIDs finds the local ids of series before one that the file of ids does not have: mostly the
// last few of each shard.
func (x *Index) fillIDs(before uint32) (conflicts bool, err error) {
	missing, left := make([]uint32, 1<<16), uint32(0)
	x.shards.each(func(shard uint16, ids *shardIDs) {
		missing[shard] = ids.missing(x.forgets.of(shard), x.keys.dropped)
		left += missing[shard]
	})
	err = vfs.Guard(func() error {
		for local := before; local > 0 && left > 0; {
			local--
			if x.keys.dropped.has(local) {
				continue
			}
			shard := x.keys.shard(local)
			if missing[shard] == 0 {
				continue
			}
			record := x.keys.record(local)
			if record == nil {
				continue // it is lost
			}
			record, ok := cutRecord(record)
			ids := x.shards.get(shard)
			if !ok || !validRecord(record, local) || recordShard(record) != shard || uint32(recordID(record)) >= ids.next.Load() {
				conflicts = true
				return nil
			}
			if before, known := ids.local(recordID(record)); !known || x.keys.dropped.has(before) {
				ids.put(recordID(record), local)
				missing[shard]--
				left--
			}
		}
		return nil
	})
	return conflicts, err
}

func (x *Index) fillWith(o *Options, from uint32, workers int, refuse func(local uint32, what string)) (conflicts bool, err error) {
	for shard, next := range o.State.Next {
		if next > 0 {
			ids := x.shards.make(uint16(shard))
			ids.raiseNext(next)
			ids.gaps.Store(o.State.gapsOf(shard))
			ids.growLocked(next) // no larger than Count, see State.check
		}
	}
	count := uint64(o.State.Count - from)
	x.table.reserve(int(count))
	var bad atomic.Bool
	err = parallel(workers, int((count+fillSlice-1)/fillSlice), func(i int) error {
		return vfs.Guard(func() error {
			for n := uint64(i) * fillSlice; n < min(uint64(i+1)*fillSlice, count); n++ {
				local := from + uint32(n)
				record := x.keys.record(local)
				if record == nil || x.keys.dropped.has(local) {
					continue
				}
				if what := x.fillOne(local, record, &o.State); what != "" {
					bad.Store(true)
					refuse(local, what)
				}
			}
			return nil
		})
	})
	return bad.Load(), err
}

func (x *Index) fillOne(local uint32, record []byte, state *State) (what string) {
	key, shard, id := recordKey(record), recordShard(record), recordID(record)
	if int(shard) >= len(state.Next) || uint32(id) >= state.Next[shard] {
		return fmt.Sprintf("has id %d of shard %d, which was not given", id, shard)
	}
	hash := x.table.hash(key)
	s := x.table.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !x.forgets.has(shard, id) { // one that is forgotten may come back: see ReplaceForgotten
		others, err := x.recordsLocked(s, hash, key)
		if err != nil {
			return err.Error() // fillWith is told, and begins again without the table
		}
		self := recordRef(record)
		for i := range others {
			if !x.forgets.explains(&self, &others[i]) {
				return fmt.Sprintf("has the key of series %d", others[i].Hint)
			}
		}
	}
	if !x.shards.get(shard).setOver(id, local, x.keys.dropped) {
		return fmt.Sprintf("is a second one for id %d of shard %d", id, shard)
	}
	s.makeRoomLocked()
	s.insertLocked(hash, x.keys.offset(local))
	return ""
}
