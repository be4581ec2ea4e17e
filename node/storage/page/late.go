package page

import (
	"unsafe"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// late is the head of an out-of-order page.
type late struct {
	codec.PageHead
	slot slot
	key  uint32 // series id + 1; 0 is a free place
}

// lateTable finds the out-of-order page of a series: open addressing with linear
// probing, at most ¾ full. Pointers into it are valid until the next insert or
// remove.
type lateTable struct {
	slots   []late // a power of two, or none
	count   int
	rebuilt uint32 // times that slots have moved to another table
}

const lateSlotsMin = 8

func lateHash(key uint32) uint32 { return key * 0x9e3779b1 } // Knuth's multiplicative hash; use the high bits

func (t *lateTable) home(key uint32) int {
	return int(uint64(lateHash(key)) * uint64(len(t.slots)) >> 32)
}

// find returns the place of a series, or nil.
func (t *lateTable) find(id uint32) *late {
	if t.count == 0 {
		return nil
	}
	key, mask := id+1, len(t.slots)-1
	for at := t.home(key); t.slots[at].key != 0; at = (at + 1) & mask {
		if t.slots[at].key == key {
			return &t.slots[at]
		}
	}
	return nil
}

// insert makes a place for a series that has none.
func (t *lateTable) insert(id uint32) *late {
	if 4*(t.count+1) > 3*len(t.slots) {
		t.resize(max(lateSlotsMin, 2*len(t.slots)))
	}
	t.count++
	place := t.vacant(id + 1)
	*place = late{key: id + 1}
	return place
}

func (t *lateTable) vacant(key uint32) *late {
	mask := len(t.slots) - 1
	at := t.home(key)
	for t.slots[at].key != 0 {
		at = (at + 1) & mask
	}
	return &t.slots[at]
}

// remove frees the place of a series, moves up those that it had displaced, and
// releases memory when little is used.
func (t *lateTable) remove(place *late) {
	mask := len(t.slots) - 1
	hole := int((uintptr(unsafe.Pointer(place)) - uintptr(unsafe.Pointer(&t.slots[0]))) / unsafe.Sizeof(late{}))
	for at := (hole + 1) & mask; t.slots[at].key != 0; at = (at + 1) & mask {
		// A place may move up when its home is not within (hole, at].
		if (at-t.home(t.slots[at].key))&mask >= (at-hole)&mask {
			t.slots[hole] = t.slots[at]
			hole = at
		}
	}
	t.slots[hole] = late{}
	t.count--
	if t.count == 0 {
		t.slots = nil
		t.rebuilt++
	} else if len(t.slots) > lateSlotsMin && 8*t.count < len(t.slots) {
		t.resize(len(t.slots) / 4)
	}
}

func (t *lateTable) resize(slots int) {
	old := t.slots
	t.slots = make([]late, slots)
	t.rebuilt++
	for i := range old {
		if old[i].key != 0 {
			*t.vacant(old[i].key) = old[i]
		}
	}
}

func (t *lateTable) bytes() int { return len(t.slots) * int(unsafe.Sizeof(late{})) }
