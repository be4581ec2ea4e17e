package storage

import (
	"math"
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
