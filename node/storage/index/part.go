package index

import (
	"bytes"
	"encoding/binary"
	"sort"
)

// A part is the postings of the series from lo to hi (excluded), in one byte
// slice that never changes. It has an entry for each metric, sorted by database
// and metric:
//
//	text database, text metric, posting of its series
//	uvarint tags, then for each, sorted by name:
//	    text name, uvarint values, posting of the series that have it
//	    uvarint bytes of what follows
//	    u32 offset of each block of values but the first, from the end of this table
//	    the values, sorted, in blocks of 16:
//	        uvarint bytes shared with the value before it in the block
//	        text rest of the value
//	        uvarint bytes of the posting, posting
//
// A text is its uvarint length and its bytes. postingAll means, for a tag, all
// series of the metric, and for a value, all series that have the tag.
type part struct {
	lo, hi  uint32
	data    []byte
	metrics []uint32 // where the entries are, in order
	values  int      // in all tags of all metrics
	busy    bool     // being merged; guarded by partList.mu
	dropped int      // series that it was made without, as their records are dropped; at least
	memo    valueMemo
	file    uint64 // its number, if it is mapped
	held    held
	seal    *seal // nil: it is in memory
}

const (
	valueBlock         = 16
	valueBlockRefBytes = 4
)

func cutText(b []byte) (text, rest []byte) {
	n, used := uint64(b[0]), 1
	if n >= 0x80 {
		n, used = binary.Uvarint(b)
	}
	end := used + int(n)
	return b[used:end:end], b[end:]
}

func cutUvarint(b []byte) (uint64, []byte) {
	if b[0] < 0x80 {
		return uint64(b[0]), b[1:]
	}
	v, n := binary.Uvarint(b)
	return v, b[n:]
}

// postingHeadBytes is what the numbers before those of a posting take at most.
const postingHeadBytes = 2 * binary.MaxVarintLen64

// cutPosting cuts a posting with its length before it. A large one is checked where it is read.
func (c *checked) cutPosting(b []byte) (p posting, rest []byte) {
	n, body := cutUvarint(b)
	p, rest = parsePosting(body[:n]), body[n:]
	switch {
	case c.seal == nil:
	case n <= sealBlock:
		c.cut(b, rest)
	default:
		c.cut(b, p.body)
		c.need(c.place(p.body), c.place(p.body)+postingHeadBytes)
		p.seal = c.seal
	}
	return p, rest
}

// metricEntry is one metric of a part.
type metricEntry struct {
	database, metric []byte
	series           posting
	tags             int
	rest             []byte // the tags
	checked          checked
}

// at returns the data from the entry of a metric on.
func (p *part) at(i int, c *checked) []byte {
	b := p.data[p.metrics[i]:]
	if c.seal != nil {
		places := len(c.seal.bytes) - partFooter - 4*len(p.metrics)
		c.need(places+4*i, places+4*i+4)
	}
	return b
}

func (p *part) entry(i int) (m metricEntry) {
	m.checked.seal = p.seal
	start := p.at(i, &m.checked)
	var b []byte
	m.database, b = cutText(start)
	m.metric, b = cutText(b)
	m.checked.cut(start, b)
	m.series, b = m.checked.cutPosting(b)
	tags, rest := cutUvarint(b)
	m.checked.cut(b, rest)
	m.tags, m.rest = int(tags), rest
	return m
}

func (p *part) entryName(i int, c *checked) (database, metric []byte) {
	start := p.at(i, c)
	database, b := cutText(start)
	metric, b = cutText(b)
	c.cut(start, b)
	return database, metric
}

// search returns the first entry that is not before the given name.
func (p *part) search(database, metric string) int {
	var c checked
	reached := func(i int) bool {
		d, m := p.entryName(i, &c)
		if c := compareText(d, database); c != 0 {
			return c > 0
		}
		return compareText(m, metric) >= 0
	}
	n := sort.Search(len(p.metrics), reached)
	if c.seal = p.seal; c.seal != nil && (n > 0 && reached(n-1) || n < len(p.metrics) && !reached(n)) {
		panic(errRotten{p.seal})
	}
	return n
}

func compareText(a []byte, b string) int {
	switch {
	case string(a) < b:
		return -1
	case string(a) > b:
		return 1
	}
	return 0
}

// tagEntry is one tag of a metric.
type tagEntry struct {
	name   []byte
	values int
	series posting // never postingAll
	table  []byte  // offsets of the blocks but the first
	blocks []byte
	// checked is of the table and the blocks, which are checked where they are read.
	checked checked
}

// eachTag visits the tags in order until visit returns false.
func (m *metricEntry) eachTag(visit func(tagEntry) bool) {
	b := m.rest
	for range m.tags {
		var t tagEntry
		t, b = m.cutTag(b)
		if !visit(t) {
			return
		}
	}
}

func (m *metricEntry) cutTag(start []byte) (t tagEntry, rest []byte) {
	t.checked.seal = m.checked.seal
	var b []byte
	t.name, b = cutText(start)
	values, b := cutUvarint(b)
	t.checked.cut(start, b)
	t.values = int(values)
	t.series, b = t.checked.cutPosting(b)
	if t.series.kind == postingAll {
		t.series = m.series
	}
	start = b
	n, b := cutUvarint(b)
	t.checked.cut(start, b)
	table := (t.values - 1) / valueBlock * valueBlockRefBytes
	t.table, t.blocks = b[:table], b[table:n]
	return t, b[n:]
}

func (m *metricEntry) tag(name string) (found tagEntry, ok bool) {
	m.eachTag(func(t tagEntry) bool {
		c := compareText(t.name, name)
		if c == 0 {
			found, ok = t, true
		}
		return c < 0
	})
	return found, ok
}

// block returns the values from block i on.
func (t *tagEntry) block(i int, c *checked) []byte {
	if i == 0 {
		return t.blocks
	}
	ref := t.table[(i-1)*valueBlockRefBytes:][:valueBlockRefBytes]
	c.cut(ref, ref[valueBlockRefBytes:])
	return t.blocks[binary.LittleEndian.Uint32(ref):]
}

// blockOf returns the block that value is in, if it is in any.
func (t *tagEntry) blockOf(value string) int {
	blocks := len(t.table)/valueBlockRefBytes + 1
	var c checked
	beyond := func(i int) bool {
		start := t.block(i, &c)
		_, b := cutUvarint(start) // shares nothing
		first, b := cutText(b)
		c.cut(start, b)
		return compareText(first, value) > 0
	}
	n := sort.Search(blocks, beyond)
	if c = t.checked; c.seal != nil && (n > 0 && beyond(n-1) || n < blocks && !beyond(n)) {
		panic(errRotten{c.seal}) // the way there was wrong
	}
	return max(n-1, 0)
}

// valueCursor walks the values of a tag in order.
type valueCursor struct {
	tag     *tagEntry
	rest    []byte
	at      int // number of the next value
	value   []byte
	posting posting // never postingAll
	checked checked
}

// cursor returns a cursor at the block that may hold from.
func (t *tagEntry) cursor(from string) valueCursor {
	block := 0
	if from != "" {
		block = t.blockOf(from)
	}
	return valueCursor{tag: t, rest: t.block(block, &t.checked), at: block * valueBlock, checked: t.checked}
}

// next moves to the next value; value is valid until the next call.
func (c *valueCursor) next() bool {
	if c.at >= c.tag.values {
		return false
	}
	shared, b := cutUvarint(c.rest)
	text, b := cutText(b)
	c.checked.cut(c.rest, b)
	c.value = append(c.value[:shared], text...)
	c.posting, c.rest = c.checked.cutPosting(b)
	if c.posting.kind == postingAll {
		c.posting = c.tag.series
	}
	c.at++
	return true
}

// find returns the posting of one value.
func (t *tagEntry) find(value string) (posting, bool) {
	c := t.cursor(value)
	for c.next() {
		switch compareText(c.value, value) {
		case 0:
			return c.posting, true
		case 1:
			return posting{}, false
		}
	}
	return posting{}, false
}

// partWriter writes a part. The calls are: metric, then for each of its tags tag,
// its values, endTag; then endMetric; all in order.
type partWriter struct {
	p         *part
	series    int // of the metric
	tagSeries int // that have the tag
	tags      int
	tagsHeld  []byte // the tags of the metric
	table     []byte
	values    []byte // of the tag
	count     int    // of values of the tag
	posting   []byte
	previous  []byte
}

func newPartWriter(lo, hi uint32) *partWriter { return &partWriter{p: &part{lo: lo, hi: hi}} }

func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

func (w *partWriter) appendPosting(dst []byte, list []uint32, whole int) []byte {
	w.posting = appendPosting(w.posting[:0], list, whole)
	return appendText(dst, w.posting)
}

func (w *partWriter) metric(database, metric []byte, list []uint32) {
	w.p.metrics = append(w.p.metrics, uint32(len(w.p.data)))
	w.p.data = appendText(appendText(w.p.data, database), metric)
	w.p.data = w.appendPosting(w.p.data, list, -1)
	w.series, w.tags, w.tagsHeld = len(list), 0, w.tagsHeld[:0]
}

// tag begins a tag; its name and series are written by endTag.
func (w *partWriter) tag(series int) {
	w.tags++
	w.tagSeries, w.count = series, 0
	w.table, w.values, w.previous = w.table[:0], w.values[:0], w.previous[:0]
}

func (w *partWriter) value(value []byte, list []uint32) {
	shared := 0
	if w.count%valueBlock == 0 {
		if w.count > 0 {
			w.table = binary.LittleEndian.AppendUint32(w.table, uint32(len(w.values)))
		}
	} else {
		for shared < min(len(value), len(w.previous)) && value[shared] == w.previous[shared] {
			shared++
		}
	}
	w.values = appendText(binary.AppendUvarint(w.values, uint64(shared)), value[shared:])
	w.values = w.appendPosting(w.values, list, w.tagSeries)
	w.previous = append(w.previous[:0], value...)
	w.count++
	w.p.values++
}

func (w *partWriter) endTag(name []byte, list []uint32) {
	b := binary.AppendUvarint(appendText(w.tagsHeld, name), uint64(w.count))
	b = w.appendPosting(b, list, w.series)
	b = binary.AppendUvarint(b, uint64(len(w.table)+len(w.values)))
	w.tagsHeld = append(append(b, w.table...), w.values...)
}

func (w *partWriter) endMetric() {
	w.p.data = append(binary.AppendUvarint(w.p.data, uint64(w.tags)), w.tagsHeld...)
}

// finish returns the part, in slices of just its size.
func (w *partWriter) finish() *part {
	w.p.data = bytes.Clone(w.p.data)
	w.p.metrics = append(make([]uint32, 0, len(w.p.metrics)), w.p.metrics...)
	return w.p
}

func (p *part) size() uint32 { return p.hi - p.lo }

// bytes returns the memory of a part: of one that is mapped, that of its sums.
func (p *part) bytes() int64 {
	if p.seal != nil {
		return p.seal.memory()
	}
	return int64(cap(p.data)) + int64(cap(p.metrics))*4
}
