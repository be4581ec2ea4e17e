package index

import (
	"fmt"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// fillSlice is how many series a worker takes at a time.
const fillSlice = 1 << 14

// fill builds the hash table and the arrays of the shards from the records.
// Should two records claim one identity, it begins again with one worker, so that
// the earlier one wins.
func (x *Index) fill(o *Options) error {
	conflicts, err := x.fillWith(o, o.Workers, func(uint32, string) {})
	if err == nil && conflicts {
		x.table = &table{seed: x.table.seed, mask: x.table.mask}
		x.shards = shardTable{}
		_, err = x.fillWith(o, 1, func(local uint32, what string) {
			o.Corrupt(&CorruptError{
				File: x.keys.file.Name(), Offset: x.keys.offset(local), What: fmt.Sprintf("series %d %s", local, what),
			})
			x.keys.setLost(local)
		})
	}
	for local := range o.State.Count {
		if x.keys.record(local) == nil {
			x.lost.Add(1)
		}
	}
	return err
}

func (x *Index) fillWith(o *Options, workers int, refuse func(local uint32, what string)) (conflicts bool, err error) {
	count := o.State.Count
	slices := int((uint64(count) + fillSlice - 1) / fillSlice)
	var bad atomic.Bool
	each := func(visit func(local uint32, record []byte) string) error {
		return parallel(workers, slices, func(i int) error {
			return vfs.Guard(func() error {
				end := min(uint64(i+1)*fillSlice, uint64(count))
				for local := uint32(i) * fillSlice; uint64(local) < end; local++ {
					record := x.keys.record(local)
					if record == nil {
						continue
					}
					if what := visit(local, record); what != "" {
						bad.Store(true)
						refuse(local, what)
					}
				}
				return nil
			})
		})
	}
	err = each(func(_ uint32, record []byte) string {
		// Ids are given without gaps, so a larger one cannot be true, and must not
		// make an array of its size.
		if id := recordID(record); uint32(id) < count {
			x.shards.make(recordShard(record)).raiseNext(uint32(id) + 1)
		}
		return ""
	})
	if err != nil {
		return false, err
	}
	x.shards.each(func(_ uint16, s *shardIDs) { s.growLocked(s.next.Load()) })
	x.table.reserve(int(count))
	err = each(func(local uint32, record []byte) string { return x.fillOne(local, record, count) })
	return bad.Load(), err
}

func (x *Index) fillOne(local uint32, record []byte, count uint32) (what string) {
	key, shard, id := recordKey(record), recordShard(record), recordID(record)
	if uint32(id) >= count {
		return "has an id beyond the number of series"
	}
	hash := x.table.hash(key)
	s := x.table.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.probe(hash)
	for {
		other, ok := p.next()
		if !ok {
			break
		}
		if twin := x.keys.recordAt(other); recordHasKey(twin, key) {
			return fmt.Sprintf("has the key of series %d", recordLocal(twin))
		}
	}
	if !x.shards.get(shard).set(id, local) {
		return fmt.Sprintf("is a second one for id %d of shard %d", id, shard)
	}
	s.makeRoomLocked()
	s.insertLocked(hash, x.keys.offset(local))
	return ""
}
