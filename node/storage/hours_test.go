package storage

import (
	"math"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// hoursBody returns an entry with one batch of hours, whose samples are as they are given.
func hoursBody(nowMs int64, key series.Key, times []int64, values []float64) []byte {
	var e series.BatchEncoder
	e.SetHours()
	ref := e.Define(key)
	for i, at := range times {
		n := series.DecimalOf(values[i], 0)
		e.Append(ref, at, n.Mantissa, n.Scale)
	}
	batch := e.AppendTo(nil)
	return append(entry.AppendBatchHeader(entry.AppendTime(nil, nowMs), series.BatchID{}, len(batch)), batch...)
}

// TestMarkAlone: a NaN that begins an hour is no hour without the rest.
func TestMarkAlone(t *testing.T) {
	t.Parallel()
	n, log := thinLab(t, thinDayMs)
	log.cutHours(thinDayMs + 2*segment.DayMs)
	h := series.Hour{StartMs: thinDayMs + 3*segment.HourMs, Count: 2, Sum: 3, Min: 1, Max: 2, First: 1, Last: 2, TimeMs: thinDayMs + 4*segment.HourMs - 1, Value: 2}
	times, values := h.AppendSamples(nil, nil)
	log.add(entry.Samples, hoursBody(log.nowMs, log.keys[0], times[:1], values[:1]), func(*slowShard) {})
	log.add(entry.Samples, hoursBody(log.nowMs, log.keys[0], times[:6], values[:6]), func(*slowShard) {})
	n.apply(0, math.MaxInt)
	n.check("a mark alone")
}

// TestHoursResumeOnce: what stalls is applied once and in order, whoever resumes at the same time.
func TestHoursResumeOnce(t *testing.T) {
	t.Parallel()
	n, log := thinLab(t, thinDayMs)
	log.cutHours(thinDayMs + 2*segment.DayMs)
	n.apply(0, math.MaxInt)
	s := n.e.shards[0]
	const entries = 200
	for i := range int64(entries) {
		at := thinDayMs + segment.DayMs + i%20*segment.HourMs
		log.add(entry.Samples, hoursBody(log.nowMs, log.keys[0], []int64{at}, []float64{float64(i + 1)}), func(m *slowShard) {
			if samples := m.samples[string(log.keys[0])]; samples[at] == 0 {
				samples[at] = math.Float64bits(float64(i + 1))
			}
		})
		last := &log.entries[len(log.entries)-1]
		n.written = append(n.written, last)
		n.length.Store(int64(len(n.written)))
		s.mu.backlog = append(s.mu.backlog, backlogEntry{n.epoch, last.entry})
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := n.e.Resume(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := n.appliedTo(0); got != uint64(len(log.entries)) {
		t.Fatalf("%d entries were applied, want %d", got, len(log.entries))
	}
	n.check("resumed")
}
