package auditor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// write is one sample on its way.
type write struct {
	series *modelSeries
	index  int
	v      version
}

// operation is one request: samples, or a delete of one series' stretch.
type operation struct {
	writes   []write
	deletion *modelSeries
	from, to int // indices of the deletion
}

// draw decides what a client does next and notes it in the model.
func (w *modelWriter) draw(random *rand.Rand) operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch draw := random.IntN(100); {
	case draw < 8 && w.mu.head > 0:
		return w.drawDeleteLocked(random)
	case draw < 30 && w.mu.head > 0:
		return w.drawOverwriteLocked(random)
	}
	return w.drawAppendLocked(random)
}

// drawAppendLocked continues some series by some rows, and sometimes leaves a gap
// that an overwrite fills later, out of order.
func (w *modelWriter) drawAppendLocked(random *rand.Rand) operation {
	var op operation
	rows := 1 + random.IntN(4)
	start := random.IntN(len(w.mu.series))
	for i := range min(6, len(w.mu.series)) {
		series := w.mu.series[(start+i)%len(w.mu.series)]
		for row := range rows {
			op.add(series, w.mu.head+row)
		}
	}
	w.mu.head += rows
	if random.IntN(20) == 0 {
		w.mu.head += 3
	}
	return op
}

// drawOverwriteLocked writes a stretch again, mostly of what is new, or for the first
// time where there was a gap.
func (w *modelWriter) drawOverwriteLocked(random *rand.Rand) operation {
	var op operation
	from := w.drawIndexLocked(random)
	for range 1 + random.IntN(3) {
		series := w.mu.series[random.IntN(len(w.mu.series))]
		for index := from; index < min(from+1+random.IntN(10), w.mu.head); index++ {
			if len(series.doubt[index]) > 0 || index < len(series.points) && series.points[index].used == versionsMax-1 {
				continue
			}
			op.add(series, index)
		}
	}
	return op
}

func (w *modelWriter) drawDeleteLocked(random *rand.Rand) operation {
	series := w.mu.series[random.IntN(len(w.mu.series))]
	from := w.drawIndexLocked(random)
	op := operation{deletion: series, from: from, to: min(from+1+random.IntN(20), w.mu.head)}
	series.sendDelete(op.from, op.to)
	return op
}

// drawIndexLocked favours the newest points, which are in memory and on their way.
func (w *modelWriter) drawIndexLocked(random *rand.Rand) int {
	if random.IntN(2) == 0 {
		return max(0, w.mu.head-1-random.IntN(30))
	}
	return random.IntN(w.mu.head)
}

// add puts a sample into the request.
func (o *operation) add(series *modelSeries, index int) {
	o.writes = append(o.writes, write{series: series, index: index, v: series.send(index)})
}

// acknowledge settles everything that the operation did, in order.
func (w *modelWriter) acknowledge(o *operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.deletion != nil {
		o.deletion.acknowledgeDelete(o.from, o.to)
		return
	}
	for _, write := range o.writes {
		write.series.acknowledge(write.index, write.v)
	}
}

// empty reports whether there is nothing to send.
func (o *operation) empty() bool { return o.deletion == nil && len(o.writes) == 0 }

// lines writes line protocol, one sample on a line, in the order of the writes.
func (w *modelWriter) lines(metric string, writes []write) []byte {
	var text []byte
	for _, write := range writes {
		text = fmt.Appendf(text, "%s,client=%d,series=%s value=", metric, w.number, write.series.tag())
		text = appendValue(text, origin{w.number, write.series.number, write.index, write.v}.value())
		text = fmt.Appendf(text, " %d\n", write.series.timeMs(write.index))
	}
	return text
}

// deleteBody is the query that deletes a stretch of a series.
func (w *modelWriter) deleteBody(metric string, o *operation) ([]byte, error) {
	return json.Marshal(map[string]any{
		"start": o.deletion.timeMs(o.from), "end": o.deletion.timeMs(o.to - 1), "msResolution": true, "delete": true,
		"queries": []any{map[string]any{
			"aggregator": "none", "metric": metric,
			"tags": map[string]string{"client": strconv.Itoa(w.number), "series": o.deletion.tag()},
		}},
	})
}
