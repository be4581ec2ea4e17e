package cache

import (
	"bytes"
	"sort"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
)

// recorder takes down the windows of a scan that may be kept. When they take more than half
// of the cache, or others hold too much of it, it gives up, and the scan goes on.
type recorder struct {
	cache  *Cache
	grid   grid
	asked  scan.Aggregate
	within span
	gaveUp atomic.Bool
	bytes  atomic.Int64 // reserved by all
	each   []recording  // by worker
}

// recording is what one visitor has seen.
type recording struct {
	columns  map[string]*column
	last     *column
	lastKey  []byte
	reserved int64
	_        [64]byte // workers write side by side
}

func newRecorder(c *Cache, q *question, within span) *recorder {
	r := &recorder{cache: c, grid: q.grid, asked: q.request.Windows.Aggregates, within: within, each: make([]recording, max(1, q.request.Parallel))}
	for i := range r.each {
		r.each[i].columns = map[string]*column{}
	}
	return r
}

// take notes a chunk; nil takes nothing.
func (r *recorder) take(worker int, chunk *scan.Chunk) {
	if r == nil || r.gaveUp.Load() || len(chunk.Times) == 0 {
		return
	}
	fromMs, toMs := r.grid.startMs(r.within.from), r.grid.startMs(r.within.to)
	i := sort.Search(len(chunk.Times), func(i int) bool { return chunk.Times[i] >= fromMs })
	j := sort.Search(len(chunk.Times), func(i int) bool { return chunk.Times[i] >= toMs })
	if i == j {
		return
	}
	w := &r.each[worker]
	grown := int64(0)
	if w.last == nil || !bytes.Equal(w.lastKey, chunk.Key) {
		w.last, w.lastKey = newColumn(r.asked, chunk.Ref), append(w.lastKey[:0], chunk.Key...)
		w.columns[string(chunk.Key)] = w.last
		grown = columnBytes + int64(len(chunk.Key))
	} else {
		grown = -w.last.bytes() + columnBytes
	}
	w.last.appendChunk(r.grid, r.asked, chunk, i, j)
	grown += w.last.bytes() - columnBytes
	if r.bytes.Add(grown) > r.cache.options.Bytes/2 || !r.cache.reserve(grown) {
		r.gaveUp.Store(true)
		return
	}
	w.reserved += grown
}

// end frees the memory and returns what was taken down, by worker; nil if the recorder gave
// up. Nobody takes anything any more.
func (r *recorder) end() (columns []map[string]*column) {
	if r == nil {
		return nil
	}
	for i := range r.each {
		r.cache.reserve(-r.each[i].reserved)
		r.each[i].reserved = 0
		columns = append(columns, r.each[i].columns)
	}
	if r.gaveUp.Load() {
		return nil
	}
	return columns
}
