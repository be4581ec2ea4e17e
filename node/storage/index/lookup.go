package index

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Resolve finds a series. Hint is the Hint of the Ref that the same writer got
// before, or LocalNone: the fields of one line are created together, so the next
// series is tried first. A wrong guess costs up to two cache misses, so a writer
// whose last guesses failed does better with LocalNone, and one that has many
// keys at hand with ResolveBatch. It takes no lock and does not allocate.
//
// It must be called inside vfs.Guard, once for many calls: it reads mapped memory.
func (x *Index) Resolve(hint uint32, key series.Key) (series.Ref, bool) {
	// LocalNone+1 is 0: the first series is as good a guess as any.
	if next := hint + 1; next < x.keys.count.Load() {
		if record := x.keys.record(next); record != nil && recordHasKey(record, key) {
			// What is hidden may become a hole: it is asked when all is read.
			if ref := recordRef(record); !x.keys.hidden.has(next) {
				return ref, true
			}
		}
	}
	hash := x.table.hash(key)
	for {
		persisted := x.table.persisted.Load()
		if persisted != nil {
			p := persisted.probe(hash)
			ref, ok := x.keys.follow(&p, key)
			intact := ok || persisted.intact(hash)
			runtime.KeepAlive(persisted)
			if ok {
				return ref, true
			}
			if !intact {
				x.dropTable(persisted)
				continue
			}
		}
		p := x.table.stripe(hash).probe(hash)
		if ref, ok := x.keys.follow(&p, key); ok {
			return ref, true
		}
		if x.table.persisted.Load() == persisted {
			return series.Ref{}, false
		}
	}
}

// follow returns the first series with a key of those that a probe leads to and that are not hidden.
func (f *keyFile) follow(p *probe, key series.Key) (ref series.Ref, ok bool) {
	for {
		place, ok := p.next()
		if !ok {
			return series.Ref{}, false
		}
		if record := f.recordAt(place); record != nil && recordHasKey(record, key) {
			if ref, ok := f.ref(record, place, key); ok && !f.hidden.has(ref.Hint) {
				return ref, true
			}
		}
	}
}

// Lookup finds a series as Resolve does, with a guard of its own.
func (x *Index) Lookup(key series.Key) (ref series.Ref, ok bool, err error) {
	err = x.Guard(func() error {
		ref, ok = x.Resolve(LocalNone, key)
		return nil
	})
	if local, known := x.Local(ref.Shard, ref.ID); !known || local != ref.Hint {
		return series.Ref{}, false, err // the record is damaged where its key is not
	}
	return ref, ok, err
}

// Local returns the local id of a shard's series. One that cannot be read, and not be learned again, is not known.
func (x *Index) Local(shard uint16, id series.ID) (local uint32, ok bool) {
	ids := x.shards.get(shard)
	if ids == nil {
		return 0, false
	}
	local, ok, rotten := ids.find(id)
	if rotten != nil {
		x.relearn(shard, ids, int(id/idChunkEntries), rotten)
		local, ok, rotten = ids.find(id)
	}
	return local, ok && rotten == nil && uint32(id) < ids.next.Load() && !x.keys.dropped.has(local)
}

// relearn puts a chunk of local ids together from the keys when its file does not read as before. The next Sync
// writes the chunk again.
func (x *Index) relearn(shard uint16, ids *shardIDs, n int, rotten *sealedIDs) {
	x.keys.healAll()
	filter, c := x.keys.inShards([]uint16{shard}), new(idChunk)
	err := vfs.Guard(func() error {
		for local := range x.keys.count.Load() {
			if !filter.has(local) {
				continue
			}
			record := x.keys.record(local)
			if record == nil || x.keys.dropped.has(local) || int(recordID(record)/idChunkEntries) != n {
				continue
			}
			if record, ok := cutRecord(record); ok && validRecord(record, local) {
				c[recordID(record)%idChunkEntries].CompareAndSwap(0, local+1)
			}
		}
		return nil
	})
	if err == nil && ids.replace(n, rotten, c) {
		gone := x.forgets.of(shard)
		x.keys.damages.Add(int64(c.missing(func(i int) bool { return gone.Has(uint32(n*idChunkEntries + i)) }))) // the chunk stays in memory, and the next start reads all keys
		x.damaged(&CorruptError{File: x.persister.ids.name, Offset: x.persister.ids.place(rotten.place), What: fmt.Sprintf(
			"it reads otherwise than before: ids %d to %d of shard %d are built again from the keys", n*idChunkEntries, (n+1)*idChunkEntries-1, shard)})
	}
}

// Key appends the key of a series to dst. Errors: ErrUnknown, ErrForgotten, *CorruptError,
// *vfs.FaultError.
func (x *Index) Key(local uint32, dst []byte) (series.Key, error) {
	if local >= x.keys.count.Load() {
		return dst, fmt.Errorf("%w: %d of %d", ErrUnknown, local, x.keys.count.Load())
	}
	err := x.Guard(func() error {
		record, err := x.keys.intact(local)
		if err == nil {
			dst = append(dst, recordKey(record)...)
		}
		return err
	})
	if err == nil && x.keys.dropped.has(local) { // meanwhile: what was read may be a hole already
		err = unknownLocal(local)
	}
	return dst, err
}

// KeyOf appends the key of a shard's series to dst. Errors: as Key.
func (x *Index) KeyOf(shard uint16, id series.ID, dst []byte) (series.Key, error) {
	local, ok := x.Local(shard, id)
	if !ok {
		return dst, fmt.Errorf("%w: id %d of shard %d", ErrUnknown, id, shard)
	}
	return x.Key(local, dst)
}

// Refs appends the shard and id of each local id to dst, but for records that were dropped since; Hint is the local id.
// Errors: as Key.
func (x *Index) Refs(locals []uint32, dst []series.Ref) ([]series.Ref, error) {
	count, before := x.keys.count.Load(), len(dst)
	err := x.Guard(func() error {
		dst = dst[:before]
		for _, local := range locals {
			if local >= count {
				return fmt.Errorf("%w: %d of %d", ErrUnknown, local, count)
			}
			record, err := x.keys.intact(local)
			if err != nil && x.keys.dropped.has(local) {
				continue
			}
			if err != nil {
				return err
			}
			if ref := recordRef(record); !x.keys.dropped.has(local) {
				dst = append(dst, ref)
			}
		}
		return nil
	})
	return dst, err
}

// Guard runs a function that reads mapped memory, as vfs.Guard does. What fails by a file that follows from the keys
// is built again, and the function runs once more.
func (x *Index) Guard(read func() error) error {
	err := vfs.Guard(read)
	var fault *vfs.FaultError
	if !errors.As(err, &fault) {
		return err
	}
	healed := x.keys.healAll()
	if t := x.table.persisted.Load(); t != nil && !t.seal.bytesIntact(0, len(t.seal.bytes)) {
		dropped := vfs.Guard(func() error {
			x.dropTable(t)
			return nil
		})
		healed = healed || dropped == nil
	}
	if healed {
		err = vfs.Guard(read)
	}
	return err
}

// dropTable puts entries in memory, made again from the keys, in the place of a persisted table that is not what it
// was. The next Sync writes another one. No stripe is locked by the caller. It must be called inside vfs.Guard: while
// a key cannot be read the table stays, as without it and the key a series would count as unknown.
func (x *Index) dropTable(rotten *persistedTable) {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	x.dropTableSyncing(rotten)
}

// dropTableSyncing is dropTable for who holds syncing.
func (x *Index) dropTableSyncing(rotten *persistedTable) {
	if rotten == nil || x.table.persisted.Load() != rotten {
		return // another reader was faster
	}
	for ; rotten.again < rotten.count; rotten.again++ {
		record, err := x.keys.intact(rotten.again)
		if err != nil {
			continue // it is lost, or its damage was counted
		}
		hash, place := x.table.hash(recordKey(record)), x.keys.offset(rotten.again)
		s := x.table.stripe(hash)
		s.mu.Lock()
		s.makeRoomLocked()
		s.insertLocked(hash, place)
		s.mu.Unlock()
	}
	x.damaged(&CorruptError{File: rotten.held.mapping.Name(), What: fmt.Sprintf(
		"it reads otherwise than before: the hashes of %d series are built again from the keys", rotten.count)})
	x.table.persisted.Store(nil) // after the entries are there: see Resolve
	runtime.KeepAlive(rotten)
}
