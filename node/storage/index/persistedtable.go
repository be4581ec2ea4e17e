package index

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// persistedTable is the hash table of the series below count, a mapped file that never changes. It has
// stripes as table has. The slots of a stripe are in growing order, each at its home or, as those before
// it have taken that, behind them; the last slot of each stripe is empty.
//
//	slots of all stripes · for each stripe: u64 first slot, u64 homes · u64 seed · u32 count
type persistedTable struct {
	count   uint32
	file    uint64 // its number
	dropped int    // of its series, when it was written
	seed    uint64
	entries int
	stripes [stripesCount]persistedStripe
	held    held
	seal    *seal  // of the slots
	again   uint32 // series below it have entries in memory, too: see dropTable; guarded by Index.syncing
}

type persistedStripe struct {
	slots []atomic.Uint64
	first int // its number among all
	homes int
}

const (
	persistedTableMagic  = "TMHASH\r\n"
	persistedTableFooter = stripesCount*16 + 12
	slotBytes            = 8
	// A persisted table has so many homes for its slots: a hit then costs 3 slots, a miss 13.
	persistedHomesNumerator, persistedHomesDenominator = 5, 4
)

func (t *persistedTable) probe(hash uint64) probe {
	s := &t.stripes[hash>>(64-stripeBits)]
	p := probe{tag: tag(hash), slots: s.slots}
	p.at = home(p.tag, s.homes)
	return p
}

// intact reports whether the slots that a probe passes until it ends are what they were. An entry that is found
// needs no such check, as the key says whether it is right.
func (t *persistedTable) intact(hash uint64) bool {
	s := &t.stripes[hash>>(64-stripeBits)]
	at := home(tag(hash), s.homes)
	end := at
	for end < len(s.slots) && s.slots[end].Load() != 0 {
		end++
	}
	if end == len(s.slots) {
		return false // its last slot is empty
	}
	return t.seal.intact((s.first+at)*slotBytes, (s.first+end+1)*slotBytes)
}

// entriesOf returns the entries of a stripe in growing order.
func (t *persistedTable) entriesOf(stripe int) (list []uint64, err error) {
	if t == nil {
		return nil, nil
	}
	s := &t.stripes[stripe]
	for i := range s.slots {
		if slot := s.slots[i].Load(); slot != 0 {
			list = append(list, slot)
		}
	}
	if !t.seal.intact(s.first*slotBytes, (s.first+len(s.slots))*slotBytes) {
		return nil, errTableRotten
	}
	return list, nil
}

// persistedTableBytes returns the bytes of the file of a table of so many series, or more.
func persistedTableBytes(count uint32) int64 {
	const empty = 3 // of each stripe: a home for none, one by rounding, and the last
	slots := int64(count)*persistedHomesNumerator/persistedHomesDenominator + empty*stripesCount
	return wholeHeader + slots*slotBytes + persistedTableFooter + wholeSumBytes
}

// writePersistedTable writes the file of a table of the series below count. Entries returns those of a
// stripe in growing order.
func writePersistedTable(fs vfs.FS, name string, seed uint64, count uint32, entries func(stripe int) ([]uint64, error)) error {
	return writeWhole(fs, name, persistedTableMagic, func(w *wholeWriter) {
		var footer []byte
		first := uint64(0)
		for i := range stripesCount {
			list, err := entries(i)
			if err != nil && w.err == nil {
				w.err = err
			}
			homes := len(list)*persistedHomesNumerator/persistedHomesDenominator + 1
			at := 0
			for _, slot := range list {
				for wanted := home(slot, homes); at < wanted; at++ {
					w.uint64(0)
				}
				w.uint64(slot)
				at++
			}
			for end := max(homes, at) + 1; at < end; at++ {
				w.uint64(0)
			}
			footer = binary.LittleEndian.AppendUint64(footer, first)
			footer = binary.LittleEndian.AppendUint64(footer, uint64(homes))
			first += uint64(at)
		}
		w.bytes(footer)
		w.uint64(seed)
		w.uint32(count)
	})
}

// openPersistedTable maps a table. Its records lie before byte keyBytes of the file of keys.
func openPersistedTable(fs vfs.FS, name string, count uint32, keyBytes int64) (*persistedTable, error) {
	m, body, err := mapWhole(fs, name, persistedTableMagic)
	if err != nil {
		return nil, err
	}
	t := new(persistedTable)
	if err := m.Guard(func([]byte) error { return t.parse(name, body, count, keyBytes) }); err != nil {
		_ = m.Close()
		return nil, err
	}
	t.held = hold(t, m)
	return t, nil
}

func (t *persistedTable) parse(name string, body []byte, count uint32, keyBytes int64) error {
	damaged := func(what string, values ...any) error {
		return &CorruptError{File: name, What: fmt.Sprintf(what, values...)}
	}
	end := len(body) - persistedTableFooter
	if end < 0 || end%slotBytes != 0 {
		return damaged("a body of %d bytes", len(body))
	}
	footer := body[end:]
	t.seed = binary.LittleEndian.Uint64(footer[stripesCount*16:])
	if t.count = binary.LittleEndian.Uint32(footer[stripesCount*16+8:]); t.count != count {
		return damaged("it is of %d series, not %d", t.count, count)
	}
	if end == 0 {
		return damaged("it has no slots")
	}
	slots := unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(body))), end/slotBytes)
	for i := range slots {
		slot := slots[i].Load()
		if slot == 0 {
			continue
		}
		if t.entries++; int64(slot&slotPlaceMask)+recordBytesMin > keyBytes {
			return damaged("slot %d leads to byte %d of the keys", i, slot&slotPlaceMask)
		}
	}
	if t.entries > int(count) {
		return damaged("%d entries of %d series", t.entries, count)
	}
	for i := range t.stripes {
		first, next := binary.LittleEndian.Uint64(footer[i*16:]), uint64(len(slots))
		if i+1 < stripesCount {
			next = binary.LittleEndian.Uint64(footer[(i+1)*16:])
		}
		homes := binary.LittleEndian.Uint64(footer[i*16+8:])
		if first >= next || next > uint64(len(slots)) || homes == 0 || homes > next-first {
			return damaged("stripe %d goes from slot %d to %d of %d and has %d homes", i, first, next, len(slots), homes)
		}
		s := slots[first:next:next]
		if s[len(s)-1].Load() != 0 {
			return damaged("the last slot of stripe %d is not empty", i)
		}
		t.stripes[i] = persistedStripe{slots: s, first: int(first), homes: int(homes)}
	}
	t.dropped = int(t.count) - t.entries // or lost
	t.seal = newSeal(body[:end])
	return nil
}

// mergeEntries merges two growing lists. Entries may be in both: see persistedTable.again.
func mergeEntries(a, b []uint64) []uint64 {
	if len(b) == 0 {
		return a
	}
	list := append(a, b...)
	slices.Sort(list) // two runs: pdqsort is as good as a merge for lists of this length
	return slices.Compact(list)
}
