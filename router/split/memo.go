package split

import (
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of a memo. A connection that cycles through more lines than fit is
// served by the resolver.
const (
	memoLinesMax = 4096
	memoBytesMax = 256 << 10 // of texts and of ids, each
	memoSlots    = 2 * memoLinesMax

	// A full memo is kept until so many lines found no room in it. To forget it at
	// once would be to fill it for nothing when there are many more lines than fit.
	memoMissesMax = 8 * memoLinesMax
)

// context is what has to be equal, besides the text of a line, for it to be the
// same series: the form of the text, the database and the names of the fields.
type context struct {
	form     parse.Form
	database uint8
	shape    uint16
}

func (c context) bits() uint64 {
	return uint64(c.form) | uint64(c.database)<<8 | uint64(c.shape)<<16
}

// memoEntry is a line whose series are known.
type memoEntry struct {
	hash     uint64
	text     uint32 // where head and tags are in the memo's texts
	head     uint32 // bytes
	tags     uint32 // bytes
	ids      uint32 // where its ids are
	idsCount uint32
	shard    uint16
	next     uint16 // index of the entry that was found after this one the last time
	context  context
}

// memo maps the raw text of lines to the ids of their series: an open-addressing
// table over flat arrays. Its entries stay where they are until it is cleared.
type memo struct {
	seed    uint64
	slots   []uint16 // index into entries plus 1; 0 is free
	entries []memoEntry
	texts   []byte
	ids     []series.ID
	last    int // index of the entry that was found last
	misses  int // lines that found no room
}

func newMemo(seed uint64) memo {
	return memo{seed: seed, slots: make([]uint16, memoSlots)}
}

func (m *memo) clear() {
	if len(m.entries) > 0 {
		clear(m.slots)
	}
	m.entries, m.texts, m.ids, m.last = m.entries[:0], m.texts[:0], m.ids[:0], 0
	m.misses = 0
}

// renew clears a memo that has been full for long. No entry may be in use.
func (m *memo) renew() {
	if m.misses >= memoMissesMax {
		m.clear()
	}
}

// guess gives the entry of a line if it is the one that came after the last
// entry before: senders repeat their lines in the same order.
func (m *memo) guess(c context, head, tags []byte) *memoEntry {
	if len(m.entries) == 0 {
		return nil
	}
	next := int(m.entries[m.last].next)
	e := &m.entries[next]
	if !m.equal(e, c, head, tags) {
		return nil
	}
	m.last = next
	return e
}

func (m *memo) hash(c context, head, tags []byte) uint64 {
	h := hashText(m.seed^c.bits()*hashC, head)
	if len(tags) > 0 {
		h = hashText(h, tags)
	}
	return h
}

// find gives the entry of a line, or nil.
func (m *memo) find(hash uint64, c context, head, tags []byte) *memoEntry {
	for slot := hash % memoSlots; m.slots[slot] != 0; slot = (slot + 1) % memoSlots {
		i := m.slots[slot] - 1
		e := &m.entries[i]
		if e.hash == hash && m.equal(e, c, head, tags) {
			m.entries[m.last].next = i
			m.last = int(i)
			return e
		}
	}
	return nil
}

func (m *memo) equal(e *memoEntry, c context, head, tags []byte) bool {
	text := m.texts[e.text:]
	return e.context == c && int(e.head) == len(head) && int(e.tags) == len(tags) &&
		string(text[:len(head)]) == string(head) && string(text[len(head):len(head)+len(tags)]) == string(tags)
}

// insert adds a line, with the references of its series, that find did not find.
// It does not when there is no room, when the series are of several shards, or
// when the line is there meanwhile.
func (m *memo) insert(hash uint64, c context, head, tags []byte, refs []series.Ref) {
	const idBytes = 4
	if len(head)+len(tags) > memoBytesMax/16 || len(refs)*idBytes > memoBytesMax/16 {
		return // not worth the room
	}
	if len(m.entries) == memoLinesMax || len(m.texts)+len(head)+len(tags) > memoBytesMax ||
		(len(m.ids)+len(refs))*idBytes > memoBytesMax {
		m.misses++
		return
	}
	slot := hash % memoSlots
	for ; m.slots[slot] != 0; slot = (slot + 1) % memoSlots {
		if m.entries[m.slots[slot]-1].hash == hash {
			return
		}
	}
	ids := len(m.ids)
	for i := range refs {
		if refs[i].Shard != refs[0].Shard {
			m.ids = m.ids[:ids]
			return
		}
		m.ids = append(m.ids, refs[i].ID)
	}
	m.entries = append(m.entries, memoEntry{
		hash:     hash,
		text:     uint32(len(m.texts)),
		head:     uint32(len(head)),
		tags:     uint32(len(tags)),
		ids:      uint32(ids),
		idsCount: uint32(len(refs)),
		shard:    refs[0].Shard,
		context:  c,
	})
	m.slots[slot] = uint16(len(m.entries))
	m.entries[m.last].next = uint16(len(m.entries) - 1)
	m.last = len(m.entries) - 1
	m.texts = append(append(m.texts, head...), tags...)
}
