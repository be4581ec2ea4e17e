package model

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// write is one sample on its way.
type write struct {
	series *series
	index  int
	v      version
}

// Operation is one request: samples, or a delete of one series' stretch.
type Operation struct {
	writes   []write
	deletion *series
	from, to int  // indices of the deletion
	aged     bool // some samples are long past
}

// Samples returns how many samples the operation writes.
func (o *Operation) Samples() int { return len(o.writes) }

// Deletes reports whether the operation deletes.
func (o *Operation) Deletes() bool { return o.deletion != nil }

// Aged reports whether the operation writes samples that a retention may refuse later on.
func (o *Operation) Aged() bool { return o.aged }

// Empty reports whether there is nothing to send.
func (o *Operation) Empty() bool { return o.deletion == nil && len(o.writes) == 0 }

// Draw decides what a client does next and notes it as on its way.
func (w *Writer) Draw(random *rand.Rand) Operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	growing := w.mu.series[w.config.Aged:]
	switch draw := random.IntN(100); {
	case draw < 7 && w.mu.head > 0:
		return w.drawDeleteLocked(random, growing[random.IntN(len(growing))])
	case draw < 26 && w.mu.head > 0:
		return w.drawOverwriteLocked(random, growing)
	case draw < 36 && w.config.Aged > 0:
		return w.drawAgedLocked(random)
	case draw < 46 && len(growing) < w.config.SeriesMax:
		w.addSeries("s"+strconv.Itoa(len(growing)), w.nowMs, youngStepMs)
	}
	return w.drawAppendLocked(random, w.mu.series[w.config.Aged:])
}

// appendSeriesMax is how many series a request continues at most.
const appendSeriesMax = 10

// drawAppendLocked continues some series by some rows, and sometimes leaves a gap
// that an overwrite fills later, out of order.
func (w *Writer) drawAppendLocked(random *rand.Rand, growing []*series) Operation {
	var op Operation
	rows := 1 + random.IntN(w.config.RowsMax)
	start := random.IntN(len(growing))
	for i := range min(appendSeriesMax, len(growing)) {
		s := growing[(start+i)%len(growing)]
		for row := range rows {
			op.add(s, w.mu.head+row)
		}
	}
	w.mu.head += rows
	if random.IntN(20) == 0 {
		w.mu.head += 5
	}
	return op
}

// drawOverwriteLocked writes a stretch again, mostly of what is new, or for the first time
// where there was a gap. A request may hold a point twice: then the later one has to win.
func (w *Writer) drawOverwriteLocked(random *rand.Rand, growing []*series) Operation {
	var op Operation
	from := w.drawIndexLocked(random)
	for range 1 + random.IntN(3) {
		s := growing[random.IntN(len(growing))]
		for index := from; index < min(from+1+random.IntN(20), w.mu.head); index++ {
			if w.config.ServerEnds || len(s.doubt[index]) == op.times(s, index) {
				op.add(s, index)
			}
		}
	}
	return op
}

// drawAgedLocked writes some samples long past, in any order.
func (w *Writer) drawAgedLocked(random *rand.Rand) Operation {
	op := Operation{aged: true}
	for range 20 {
		s := w.mu.series[random.IntN(w.config.Aged)]
		if index := random.IntN(len(s.points)); s.timeMs(index) >= w.mu.keepMs {
			op.add(s, index)
		}
	}
	return op
}

func (w *Writer) drawDeleteLocked(random *rand.Rand, s *series) Operation {
	from := w.drawIndexLocked(random)
	op := Operation{deletion: s, from: from, to: min(from+1+random.IntN(40), w.mu.head)}
	s.sendDelete(op.from, op.to)
	return op
}

// drawIndexLocked favours the newest points, which are in memory and on their way.
func (w *Writer) drawIndexLocked(random *rand.Rand) int {
	if random.IntN(2) == 0 {
		return max(0, w.mu.head-1-random.IntN(30))
	}
	return random.IntN(w.mu.head)
}

// add puts a sample into the request.
func (o *Operation) add(s *series, index int) {
	o.writes = append(o.writes, write{series: s, index: index, v: s.send(index)})
}

// times returns how often the request has a point.
func (o *Operation) times(s *series, index int) (n int) {
	for _, w := range o.writes {
		if w.series == s && w.index == index {
			n++
		}
	}
	return n
}

// Acknowledge makes binding everything that the operation did, in order.
func (w *Writer) Acknowledge(o *Operation) {
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

// Lines words the samples in line protocol, one on a line, in the order of the writes.
func (w *Writer) Lines(o *Operation) []byte {
	var text []byte
	for _, write := range o.writes {
		text = fmt.Appendf(text, "%s,client=%d,series=%s value=", w.config.Metric, w.Number, write.series.name)
		text = appendValue(text, write.series.value(write.index, write.v))
		text = fmt.Appendf(text, " %d\n", write.series.timeMs(write.index))
	}
	return text
}

// Puts words the samples as OpenTSDB's put lines.
func (w *Writer) Puts(o *Operation) []byte {
	var text []byte
	for _, write := range o.writes {
		text = fmt.Appendf(text, "put %s %d ", w.config.Metric, write.series.timeMs(write.index))
		text = appendValue(text, write.series.value(write.index, write.v))
		text = fmt.Appendf(text, " client=%d series=%s\n", w.Number, write.series.name)
	}
	return text
}

// Deletion words the query that deletes a stretch of a series.
func (w *Writer) Deletion(o *Operation) ([]byte, error) {
	return json.Marshal(map[string]any{
		"start": o.deletion.timeMs(o.from), "end": o.deletion.timeMs(o.to - 1), "msResolution": true, "delete": true,
		"queries": []any{map[string]any{
			"aggregator": "none", "metric": w.config.Metric,
			"tags": map[string]string{"client": strconv.Itoa(w.Number), "series": o.deletion.name},
		}},
	})
}
