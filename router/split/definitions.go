package split

import "github.com/tickmesh/tickmesh/api/series"

// definition is a new series of the current frame.
type definition struct {
	hash     uint64
	key      uint32 // where its key is in keys
	keyBytes uint32
	part     uint32 // index into the frame's parts
	ref      series.ID
	refused  error
}

// use is a line that has points of a definition.
type use struct {
	definition uint32
	line       uint32
	points     uint32
}

// definitions holds the new series of one frame, each key once.
type definitions struct {
	seed    uint64
	slots   []uint32 // open addressing: index into list plus 1; 0 is free
	list    []definition
	keys    []byte
	uses    []use
	byPart  [][]uint32 // of every part, the indices into list in the order of its definitions
	partMax int
}

func (d *definitions) reset() {
	if len(d.list) > 0 {
		clear(d.slots)
	}
	for i := range d.partMax {
		d.byPart[i] = d.byPart[i][:0]
	}
	d.list, d.keys, d.uses, d.partMax = d.list[:0], d.keys[:0], d.uses[:0], 0
}

// find returns the index of a key's definition.
func (d *definitions) find(hash uint64, key series.Key) (index int, found bool) {
	if len(d.list) == 0 {
		return 0, false
	}
	mask := uint64(len(d.slots) - 1)
	for slot := hash & mask; d.slots[slot] != 0; slot = (slot + 1) & mask {
		i := int(d.slots[slot] - 1)
		e := &d.list[i]
		if e.hash == hash && string(d.keys[e.key:e.key+e.keyBytes]) == string(key) {
			return i, true
		}
	}
	return 0, false
}

// add adds a definition that find did not find.
func (d *definitions) add(hash uint64, key series.Key, part int, ref series.ID) (index int) {
	if 2*(len(d.list)+1) > len(d.slots) {
		d.grow()
	}
	d.place(hash, uint32(len(d.list)+1))
	d.list = append(d.list, definition{
		hash:     hash,
		key:      uint32(len(d.keys)),
		keyBytes: uint32(len(key)),
		part:     uint32(part),
		ref:      ref,
	})
	d.keys = append(d.keys, key...)
	for len(d.byPart) <= part {
		d.byPart = append(d.byPart, nil)
	}
	d.partMax = max(d.partMax, part+1)
	d.byPart[part] = append(d.byPart[part], uint32(len(d.list)-1))
	return len(d.list) - 1
}

func (d *definitions) grow() {
	d.slots = make([]uint32, max(64, 2*len(d.slots)))
	for i := range d.list {
		d.place(d.list[i].hash, uint32(i+1))
	}
}

func (d *definitions) place(hash uint64, value uint32) {
	mask := uint64(len(d.slots) - 1)
	slot := hash & mask
	for d.slots[slot] != 0 {
		slot = (slot + 1) & mask
	}
	d.slots[slot] = value
}
