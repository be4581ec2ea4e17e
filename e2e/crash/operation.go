package crash

import (
	"math/rand/v2"
	"strconv"
)

// Times of the data. Fresh series grow from the chapter's beginning, in small
// steps; aged series reach back by many partitions, so that a shrinking retention
// has something to cut.
const (
	freshStepMs int64 = 100
	agedStepMs  int64 = 10 * 60 * 1000
	agedSpanMs  int64 = 220 * 3600 * 1000
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

// drawOperation decides what a writer does next and notes it in the model. Times
// of aged series before keepFromMs are left alone: the server refuses them.
func drawOperation(config *Config, c *chapter, w *modelWriter, random *rand.Rand, keepFromMs int64) operation {
	fresh := w.series[config.AgedSeries:]
	switch draw := random.IntN(100); {
	case draw < 5 && w.head > 0:
		return drawDelete(fresh[random.IntN(len(fresh))], w.head, random)
	case draw < 20 && w.head > 0:
		return drawOverwrite(fresh, w.head, random)
	case draw < 30 && config.AgedSeries > 0:
		return drawAged(w.series[:config.AgedSeries], random, keepFromMs)
	case draw < 40 && len(w.series) < config.SeriesMax:
		c.newSeries(w, "n"+strconv.Itoa(len(w.series)), fresh[0].firstMs, freshStepMs)
	}
	return drawAppend(w, w.series[config.AgedSeries:], random)
}

// drawAppend continues some series by some rows, and sometimes leaves a gap that
// an overwrite fills later, out of order.
func drawAppend(w *modelWriter, fresh []*modelSeries, random *rand.Rand) operation {
	var op operation
	rows := 1 + random.IntN(12)
	start := random.IntN(len(fresh))
	for i := range min(10, len(fresh)) {
		series := fresh[(start+i)%len(fresh)]
		for row := range rows {
			op.add(series, w.head+row)
		}
	}
	w.head += rows
	if random.IntN(20) == 0 {
		w.head += 5
	}
	return op
}

// drawOverwrite writes a stretch again, or for the first time where there was a
// gap. A request may hold a point twice: then the later one has to win.
func drawOverwrite(fresh []*modelSeries, head int, random *rand.Rand) operation {
	var op operation
	from := random.IntN(head)
	for range 1 + random.IntN(3) {
		series := fresh[random.IntN(len(fresh))]
		for index := from; index < min(from+1+random.IntN(30), head); index++ {
			op.add(series, index)
		}
	}
	return op
}

// drawAged writes some samples long past, in any order.
func drawAged(aged []*modelSeries, random *rand.Rand, keepFromMs int64) operation {
	var op operation
	for range 20 {
		series := aged[random.IntN(len(aged))]
		index := random.IntN(len(series.points))
		if series.timeMs(index) >= keepFromMs {
			op.add(series, index)
		}
	}
	return op
}

func drawDelete(series *modelSeries, head int, random *rand.Rand) operation {
	from := random.IntN(head)
	op := operation{deletion: series, from: from, to: min(from+1+random.IntN(50), head)}
	series.sendDelete(op.from, op.to)
	return op
}

func (o *operation) add(series *modelSeries, index int) {
	o.writes = append(o.writes, write{series: series, index: index, v: series.send(index)})
}

// acknowledge settles everything that the operation did, in order.
func (o *operation) acknowledge() {
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
