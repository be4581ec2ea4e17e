package resolve

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
)

// stripe is one part of the cache, with a lock of its own.
type stripe struct {
	mu struct {
		sync.RWMutex
		table
	}
	_ [64]byte // the next stripe's lock is on another cache line
}

// find sets refs for those of the keys that which names, and returns the number found.
func (s *stripe) find(which []uint16, hashes *[chunkKeys]uint64, keys []series.Key, refs []series.Ref) (found int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := &s.mu.table
	if t.live == 0 {
		for _, i := range which {
			refs[i] = series.Ref{Hint: series.HintNone}
		}
		return 0
	}
	// First all slots, then all records: the loads of one kind do not wait for each other.
	var slots [chunkKeys]int32
	mask := len(t.slots) - 1
	for n, i := range which {
		slots[n] = int32(t.probe(hashes[i], int(hashes[i])&mask))
	}
	for n, i := range which {
		at := int(slots[n])
		for at >= 0 && !t.holds(at, keys[i]) {
			at = t.probe(hashes[i], (at+1)&mask)
		}
		if at < 0 {
			refs[i] = series.Ref{Hint: series.HintNone}
			continue
		}
		slot := atomic.LoadUint64(&t.slots[at])
		if slot&slotUsed == 0 {
			atomic.OrUint64(&t.slots[at], slotUsed)
		}
		record := t.ring[position(slot):]
		refs[i] = series.Ref{ID: series.ID(binary.LittleEndian.Uint32(record) - 1), Shard: binary.LittleEndian.Uint16(record[4:])}
		found++
	}
	return found
}

// learn enters a record, or changes it, if it is still valid.
func (s *stripe) learn(hash uint64, key series.Key, shard uint16, id series.ID, valid func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !valid() {
		return false
	}
	t := &s.mu.table
	if at := t.locate(hash, key); at >= 0 {
		record := t.ring[position(t.slots[at]):]
		binary.LittleEndian.PutUint32(record, uint32(id)+1)
		binary.LittleEndian.PutUint16(record[4:], shard)
		return true
	}
	t.append(hash, key, shard, id)
	return true
}

// forget removes the records of a shard and returns their number.
func (s *stripe) forget(shard uint16) (removed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.mu.table
	old := t.slots
	t.slots, t.live = make([]uint64, len(old)), 0
	for _, slot := range old {
		switch {
		case uint32(slot) == 0:
		case binary.LittleEndian.Uint16(t.ring[position(slot)+4:]) == shard:
			removed++
		default:
			t.place(slot)
			t.live++
		}
	}
	return removed
}

func (s *stripe) addStats(stats *Stats) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	stats.Evicted += s.mu.evicted
	stats.Series += int64(s.mu.live)
	stats.Bytes += int64(len(s.mu.ring) + slotBytes*len(s.mu.slots))
}
