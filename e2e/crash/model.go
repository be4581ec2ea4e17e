package crash

import (
	"fmt"
	"slices"
)

// point is what the model knows about one (series, time).
type point struct {
	settled version // of the last acknowledged write, or of the last check
	used    version // highest version sent
}

// modelSeries is one series: the sample with index i has the time
// firstMs + i·stepMs.
type modelSeries struct {
	name    string // value of the tag series
	hash    uint64 // identity for valueOf
	firstMs int64
	stepMs  int64
	aged    bool // lies in the past, where retention cuts
	points  []point
	// open are the writes since the point was settled whose fate is unknown,
	// oldest first.
	open map[int][]version
}

func (s *modelSeries) timeMs(index int) int64 { return s.firstMs + int64(index)*s.stepMs }

// indexOf is the inverse of timeMs; ok is false for a time that is never written.
func (s *modelSeries) indexOf(timeMs int64) (index int, ok bool) {
	offset := timeMs - s.firstMs
	if offset < 0 || offset%s.stepMs != 0 || offset/s.stepMs >= int64(len(s.points)) {
		return 0, false
	}
	return int(offset / s.stepMs), true
}

// grow makes room for indices below count.
func (s *modelSeries) grow(count int) {
	if missing := count - len(s.points); missing > 0 {
		s.points = append(s.points, make([]point, missing)...)
	}
}

// send notes that a write of the point is on its way and returns its version.
func (s *modelSeries) send(index int) version {
	s.grow(index + 1)
	s.points[index].used++
	v := s.points[index].used
	s.open[index] = append(s.open[index], v)
	return v
}

// sendDelete notes that a delete of [from, to) is on its way. Points that were
// never written need no note.
func (s *modelSeries) sendDelete(from, to int) {
	for index := from; index < min(to, len(s.points)); index++ {
		if s.points[index].used > 0 {
			s.open[index] = append(s.open[index], 0)
		}
	}
}

// acknowledge settles a point at the write: everything before it is over, while
// later writes that are on their way stay open.
func (s *modelSeries) acknowledge(index int, v version) {
	s.points[index].settled = v
	open := s.open[index]
	if rest := open[slices.Index(open, v)+1:]; len(rest) > 0 {
		s.open[index] = rest
		return
	}
	delete(s.open, index)
}

// acknowledgeDelete settles [from, to) as deleted.
func (s *modelSeries) acknowledgeDelete(from, to int) {
	for index := from; index < min(to, len(s.points)); index++ {
		if s.points[index].used > 0 {
			s.acknowledge(index, 0)
		}
	}
}

// may reports whether the point may be seen at the version.
func (s *modelSeries) may(index int, v version) bool {
	return s.points[index].settled == v || slices.Contains(s.open[index], v)
}

// observe makes what a check saw binding.
func (s *modelSeries) observe(index int, v version) {
	s.points[index].settled = v
	delete(s.open, index)
}

// chapter is the data of some cycles under one metric. Chapters bound how much a
// check has to read.
type chapter struct {
	seed    uint64
	metric  string
	writers []*modelWriter
	cutMs   int64 // samples before it may be gone: the latest retention cut
}

// modelWriter is the part of a chapter that one connection writes; nobody else
// writes to its series, so the order of its writes is known.
type modelWriter struct {
	number int
	series []*modelSeries
	head   int // next index of the series that grow
}

func newChapter(config *Config, number int, nowMs int64) *chapter {
	c := &chapter{seed: config.Seed, metric: fmt.Sprintf("crash_%d", number)}
	for w := range config.Writers {
		writer := &modelWriter{number: w}
		for i := range config.AgedSeries {
			aged := c.newSeries(writer, fmt.Sprintf("aged%d", i), nowMs-agedSpanMs, agedStepMs)
			aged.aged = true
			aged.grow(int(agedSpanMs / agedStepMs))
		}
		for i := range config.Series {
			c.newSeries(writer, fmt.Sprintf("s%d", i), nowMs, freshStepMs)
		}
		c.writers = append(c.writers, writer)
	}
	return c
}

func (c *chapter) newSeries(writer *modelWriter, name string, firstMs, stepMs int64) *modelSeries {
	s := &modelSeries{name: name, firstMs: firstMs, stepMs: stepMs, open: map[int][]version{}}
	s.hash = c.seed
	for _, letter := range fmt.Sprintf("%s/%d/%s", c.metric, writer.number, name) {
		s.hash = mix(s.hash ^ uint64(letter))
	}
	writer.series = append(writer.series, s)
	return s
}

// value of a write within the chapter.
func (c *chapter) value(s *modelSeries, index int, v version) float64 {
	return valueOf(c.seed, s.hash, index, v)
}
