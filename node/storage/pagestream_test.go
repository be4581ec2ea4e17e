package storage

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// pageStreamLab is one series in pages, and what it has, by time.
type pageStreamLab struct {
	t      *testing.T
	e      *Engine
	rng    *rand.Rand
	index  uint64
	timeMs int64
	has    map[int64]float64
}

func (l *pageStreamLab) apply(kind entry.Kind, body []byte) {
	l.t.Helper()
	l.index++
	if err := l.e.Apply(0, &entry.Entry{Kind: kind, Term: 1, Index: l.index, Body: body}); err != nil {
		l.t.Fatal(err)
	}
}

// write appends samples in order of time, some with the time of the one before.
func (l *pageStreamLab) write(samples int) {
	var batch series.BatchEncoder
	only := batch.Define(benchKey(0))
	for range samples {
		if l.rng.IntN(10) > 0 {
			l.timeMs += 1 + l.rng.Int64N(3)
		}
		mantissa := l.rng.Int64N(100_000)
		batch.Append(only, l.timeMs, mantissa, 1)
		l.has[l.timeMs] = series.Float64(mantissa, 1)
	}
	l.apply(entry.Samples, samplesBody(batch.AppendTo(nil)))
}

// late writes a sample that is older than others.
func (l *pageStreamLab) late() {
	var batch series.BatchEncoder
	at, mantissa := l.rng.Int64N(l.timeMs), l.rng.Int64N(100_000)
	batch.Append(batch.Define(benchKey(0)), at, mantissa, 1)
	l.has[at] = series.Float64(mantissa, 1)
	l.apply(entry.Samples, samplesBody(batch.AppendTo(nil)))
}

func (l *pageStreamLab) remove() {
	from := l.rng.Int64N(l.timeMs)
	to := from + l.rng.Int64N(100)
	for at := from; at <= to; at++ {
		delete(l.has, at)
	}
	l.apply(entry.Delete, entry.DeleteBody([]uint32{0}, from, to))
}

// check compares a range and returns the number of chunks that it came in.
func (l *pageStreamLab) check(fromMs, toMs int64) (chunks int) {
	l.t.Helper()
	var times []int64
	var values []float64
	request := &scan.Request{Selector: scan.Selector{Metric: "cpu.usage"}, FromMs: fromMs, ToMs: toMs}
	err := l.e.Scan(context.Background(), request, func(_ int, c *scan.Chunk) error {
		times, values = append(times, c.Times...), append(values, c.Values...)
		chunks++
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	var want []int64
	for at := range l.has {
		if at >= fromMs && at <= toMs {
			want = append(want, at)
		}
	}
	slices.Sort(want)
	if !slices.Equal(times, want) {
		l.t.Fatalf("[%d, %d]: %d times, want %d", fromMs, toMs, len(times), len(want))
	}
	for i, at := range times {
		if values[i] != l.has[at] {
			l.t.Fatalf("[%d, %d]: at %d %v, want %v", fromMs, toMs, at, values[i], l.has[at])
		}
	}
	return chunks
}

// TestPageStream: a long chain of pages returns the same as a map of its samples, where it
// is read in stretches as well as where that cannot be: times that come again where a page
// begins, late samples, deletes, segments before it and beside it.
func TestPageStream(t *testing.T) {
	streamed, whole := 0, 0
	for seed := range uint64(storagetest.Seeds(6)) {
		e, err := Open(Options{FS: vfs.NewMemFS(), Dir: "/data", Shards: 1, ExtentBytes: extentBytesSmall, SyncLog: func() error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		l := &pageStreamLab{t: t, e: e, rng: rand.New(rand.NewPCG(seed, 1)), timeMs: 1_000_000, has: map[int64]float64{}}
		for range 6 {
			switch {
			case seed%2 == 0: // in order only
			case l.rng.IntN(3) == 0:
				l.late()
			case l.rng.IntN(3) == 0:
				l.remove()
			}
			if seed%3 == 0 && l.rng.IntN(4) == 0 {
				if err := e.Checkpoint(Checkpoint{Applied: []uint64{l.index}, SealAll: true}); err != nil {
					t.Fatal(err)
				}
				if err := e.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			l.write(1 + l.rng.IntN(6_000))
			if chunks := l.check(0, l.timeMs); seed%3 == 0 {
				// segments come in chunks, too
			} else if chunks > 1 {
				streamed++
			} else {
				whole++
			}
			from := l.rng.Int64N(l.timeMs)
			l.check(from, from+l.rng.Int64N(20_000))
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if streamed == 0 || whole == 0 {
		t.Errorf("%d answers in stretches, %d in one", streamed, whole)
	}
}
