package split

import (
	"unsafe"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of a resolve batch. It ends behind a line that makes it long; within a line
// only when that is larger than all bounds.
const (
	batchKeysLong  = 512 // what the nearest caches hold, and plenty to overlap
	batchItemsLong = 256
	batchKeysMax   = lineCacheBytesMax / 16 / 4 // a line with more is not worth the cache
	batchItemsMax  = 512
	batchBytesMax  = 256 << 10 // of keys
	batchSlots     = 2 * batchItemsMax
)

type itemKind uint8

const (
	itemKeys    itemKind = iota // points whose keys are asked for
	itemKnown                   // a line that is in the cache
	itemRefused                 // points whose identity is not legal
)

// identity is the cache's key of a line, its text aside.
type identity struct {
	hash    uint64
	context context
}

// item is some points of a line, nearly always all of them.
type item struct {
	identity identity // of a whole line with keys
	kind     itemKind
	whole    bool   // itemKeys: it is all points of its line
	line     uint32 // index into the batch's lines
	first    uint32 // its first point, from the line's first one
	points   uint32
	at       uint32 // its first key, its entry in the cache, or its error
	keys     uint32 // number of its keys
}

// resolveBatch is a run of lines that wait to be resolved together: the resolver
// then waits for the memory of many series at the same time. It starts with a
// line that the cache does not know; the points of all its lines are encoded in
// their order once the keys are resolved.
type resolveBatch struct {
	items  []item
	keys   []series.Key
	refs   []series.Ref // of keys, once they are resolved
	text   []byte       // of keys
	errors []error

	starts    []uint32 // the first key of every item with keys of its own
	firstKeys []series.Key
	firstRefs []series.Ref

	// slots finds the whole lines, so that a line that comes again is asked for
	// once. Open addressing: index into items plus 1; 0 is free.
	slots [batchSlots]uint16
}

func (st *resolveBatch) memoryBytes() int {
	const itemBytes, keyBytes, refBytes, errorBytes, startBytes = int(unsafe.Sizeof(item{})), 24, 12, 16, 4
	return itemBytes*cap(st.items) + keyBytes*(cap(st.keys)+cap(st.firstKeys)) + refBytes*(cap(st.refs)+cap(st.firstRefs)) +
		cap(st.text) + errorBytes*cap(st.errors) + startBytes*cap(st.starts) + 2*batchSlots
}

func (st *resolveBatch) reset() {
	if len(st.starts) > 0 {
		clear(st.slots[:])
	}
	clear(st.errors)
	st.items, st.keys, st.refs, st.text = st.items[:0], st.keys[:0], st.refs[:0], st.text[:0]
	st.errors, st.starts = st.errors[:0], st.starts[:0]
}

// isLong reports whether the resolve batch had better end behind this line.
func (st *resolveBatch) isLong() bool {
	return len(st.keys) >= batchKeysLong || len(st.items) >= batchItemsLong || len(st.text) >= batchBytesMax/2
}

// isFull reports whether there is no room for another key of so many bytes.
func (st *resolveBatch) isFull(keyBytes int) bool {
	return len(st.keys) == batchKeysMax || len(st.items) >= batchItemsMax-2 || len(st.text)+keyBytes > batchBytesMax
}

func (st *resolveBatch) add(it item) { st.items = append(st.items, it) }

// open starts an item with keys.
func (st *resolveBatch) open(line uint32, first int) item {
	return item{kind: itemKeys, line: line, first: uint32(first), at: uint32(len(st.keys))}
}

// addKey adds a key of points to an item that is open.
func (st *resolveBatch) addKey(it *item, key series.Key, points int) {
	start := len(st.text)
	st.text = append(st.text, key...) // older keys stay where they were when it grows
	st.keys = append(st.keys, st.text[start:len(st.text):len(st.text)])
	it.keys++
	it.points += uint32(points)
}

// close adds an item that was open, if it holds anything.
func (st *resolveBatch) close(it item) {
	if it.keys == 0 {
		return
	}
	st.starts = append(st.starts, it.at)
	st.add(it)
}

func (st *resolveBatch) addRefused(line uint32, points int, err error) {
	st.add(item{kind: itemRefused, line: line, points: uint32(points), at: uint32(len(st.errors))})
	st.errors = append(st.errors, err)
}

// closeWhole adds an item that is a whole line, to be found by repeat.
func (st *resolveBatch) closeWhole(it item, id identity) {
	if it.keys == 0 {
		return
	}
	it.whole, it.identity = true, id
	st.close(it)
	if !id.context.isNumbered() {
		return // a line with other fields may have the same identity
	}
	slot := id.hash % batchSlots
	for st.slots[slot] != 0 {
		slot = (slot + 1) % batchSlots
	}
	st.slots[slot] = uint16(len(st.items))
}

// repeat adds a line that has the keys of an earlier one of the resolve batch.
func (st *resolveBatch) repeat(b *parse.Batch, line uint32, id identity) bool {
	l := &b.Lines[line]
	for slot := id.hash % batchSlots; st.slots[slot] != 0; slot = (slot + 1) % batchSlots {
		e := &st.items[st.slots[slot]-1]
		if e.identity != id {
			continue
		}
		earlier := &b.Lines[e.line]
		if string(b.Head(earlier)) == string(b.Head(l)) && string(b.Tags(earlier)) == string(b.Tags(l)) {
			st.add(item{kind: itemKeys, line: line, points: l.Count, at: e.at, keys: e.keys})
			return true
		}
	}
	return false
}

// resolve asks for all keys. With inOrder the lines are expected in the order of
// their creation, and hint is what was found before them; else only the keys
// within a line are.
func (st *resolveBatch) resolve(r Resolver, hint uint32, inOrder bool) {
	n := len(st.keys)
	if cap(st.refs) < n {
		st.refs = make([]series.Ref, n, cap(st.keys))
	}
	st.refs = st.refs[:n]
	if !inOrder {
		hint = series.HintNone
	}
	if inOrder || len(st.starts) == n {
		r.Resolve(hint, st.keys, st.refs)
		return
	}
	st.firstKeys = st.firstKeys[:0]
	for _, start := range st.starts {
		st.firstKeys = append(st.firstKeys, st.keys[start])
	}
	if cap(st.firstRefs) < len(st.starts) {
		st.firstRefs = make([]series.Ref, cap(st.starts))
	}
	st.firstRefs = st.firstRefs[:len(st.starts)]
	r.Resolve(hint, st.firstKeys, st.firstRefs)
	for i, start := range st.starts {
		st.refs[start] = st.firstRefs[i]
		if rest, end := int(start)+1, st.end(i); rest < end {
			r.Resolve(st.refs[start].Hint, st.keys[rest:end], st.refs[rest:end])
		}
	}
}

// end returns where the keys end that begin at starts[i].
func (st *resolveBatch) end(i int) int {
	if i+1 < len(st.starts) {
		return int(st.starts[i+1])
	}
	return len(st.keys)
}

// order returns the Hint of the last series, and whether most lines followed the
// one before them in the order of creation. Before is the Hint in front of all.
func (st *resolveBatch) order(before uint32) (last uint32, inOrder bool) {
	following := 0
	for i, start := range st.starts {
		if hint := st.refs[start].Hint; hint == before+1 && before != series.HintNone {
			following++
		}
		before = st.refs[st.end(i)-1].Hint
	}
	return before, 2*following >= len(st.starts)
}
