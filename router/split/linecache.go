package split

import (
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of a line cache. A connection that cycles through more lines than fit is
// served by the resolver.
const (
	lineCacheLinesMax = 4096
	lineCacheBytesMax = 256 << 10 // of texts and of ids, each
	lineCacheSlots    = 2 * lineCacheLinesMax

	// A full cache is kept until so many lines found no room in it. To forget it at
	// once would be to fill it for nothing when there are many more lines than fit.
	lineCacheMissesMax = 8 * lineCacheLinesMax
)

// context is what has to be equal, besides the text of a line, for it to be the
// same series: the form of the text, the database, the extra labels and the names of the fields.
type context uint32

// Where the numbers of a context are in it. The form is the lowest byte.
const (
	databaseAt    = 8
	extraLabelsAt = 16
	fieldSetAt    = 24
)

// of returns the context of a line of a batch, of what the lines of the batch have in common.
func (c context) of(form parse.Form, fieldSet uint8) context {
	return c | context(form) | context(fieldSet)<<fieldSetAt
}

// isNumbered reports whether the cache tells the context from all others. No line of another one is in it.
func (c context) isNumbered() bool {
	return uint8(c>>databaseAt) != unnumbered && uint8(c>>extraLabelsAt) != unnumbered && uint8(c>>fieldSetAt) != unnumbered
}

// cachedLine is a line whose series are known.
type cachedLine struct {
	hash     uint64
	text     uint32 // where head and tags are in the cache's texts
	head     uint32 // bytes
	tags     uint32 // bytes
	ids      uint32 // where its ids are
	idsCount uint32
	shard    uint16
	next     uint16 // index of the entry that was found after this one the last time
	context  context
}

// lineCache maps the raw text of lines to the ids of their series: an open-addressing
// table over flat arrays. Its entries stay where they are until it is cleared.
type lineCache struct {
	seed    uint64
	slots   []uint16 // index into entries plus 1; 0 is free
	entries []cachedLine
	texts   []byte
	ids     []series.ID
	last    int // index of the entry that was found last
	misses  int // lines that found no room
}

func newLineCache(seed uint64) lineCache {
	return lineCache{seed: seed, slots: make([]uint16, lineCacheSlots)}
}

func (lc *lineCache) clear() {
	if len(lc.entries) > 0 {
		clear(lc.slots)
	}
	lc.entries, lc.texts, lc.ids, lc.last = lc.entries[:0], lc.texts[:0], lc.ids[:0], 0
	lc.misses = 0
}

// isOutworn reports whether the cache has been full for long.
func (lc *lineCache) isOutworn() bool { return lc.misses >= lineCacheMissesMax }

// guess returns the entry of a line if it is the one that came after the last
// entry before: senders repeat their lines in the same order.
func (lc *lineCache) guess(c context, head, tags []byte) *cachedLine {
	if len(lc.entries) == 0 {
		return nil
	}
	next := int(lc.entries[lc.last].next)
	e := &lc.entries[next]
	if !lc.equal(e, c, head, tags) {
		return nil
	}
	lc.last = next
	return e
}

func (lc *lineCache) hash(c context, head, tags []byte) uint64 {
	h := hashText(lc.seed^uint64(c)*hashC, head)
	if len(tags) > 0 {
		h = hashText(h, tags)
	}
	return h
}

// find returns the entry of a line, or nil.
func (lc *lineCache) find(hash uint64, c context, head, tags []byte) *cachedLine {
	for slot := hash % lineCacheSlots; lc.slots[slot] != 0; slot = (slot + 1) % lineCacheSlots {
		i := lc.slots[slot] - 1
		e := &lc.entries[i]
		if e.hash == hash && lc.equal(e, c, head, tags) {
			lc.entries[lc.last].next = i
			lc.last = int(i)
			return e
		}
	}
	return nil
}

func (lc *lineCache) equal(e *cachedLine, c context, head, tags []byte) bool {
	text := lc.texts[e.text:]
	return e.context == c && int(e.head) == len(head) && int(e.tags) == len(tags) &&
		string(text[:len(head)]) == string(head) && string(text[len(head):len(head)+len(tags)]) == string(tags)
}

// insert adds a line, with the references of its series, that find did not find.
// It does not when there is no room, for the line or for what its context consists of, when the series
// are of several shards, or when the line is there meanwhile.
func (lc *lineCache) insert(hash uint64, c context, head, tags []byte, refs []series.Ref) {
	const idBytes = 4
	if len(head)+len(tags) > lineCacheBytesMax/16 || len(refs)*idBytes > lineCacheBytesMax/16 {
		return // not worth the room
	}
	if !c.isNumbered() || len(lc.entries) == lineCacheLinesMax || len(lc.texts)+len(head)+len(tags) > lineCacheBytesMax ||
		(len(lc.ids)+len(refs))*idBytes > lineCacheBytesMax {
		lc.misses++
		return
	}
	slot := hash % lineCacheSlots
	for ; lc.slots[slot] != 0; slot = (slot + 1) % lineCacheSlots {
		if lc.entries[lc.slots[slot]-1].hash == hash {
			return
		}
	}
	ids := len(lc.ids)
	for i := range refs {
		if refs[i].Shard != refs[0].Shard {
			lc.ids = lc.ids[:ids]
			return
		}
		lc.ids = append(lc.ids, refs[i].ID)
	}
	lc.entries = append(lc.entries, cachedLine{
		hash:     hash,
		text:     uint32(len(lc.texts)),
		head:     uint32(len(head)),
		tags:     uint32(len(tags)),
		ids:      uint32(ids),
		idsCount: uint32(len(refs)),
		shard:    refs[0].Shard,
		context:  c,
	})
	lc.slots[slot] = uint16(len(lc.entries))
	lc.entries[lc.last].next = uint16(len(lc.entries) - 1)
	lc.last = len(lc.entries) - 1
	lc.texts = append(append(lc.texts, head...), tags...)
}
