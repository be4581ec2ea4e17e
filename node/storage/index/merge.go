package index

import (
	"bytes"
	"math/bits"
	"slices"
)

// merge makes one part of neighbouring ones. Their series do not overlap and
// come in order, so every set is the sets of the parts one after the other, without those that are dropped. Rotten parts and errors: as readParts.
func merge(parts []*part, dropped *bitSet) (merged *part, rotten []*part, err error) {
	rotten, err = readParts(parts, func() error {
		merged = mergeParts(parts, dropped)
		return nil
	})
	return merged, rotten, err
}

func mergeParts(parts []*part, dropped *bitSet) *part {
	m := merger{
		gone:    wordsOf(dropped, parts[0].lo, parts[len(parts)-1].hi),
		writer:  newPartWriter(parts[0].lo, parts[len(parts)-1].hi),
		parts:   parts,
		at:      make([]int, len(parts)),
		entries: make([]metricEntry, len(parts)),
	}
	bytes := 0
	for _, p := range parts {
		bytes += len(p.data)
	}
	m.writer.p.data = make([]byte, 0, bytes)
	for {
		var with []int
		for i, p := range parts {
			if m.at[i] == len(p.metrics) {
				continue
			}
			m.entries[i] = p.entry(m.at[i])
			with = m.least(with, i, m.compareMetrics)
		}
		if len(with) == 0 {
			p := m.writer.finish()
			for _, w := range m.gone {
				p.dropped += bits.OnesCount64(w)
			}
			return p
		}
		m.metric(with)
		for _, i := range with {
			m.at[i]++
		}
	}
}

// wordsOf returns which of the series from lo to hi (excluded) are in a set, as bits from lo on; nil: none is.
func wordsOf(set *bitSet, lo, hi uint32) (words []uint64) {
	if set.between(lo, hi) == 0 {
		return nil
	}
	words = make([]uint64, (uint64(hi-lo)+63)/64)
	for rel := range hi - lo {
		if set.has(lo + rel) {
			words[rel/64] |= 1 << (rel % 64)
		}
	}
	return words
}

type merger struct {
	gone    []uint64 // series that are left out, as bits; nil: none
	writer  *partWriter
	parts   []*part
	at      []int         // number of the next metric of each part
	entries []metricEntry // the next metric of each part
	tags    []tagEntry    // the next tag of each part's metric
	left    []int         // tags after it
	cursors []valueCursor
	list    []uint32
	tagList []uint32
}

// least keeps, of the parts seen so far, those whose next element is the least.
func (m *merger) least(with []int, i int, compare func(i, j int) int) []int {
	if len(with) == 0 {
		return append(with, i)
	}
	switch c := compare(i, with[0]); {
	case c < 0:
		return append(with[:0], i)
	case c == 0:
		return append(with, i)
	}
	return with
}

func (m *merger) compareMetrics(i, j int) int {
	x, y := &m.entries[i], &m.entries[j]
	if c := bytes.Compare(x.database, y.database); c != 0 {
		return c
	}
	return bytes.Compare(x.metric, y.metric)
}

func (m *merger) shift(i int) uint32 { return m.parts[i].lo - m.parts[0].lo }

func (m *merger) metric(with []int) {
	m.list = m.list[:0]
	for _, i := range with {
		m.list = m.entries[i].series.appendTo(m.list, m.shift(i))
	}
	if m.list = m.kept(m.list); len(m.list) == 0 {
		return
	}
	first := &m.entries[with[0]]
	m.writer.metric(first.database, first.metric, m.list)

	m.tags = make([]tagEntry, len(m.parts))
	m.left = make([]int, len(m.parts))
	for _, i := range with {
		m.left[i] = m.entries[i].tags
		m.nextTag(i)
	}
	var same []int
	for {
		same = same[:0]
		for _, i := range with {
			if m.left[i] >= 0 {
				same = m.least(same, i, func(i, j int) int { return bytes.Compare(m.tags[i].name, m.tags[j].name) })
			}
		}
		if len(same) == 0 {
			break
		}
		m.tag(same)
		for _, i := range same {
			m.nextTag(i)
		}
	}
	m.writer.endMetric()
}

// kept takes those series out of a list that are left out.
func (m *merger) kept(list []uint32) []uint32 {
	if m.gone == nil {
		return list
	}
	return slices.DeleteFunc(list, func(rel uint32) bool { return m.gone[rel/64]&(1<<(rel%64)) != 0 })
}

// nextTag reads a part's next tag; left is -1 after the last one.
func (m *merger) nextTag(i int) {
	m.left[i]--
	if m.left[i] >= 0 {
		m.tags[i], m.entries[i].rest = m.entries[i].cutTag(m.entries[i].rest)
	}
}

func (m *merger) tag(with []int) {
	m.tagList = m.tagList[:0]
	if m.cursors == nil {
		m.cursors = make([]valueCursor, len(m.parts))
	}
	live := make([]bool, len(m.parts))
	for _, i := range with {
		m.tagList = m.tags[i].series.appendTo(m.tagList, m.shift(i))
		value := m.cursors[i].value[:0]
		m.cursors[i] = m.tags[i].cursor("")
		m.cursors[i].value = value
		live[i] = m.cursors[i].next()
	}
	if m.tagList = m.kept(m.tagList); len(m.tagList) == 0 {
		return
	}
	m.writer.tag(len(m.tagList))
	var same []int
	for {
		same = same[:0]
		for _, i := range with {
			if live[i] {
				same = m.least(same, i, func(i, j int) int { return bytes.Compare(m.cursors[i].value, m.cursors[j].value) })
			}
		}
		if len(same) == 0 {
			break
		}
		m.list = m.list[:0]
		for _, i := range same {
			m.list = m.cursors[i].posting.appendTo(m.list, m.shift(i))
		}
		if m.list = m.kept(m.list); len(m.list) > 0 {
			m.writer.value(m.cursors[same[0]].value, m.list)
		}
		for _, i := range same {
			live[i] = m.cursors[i].next()
		}
	}
	m.writer.endTag(m.tags[with[0]].name, m.tagList)
}
