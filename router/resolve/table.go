package resolve

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
)

// A record of the ring, from a multiple of recordAlign on, in one piece:
//
//	id     uint32   plus 1; 0: the rest of the ring up to its end is not used
//	shard  uint16
//	length uint16   of the key
//	key
//
// A slot of the table:
//
//	bits 0–31   the record's position in the ring / recordAlign, plus 1; 0: free
//	bit  32     the record was asked for since it was written
//	bits 33–63  low bits of the key's hash, which say where the slot belongs
const (
	recordHeaderBytes = 8
	recordAlign       = 8
	ringBytesMin      = 1 << 17 // there is room for a record with the longest key
	slotBytes         = 8
	slotsMin          = 1 << 10
	slotsShare        = 4 // the table may have a fourth of the memory

	slotUsed     = 1 << 32
	slotHashBits = 31
	slotHashMask = 1<<slotHashBits - 1
	slotHashFrom = 33

	// chancesMax bounds the records that one Learn writes again. With more of them in
	// a row all are in use, and one is as good as the other.
	chancesMax = 128
)

// table is the memory of a stripe.
type table struct {
	seed     maphash.Seed
	bytesMax int64

	slots   []uint64 // loaded and marked with atomics by those who may only read
	ring    []byte
	head    int // position of the oldest record
	used    int // bytes from head on that are in use
	live    int // slots in use
	evicted uint64
}

// probe returns the first slot from at on that may be of the hash; −1: there is none.
func (t *table) probe(hash uint64, at int) int {
	mask := len(t.slots) - 1
	for ; ; at = (at + 1) & mask {
		slot := atomic.LoadUint64(&t.slots[at])
		if uint32(slot) == 0 {
			return -1
		}
		if slot>>slotHashFrom == hash&slotHashMask {
			return at
		}
	}
}

func position(slot uint64) int { return (int(uint32(slot)) - 1) * recordAlign }

func (t *table) holds(slot int, key series.Key) bool {
	return bytes.Equal(t.keyAt(position(atomic.LoadUint64(&t.slots[slot]))), key)
}

func (t *table) keyAt(at int) []byte {
	length := int(binary.LittleEndian.Uint16(t.ring[at+6:]))
	return t.ring[at+recordHeaderBytes : at+recordHeaderBytes+length]
}

func recordBytes(keyBytes int) int {
	return (recordHeaderBytes + keyBytes + recordAlign - 1) &^ (recordAlign - 1)
}

// locate returns the slot of a key; −1: it is not known.
func (t *table) locate(hash uint64, key series.Key) int {
	if t.live == 0 {
		return -1
	}
	mask := len(t.slots) - 1
	at := t.probe(hash, int(hash)&mask)
	for at >= 0 && !t.holds(at, key) {
		at = t.probe(hash, (at+1)&mask)
	}
	return at
}

// append writes the record of a key that is not known.
func (t *table) append(hash uint64, key series.Key, shard uint16, id series.ID) {
	n := recordBytes(len(key))
	t.makeSlot()
	t.makeRoom(n)
	at := t.end()
	record := t.ring[at : at+n]
	binary.LittleEndian.PutUint32(record, uint32(id)+1)
	binary.LittleEndian.PutUint16(record[4:], shard)
	binary.LittleEndian.PutUint16(record[6:], uint16(len(key)))
	copy(record[recordHeaderBytes:], key)
	t.used += n
	t.enter(hash, at)
}

// end returns the position behind the newest record.
func (t *table) end() int {
	if at := t.head + t.used; at < len(t.ring) {
		return at
	} else {
		return at - len(t.ring)
	}
}

// enter points a slot to the record at a position.
func (t *table) enter(hash uint64, at int) {
	t.live++
	t.place(slotTo(hash, at))
}

// slotTo is the slot of a record that nobody has asked for yet.
func slotTo(hash uint64, at int) uint64 {
	return hash&slotHashMask<<slotHashFrom | uint64(at/recordAlign+1)
}

// makeSlot sees to it that the table has room for one more.
func (t *table) makeSlot() {
	for 4*(t.live+1) > 3*len(t.slots) {
		if len(t.slots) > 0 && 2*slotBytes*int64(len(t.slots)) > t.bytesMax/slotsShare {
			t.evict(false)
			continue
		}
		t.growSlots()
	}
}

func (t *table) place(slot uint64) {
	mask := len(t.slots) - 1
	i := int(slot>>slotHashFrom) & mask
	for uint32(t.slots[i]) != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slot
}

func (t *table) growSlots() {
	old := t.slots
	t.slots = make([]uint64, max(slotsMin, 2*len(old)))
	for _, slot := range old {
		if uint32(slot) != 0 {
			t.place(slot)
		}
	}
}

// remove frees a slot and moves those behind it that belong before it.
func (t *table) remove(at int) {
	mask := len(t.slots) - 1
	t.live--
	for next := (at + 1) & mask; uint32(t.slots[next]) != 0; next = (next + 1) & mask {
		home := int(t.slots[next]>>slotHashFrom) & mask
		if (next-home)&mask >= (next-at)&mask {
			t.slots[at] = t.slots[next]
			at = next
		}
	}
	t.slots[at] = 0
}

// makeRoom sees to it that n bytes in one piece are free at the end.
func (t *table) makeRoom(n int) {
	for chances := chancesMax; !t.fits(n); {
		if t.growRing() {
			continue
		}
		if t.evict(chances > 0) {
			chances--
		}
	}
}

// fits reports whether n bytes in one piece are free at the end, at the start of the
// ring if need be.
func (t *table) fits(n int) bool {
	if t.used == 0 {
		t.head = 0
	}
	at := t.head + t.used
	switch {
	case at >= len(t.ring): // what is in use wraps, or ends with the ring
		return t.used+n <= len(t.ring)
	case at+n <= len(t.ring):
		return true
	case n > t.head:
		return false
	}
	t.fill(at)
	return true
}

// fill marks the rest of the ring as not used.
func (t *table) fill(at int) {
	binary.LittleEndian.PutUint64(t.ring[at:], 0)
	t.used += len(t.ring) - at
}

// evict removes the oldest record. Where chance allows and it was asked for, it is
// written again at the end, which is true then.
func (t *table) evict(chance bool) (again bool) {
	if binary.LittleEndian.Uint32(t.ring[t.head:]) == 0 {
		t.used -= len(t.ring) - t.head
		t.head = 0
		return false
	}
	key := t.keyAt(t.head)
	hash, n, from := maphash.Bytes(t.seed, key), recordBytes(len(key)), t.head
	slot := t.slotOf(hash, from)
	t.used -= n
	if t.head += n; t.head == len(t.ring) {
		t.head = 0
	}
	if slot < 0 {
		return false // its shard was forgotten
	}
	if !chance || t.slots[slot]&slotUsed == 0 {
		t.remove(slot)
		t.evicted++
		return false
	}
	// What is free ends with the place that the record had. So there is room for it
	// before that or, when the free bytes wrap, from the start of the ring on.
	to := t.end()
	if to >= t.head && to+n > len(t.ring) {
		t.fill(to)
		to = 0
	}
	copy(t.ring[to:to+n], t.ring[from:from+n])
	t.used += n
	t.slots[slot] = slotTo(hash, to)
	return true
}

// slotOf returns the slot that points to a position; −1: none does.
func (t *table) slotOf(hash uint64, at int) int {
	mask := len(t.slots) - 1
	for i := int(hash) & mask; uint32(t.slots[i]) != 0; i = (i + 1) & mask {
		if position(t.slots[i]) == at {
			return i
		}
	}
	return -1
}

// growRing makes the ring larger if the bound of memory allows. Records move to its
// start.
func (t *table) growRing() bool {
	size := int(min(max(ringBytesMin, 2*int64(len(t.ring))), t.bytesMax-t.bytesMax/slotsShare)) &^ (recordAlign - 1)
	if size <= len(t.ring) {
		return false
	}
	grown, slots, end := make([]byte, size), make([]uint64, len(t.slots)), 0
	old := *t
	t.slots = slots
	for at, left := t.head, t.used; left > 0; {
		if at == len(old.ring) {
			at = 0
		}
		if binary.LittleEndian.Uint32(old.ring[at:]) == 0 {
			left -= len(old.ring) - at
			at = 0
			continue
		}
		key := old.keyAt(at)
		hash, n := maphash.Bytes(t.seed, key), recordBytes(len(key))
		if slot := old.slotOf(hash, at); slot >= 0 {
			copy(grown[end:], old.ring[at:at+n])
			t.place(slotTo(hash, end) | old.slots[slot]&slotUsed)
			end += n
		}
		at, left = at+n, left-n
	}
	t.ring, t.head, t.used = grown, 0, end
	return true
}
