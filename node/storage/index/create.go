package index

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
)

// tagsUsual is how many tags are checked without allocating.
const tagsUsual = 32

// Create adds a series with the id that the engine gave it, the next of its
// shard, and marks it as active on a day. Calls for one shard come in the order
// of its log; different shards may create at the same time. To create what
// exists, with the same identity, changes nothing but the mark. An id whose
// record is lost may be created again.
//
// Errors: ErrConflict, ErrIDGap, ErrFull, series.ErrKey, ErrClosed, and those of
// the disk; after any of them the index is as before and Create may be repeated.
func (x *Index) Create(shard uint16, id series.ID, key series.Key, day Day) (local uint32, err error) {
	return x.create(shard, id, key, day, false)
}

// CreateTwin is Create of a series whose key may have a lesser id, too, that an entry is going to forget which was not
// applied here: until then it is not found.
func (x *Index) CreateTwin(shard uint16, id series.ID, key series.Key, day Day) (local uint32, err error) {
	return x.create(shard, id, key, day, true)
}

func (x *Index) create(shard uint16, id series.ID, key series.Key, day Day, twin bool) (local uint32, err error) {
	var tags [tagsUsual]series.Tag
	if _, _, _, err := key.Parts(tags[:0]); err != nil {
		return 0, err
	}
	if len(key) > series.KeyBytesMax {
		return 0, fmt.Errorf("%w: %d bytes", series.ErrKey, len(key))
	}
	var added bool
	err = x.Guard(func() (err error) {
		local, added, err = x.add(shard, id, key, twin)
		if errors.Is(err, errTableRotten) {
			x.dropTable(x.table.persisted.Load())
			local, added, err = x.add(shard, id, key, twin)
		}
		if errors.Is(err, errIDsRotten) {
			x.Local(shard, id) // builds them again
			local, added, err = x.add(shard, id, key, twin)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	x.activity.revive(min(day, DayMax), local)
	if added {
		x.parts.added(local)
	}
	return local, nil
}

func (x *Index) add(shard uint16, id series.ID, key series.Key, twin bool) (local uint32, added bool, err error) {
	ids := x.shards.make(shard)
	ids.mu.Lock()
	defer ids.mu.Unlock()
	hash := x.table.hash(key)
	s := x.table.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()

	others, err := x.othersLocked(s, hash, key)
	if err != nil {
		return 0, false, err
	}
	other, taken, rotten := ids.find(id)
	if rotten != nil {
		return 0, false, errIDsRotten
	}
	// An id whose record was dropped may get another one: then it is that of the key, and a greater one waits until it is forgotten.
	again := taken && x.keys.dropped.has(other) || !taken && uint32(id) < ids.next.Load() && (ids.gaps.Load() > 0 || x.forgets.has(shard, id))
	for i := range others {
		switch o := &others[i]; {
		case o.Shard == shard && o.ID == id:
			return o.Hint, false, nil
		case !x.forgets.hidden.has(o.Hint) && !(twin && o.Shard == shard && o.ID < id) && !(again && o.Shard == shard && o.ID > id):
			return 0, false, fmt.Errorf("%w: %s is id %d of shard %d, not id %d of shard %d", ErrConflict, key, o.ID, o.Shard, id, shard)
		}
	}
	if taken && !again {
		return 0, false, fmt.Errorf("%w: id %d of shard %d is series %d, not %s", ErrConflict, id, shard, other, key)
	}
	if next := ids.next.Load(); uint32(id) > next || id > series.IDMax {
		return 0, false, fmt.Errorf("%w: %d instead of %d in shard %d", ErrIDGap, id, next, shard)
	}
	ids.growLocked(uint32(id) + 1)
	s.makeRoomLocked()
	local, err = x.append(ids, shard, id, key, others)
	if err != nil {
		return 0, false, err
	}
	s.insertLocked(hash, x.keys.offset(local))
	return local, true, nil
}

// append writes the record and makes it known to readers by local id.
func (x *Index) append(ids *shardIDs, shard uint16, id series.ID, key series.Key, others []series.Ref) (uint32, error) {
	x.keys.mu.Lock()
	defer x.keys.mu.Unlock()
	local, err := x.keys.appendLocked(shard, id, key)
	if err != nil {
		return 0, err
	}
	x.forgets.addTwin(shard, id, local, others)
	if id := uint32(id); id < ids.next.Load() {
		if _, known := ids.local(series.ID(id)); !known {
			ids.fillGap()
		}
	}
	if x.forgets.has(shard, id) { // until ReplaceForgotten says otherwise
		x.forgets.hide(local)
	}
	ids.put(id, local)
	ids.raiseNext(uint32(id) + 1)
	x.keys.publishLocked(local)
	return local, nil
}
