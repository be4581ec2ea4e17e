package index

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

var (
	// errTableRotten: the persisted table is not what it was, so that it does not tell who is missing.
	errTableRotten = errors.New("the hash table does not read as before")
	// errIDsRotten: it is not known which series has an id.
	errIDsRotten = errors.New("the local ids of a shard do not read as before")
)

// othersLocked returns the records of a key while its stripe is locked: mostly none.
func (x *Index) othersLocked(s *stripe, hash uint64, key series.Key) (list []series.Ref, err error) {
	err = vfs.Guard(func() error {
		list, err = x.recordsLocked(s, hash, key)
		return err
	})
	return list, err
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
