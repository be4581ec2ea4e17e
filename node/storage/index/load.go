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
	for shard, next := range o.State.Next {
		if next > 0 {
			ids := x.shards.make(uint16(shard))
			ids.raiseNext(next)
			ids.growLocked(next) // no larger than Count, see State.check
		}
	}
	count := uint64(o.State.Count)
	x.table.reserve(int(count))
	var bad atomic.Bool
	err = parallel(workers, int((count+fillSlice-1)/fillSlice), func(i int) error {
		return vfs.Guard(func() error {
			for local := uint64(i) * fillSlice; local < min(uint64(i+1)*fillSlice, count); local++ {
				record := x.keys.record(uint32(local))
				if record == nil {
					continue
				}
				if what := x.fillOne(uint32(local), record, &o.State); what != "" {
					bad.Store(true)
					refuse(uint32(local), what)
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
