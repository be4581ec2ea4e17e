package cache

import (
	"math/bits"
	"sort"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// column is the windows of one series, in order. Most series have a sample in each window,
// and as many in each, so both are kept as runs. It grows at its end only: what was read
// of it stays as it is.
type column struct {
	ref      series.Ref
	runs     []run
	counts   []countRun // none, unless counts were asked for
	values   []float64  // of one window after the other
	windows  int        // in all
	everyone int        // floats of each window

	// What runs and counts are in while there is one of each, as most series have: reads of many series wait for memory
	// wherever a pointer leads.
	oneRun   [1]run
	oneCount [1]countRun
}

// run is windows without a gap between them.
type run struct {
	first    int64 // number
	position int   // of the first in the column
}

// countRun is windows of the same count.
type countRun struct {
	count    int64
	position int
}

// The memory of things, about.
const (
	runBytes    = 16
	columnBytes = 128 + 16 + 56 // with its key's header and its places in a list and a map
)

// floatsOf returns the columns of a chunk that hold the aggregates asked for, but the count.
func floatsOf(asked scan.Aggregate, c *scan.Chunk) (columns [5]*[]float64, n int) {
	for _, one := range [...]struct {
		asked  scan.Aggregate
		column *[]float64
	}{
		{scan.AggregateSum, &c.Sum}, {scan.AggregateMin, &c.Min}, {scan.AggregateMax, &c.Max},
		{scan.AggregateFirst, &c.First}, {scan.AggregateLast, &c.Last},
	} {
		if asked&one.asked != 0 {
			columns[n] = one.column
			n++
		}
	}
	return columns, n
}

func newColumn(asked scan.Aggregate, ref series.Ref) *column {
	return &column{ref: ref, everyone: bits.OnesCount8(uint8(asked &^ scan.AggregateCount))}
}

// bytes returns the memory of the column, without its key.
func (c *column) bytes() int64 {
	bytes := columnBytes + int64(cap(c.values))*8
	for _, length := range [...]int{cap(c.runs), cap(c.counts)} {
		if length > 1 {
			bytes += int64(length) * runBytes
		}
	}
	return bytes
}

// moveTo makes another column of this one, which is not used any more.
func (c *column) moveTo(to *column) {
	*to = *c
	if len(c.runs) <= 1 {
		to.runs = append(to.oneRun[:0], c.runs...)
	}
	if len(c.counts) <= 1 {
		to.counts = append(to.oneCount[:0], c.counts...)
	}
}

// appendChunk takes windows i to j of a chunk, which come after all that are there.
func (c *column) appendChunk(g grid, asked scan.Aggregate, chunk *scan.Chunk, i, j int) {
	c.reserve(j - i)
	columns, n := floatsOf(asked, chunk)
	for ; i < j; i++ {
		count := int64(0)
		if asked&scan.AggregateCount != 0 {
			count = chunk.Count[i]
		}
		c.begin(g.at(chunk.Times[i]), count, asked&scan.AggregateCount != 0)
		for _, values := range columns[:n] {
			c.values = append(c.values, (*values)[i])
		}
	}
}

// begin notes the next window.
func (c *column) begin(number, count int64, counted bool) {
	if n := len(c.runs); n == 0 {
		c.runs = append(c.oneRun[:0], run{number, c.windows})
	} else if c.runs[n-1].first+int64(c.windows-c.runs[n-1].position) != number {
		c.runs = append(c.runs, run{number, c.windows})
	}
	if n := len(c.counts); counted && n == 0 {
		c.counts = append(c.oneCount[:0], countRun{count, c.windows})
	} else if counted && c.counts[n-1].count != count {
		c.counts = append(c.counts, countRun{count, c.windows})
	}
	c.windows++
}

// reserve makes room for more windows, and little more: entries live long and grow slowly.
func (c *column) reserve(windows int) {
	if need := len(c.values) + windows*c.everyone; need > cap(c.values) {
		grown := make([]float64, len(c.values), need+need/16)
		copy(grown, c.values)
		c.values = grown
	}
}

// appendColumn takes all windows of another column, which come after all that are there.
func (c *column) appendColumn(other *column, counted bool) {
	c.ref = other.ref
	c.reserve(other.windows)
	c.values = append(c.values, other.values...)
	r, k := 0, 0
	for i := range other.windows {
		for r+1 < len(other.runs) && other.runs[r+1].position <= i {
			r++
		}
		for k+1 < len(other.counts) && other.counts[k+1].position <= i {
			k++
		}
		count := int64(0)
		if counted {
			count = other.counts[k].count
		}
		c.begin(other.runs[r].first+int64(i-other.runs[r].position), count, counted)
	}
}

// position returns the place of the first window with a number or a later one.
func (c *column) position(number int64) int {
	r := sort.Search(len(c.runs), func(i int) bool { return c.runs[i].first > number }) - 1
	if r < 0 {
		return 0
	}
	end := c.windows
	if r+1 < len(c.runs) {
		end = c.runs[r+1].position
	}
	if ahead := number - c.runs[r].first; ahead < int64(end-c.runs[r].position) {
		return c.runs[r].position + int(ahead)
	}
	return end
}

// fill writes windows i to j of the column to a chunk, in the chunk's own memory.
func (c *column) fill(g grid, asked scan.Aggregate, i, j int, chunk *scan.Chunk) {
	chunk.Times = chunk.Times[:0]
	for r := sort.Search(len(c.runs), func(r int) bool { return c.runs[r].position > i }) - 1; r < len(c.runs); r++ {
		first, end := c.runs[r].position, c.windows
		if r+1 < len(c.runs) {
			end = c.runs[r+1].position
		}
		if first >= j {
			break
		}
		timeMs := g.startMs(c.runs[r].first + int64(max(i, first)-first))
		for range min(end, j) - max(i, first) {
			chunk.Times = append(chunk.Times, timeMs)
			timeMs += g.widthMs
		}
	}
	columns, n := floatsOf(asked, chunk)
	for at, values := range columns[:n] {
		*values = (*values)[:0]
		if n == 1 {
			*values = append(*values, c.values[i:j]...)
			continue
		}
		for k := i*n + at; k < j*n; k += n {
			*values = append(*values, c.values[k])
		}
	}
	if asked&scan.AggregateCount == 0 {
		return
	}
	chunk.Count = chunk.Count[:0]
	for k := sort.Search(len(c.counts), func(k int) bool { return c.counts[k].position > i }) - 1; k < len(c.counts); k++ {
		first, end := c.counts[k].position, c.windows
		if k+1 < len(c.counts) {
			end = c.counts[k+1].position
		}
		if first >= j {
			break
		}
		for range min(end, j) - max(i, first) {
			chunk.Count = append(chunk.Count, c.counts[k].count)
		}
	}
}

// part returns windows of the column as another one, which shares what it can.
func (c *column) part(within span) *column {
	i, j := c.position(within.from), c.position(within.to)
	out := &column{ref: c.ref, windows: j - i, everyone: c.everyone}
	n := c.everyone
	out.values = c.values[i*n : j*n : j*n]
	if i > 0 || cap(c.values) > len(out.values)+len(out.values)/8 { // what is left out should not be kept
		out.values = append([]float64(nil), out.values...)
	}
	out.runs, out.counts = out.oneRun[:0], out.oneCount[:0]
	for r := range c.runs {
		first := c.runs[r].position
		if r+1 < len(c.runs) && c.runs[r+1].position <= i || first >= j {
			continue
		}
		out.runs = append(out.runs, run{c.runs[r].first + int64(max(i, first)-first), max(i, first) - i})
	}
	for k := range c.counts {
		first := c.counts[k].position
		if k+1 < len(c.counts) && c.counts[k+1].position <= i || first >= j {
			continue
		}
		out.counts = append(out.counts, countRun{c.counts[k].count, max(i, first) - i})
	}
	return out
}
