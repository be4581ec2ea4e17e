package index

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// builder makes parts from the keys of new series. It interns the metrics, the
// tags of each metric and the values of each tag as rows, collects which series
// has which row, and sorts the rows when all are known. It is reused.
type builder struct {
	seed   maphash.Seed
	slots  []uint32 // row + 1, open addressing
	rows   []row
	pairs  []pair // (row, series), by growing series
	starts []uint32
	lists  []uint32
	order  [3][]uint32 // rows of each level, sorted
	rank   []uint32    // of each row within its level
	tags   []series.Tag
	last   []recent // rows of the previous series' tags
}

// The levels of rows. The text of a metric is the start of the key.
const (
	levelMetric = iota
	levelTag
	levelValue
)

type row struct {
	text   []byte // points into the keys
	hash   uint64
	parent uint32
	level  uint8
}

type pair struct{ row, series uint32 }

type recent struct{ tag, value uint32 }

const noRow uint32 = 1<<32 - 1

func newBuilder() *builder { return &builder{seed: maphash.MakeSeed()} }

// build makes the part of the series from lo to hi (excluded). Errors:
// *vfs.FaultError.
func (b *builder) build(keys *keyFile, lo, hi uint32) (p *part, err error) {
	b.reset(int(hi - lo))
	dropped := keys.droppedBetween(lo, hi)
	err = vfs.Guard(func() error {
		for local := lo; local < hi; local++ {
			if keys.dropped.has(local) {
				continue
			}
			record, err := keys.intact(local)
			if err != nil {
				record = keys.record(local) // who asks for a damaged key is told
			}
			if record != nil {
				b.add(local-lo, recordKey(record))
			}
		}
		b.group()
		b.sort()
		p = b.write(lo, hi)
		p.dropped = dropped
		return nil
	})
	clear(b.rows) // nothing may keep pointing into the keys
	clear(b.tags[:cap(b.tags)])
	return p, err
}

func (b *builder) reset(size int) {
	slots := 64
	for slots < size/2 {
		slots *= 2
	}
	if len(b.slots) < slots {
		b.slots = make([]uint32, slots)
	}
	clear(b.slots)
	b.rows, b.pairs, b.last = b.rows[:0], b.pairs[:0], b.last[:0]
	for i := range b.order {
		b.order[i] = b.order[i][:0]
	}
}

// add notes one series.
func (b *builder) add(rel uint32, key series.Key) {
	database, metric, tags, err := key.Parts(b.tags[:0])
	b.tags = tags
	if err != nil {
		return // Create refuses such keys, and the record's sum is right
	}
	m := b.intern(levelMetric, noRow, key[:textBytes(database)+textBytes(metric)])
	b.pairs = append(b.pairs, pair{m, rel})
	for i, t := range tags {
		if i == len(b.last) {
			b.last = append(b.last, recent{noRow, noRow})
		}
		r := &b.last[i]
		if !b.is(r.tag, m, t.Name) {
			*r = recent{b.intern(levelTag, m, t.Name), noRow}
		}
		if !b.is(r.value, r.tag, t.Value) {
			r.value = b.intern(levelValue, r.tag, t.Value)
		}
		b.pairs = append(b.pairs, pair{r.tag, rel}, pair{r.value, rel})
	}
}

// textBytes returns the bytes of a text with its length before it.
func textBytes(text []byte) int {
	return len(text) + max(bits.Len(uint(len(text)))+6, 7)/7
}

func (b *builder) is(n, parent uint32, text []byte) bool {
	return n != noRow && b.rows[n].parent == parent && bytes.Equal(b.rows[n].text, text)
}

func (b *builder) intern(level uint8, parent uint32, text []byte) uint32 {
	hash := maphash.Bytes(b.seed, text) ^ uint64(parent)*0x9e3779b97f4a7c15
	hash ^= hash >> 29
	mask := uint64(len(b.slots) - 1)
	at := hash & mask
	for ; b.slots[at] != 0; at = (at + 1) & mask {
		n := b.slots[at] - 1
		if r := &b.rows[n]; r.hash == hash && r.parent == parent && bytes.Equal(r.text, text) {
			return n
		}
	}
	n := uint32(len(b.rows))
	b.rows = append(b.rows, row{text: text, hash: hash, parent: parent, level: level})
	b.order[level] = append(b.order[level], n)
	b.slots[at] = n + 1
	if len(b.rows)*4 > len(b.slots)*3 {
		b.grow()
	}
	return n
}

func (b *builder) grow() {
	b.slots = make([]uint32, 2*len(b.slots))
	mask := uint64(len(b.slots) - 1)
	for n := range b.rows {
		at := b.rows[n].hash & mask
		for b.slots[at] != 0 {
			at = (at + 1) & mask
		}
		b.slots[at] = uint32(n) + 1
	}
}

// group sorts the pairs by row, by counting: the series of a row stay in order.
func (b *builder) group() {
	b.starts = slices.Grow(b.starts[:0], len(b.rows)+1)[:len(b.rows)+1]
	clear(b.starts)
	for _, p := range b.pairs {
		b.starts[p.row+1]++
	}
	for i := range b.rows {
		b.starts[i+1] += b.starts[i]
	}
	b.lists = slices.Grow(b.lists[:0], len(b.pairs))[:len(b.pairs)]
	for _, p := range b.pairs {
		b.lists[b.starts[p.row]] = p.series
		b.starts[p.row]++
	}
}

// list returns the series of a row, once group has moved each start to its end.
func (b *builder) list(n uint32) []uint32 {
	start := uint32(0)
	if n > 0 {
		start = b.starts[n-1]
	}
	return b.lists[start:b.starts[n]]
}

func (b *builder) sort() {
	b.rank = slices.Grow(b.rank[:0], len(b.rows))[:len(b.rows)]
	slices.SortFunc(b.order[levelMetric], func(i, j uint32) int {
		return compareMetrics(b.rows[i].text, b.rows[j].text)
	})
	b.number(levelMetric)
	for _, level := range []int{levelTag, levelValue} {
		slices.SortFunc(b.order[level], func(i, j uint32) int {
			x, y := &b.rows[i], &b.rows[j]
			if x.parent != y.parent {
				return int(b.rank[x.parent]) - int(b.rank[y.parent])
			}
			return bytes.Compare(x.text, y.text)
		})
		b.number(level)
	}
}

func (b *builder) number(level int) {
	for i, n := range b.order[level] {
		b.rank[n] = uint32(i)
	}
}

// compareMetrics compares starts of keys by database, then metric.
func compareMetrics(x, y []byte) int {
	xd, xm := cutText(x)
	yd, ym := cutText(y)
	if c := bytes.Compare(xd, yd); c != 0 {
		return c
	}
	x, _ = cutText(xm)
	y, _ = cutText(ym)
	return bytes.Compare(x, y)
}

func (b *builder) write(lo, hi uint32) *part {
	w := newPartWriter(lo, hi)
	tags, values := b.order[levelTag], b.order[levelValue]
	for _, m := range b.order[levelMetric] {
		database, rest := cutText(b.rows[m].text)
		metric, _ := cutText(rest)
		w.metric(database, metric, b.list(m))
		for len(tags) > 0 && b.rows[tags[0]].parent == m {
			t := tags[0]
			tags = tags[1:]
			w.tag(len(b.list(t)))
			for len(values) > 0 && b.rows[values[0]].parent == t {
				w.value(b.rows[values[0]].text, b.list(values[0]))
				values = values[1:]
			}
			w.endTag(b.rows[t].text, b.list(t))
		}
		w.endMetric()
	}
	return w.finish()
}
