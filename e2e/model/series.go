package model

import (
	"slices"
	"time"
)

// point is what the model knows about one (series, time).
type point struct {
	binding version // of the last acknowledged write, or of the last check
	used    version // highest version sent
}

// series is one series: the sample with index i has the time firstMs + i·stepMs.
type series struct {
	name    string // value of the tag series
	hash    uint64 // identity, for valueOf
	firstMs int64
	stepMs  int64
	points  []point
	// doubt has writes, and deletes as 0, that were sent and not acknowledged: on
	// their way, or given up.
	doubt   map[int][]version
	deletes int // sent

	answered []answered // the last ones
	weak     map[weakWrite]bool

	serverEnds bool // see Config
}

func (s *series) timeMs(index int) int64 { return s.firstMs + int64(index)*s.stepMs }

// grow makes room for indices below count.
func (s *series) grow(count int) {
	if missing := count - len(s.points); missing > 0 {
		s.points = append(s.points, make([]point, missing)...)
	}
}

// send notes that a write of the point is on its way and returns its version.
func (s *series) send(index int) version {
	s.grow(index + 1)
	s.points[index].used++
	v := s.points[index].used
	s.doubt[index] = append(s.doubt[index], v)
	return v
}

// sendDelete notes that a delete of [from, to) is on its way. Should it stay in
// doubt, it can hide what is written later where nothing is yet.
func (s *series) sendDelete(from, to int) {
	s.deletes++
	s.grow(to)
	for index := from; index < to; index++ {
		s.doubt[index] = append(s.doubt[index], 0)
	}
}

// acknowledge binds a point to a write.
func (s *series) acknowledge(index int, v version) {
	if s.weak[weakWrite{index, v}] {
		s.doubt[index] = append(s.doubt[index], s.points[index].binding, v)
	}
	if !s.serverEnds {
		s.noteAnswered(index, v, time.Now())
	}
	s.bind(index, v)
}

// bind makes a version binding. Of a server that ends all that was in doubt before is over.
func (s *series) bind(index int, v version) {
	s.points[index].binding = v
	if s.serverEnds {
		delete(s.doubt, index)
		return
	}
	s.trust(index, v)
}

// acknowledgeDelete binds [from, to) as deleted.
func (s *series) acknowledgeDelete(from, to int) {
	for index := from; index < to; index++ {
		s.acknowledge(index, 0)
	}
}

// trust takes one write out of doubt.
func (s *series) trust(index int, v version) {
	doubt := s.doubt[index]
	at := slices.Index(doubt, v)
	if at < 0 {
		return
	}
	if len(doubt) == 1 {
		delete(s.doubt, index)
		return
	}
	s.doubt[index] = slices.Delete(doubt, at, at+1)
}

// may reports whether the point may be seen at the version.
func (s *series) may(index int, v version) bool {
	return s.points[index].binding == v || slices.Contains(s.doubt[index], v)
}

// clone copies the points in [from, to), for a comparison later on.
func (s *series) clone(from, to int) seriesView {
	view := seriesView{from: from, doubt: map[int][]version{}, deletes: s.deletes}
	to = min(to, len(s.points))
	if from >= to {
		return view // nothing yet
	}
	view.points = slices.Clone(s.points[from:to])
	for index := from; index < to; index++ {
		if doubt := s.doubt[index]; len(doubt) > 0 {
			view.doubt[index] = slices.Clone(doubt)
		}
	}
	return view
}

// seriesView is a stretch of a series at one moment.
type seriesView struct {
	from    int
	points  []point
	doubt   map[int][]version
	deletes int
}

// at returns a point and what is in doubt about it; a point beyond the view was not
// written then.
func (v *seriesView) at(index int) (point, []version) {
	if index < v.from || index >= v.from+len(v.points) {
		return point{}, nil
	}
	return v.points[index-v.from], v.doubt[index]
}

// between reports whether a read that went from one moment to another may see a point
// at the version: as it was binding or in doubt at either, or sent in between.
func between(begin, end *seriesView, index int, v version) bool {
	before, doubtBefore := begin.at(index)
	after, doubtAfter := end.at(index)
	switch {
	case v == before.binding || v == after.binding,
		slices.Contains(doubtBefore, v), slices.Contains(doubtAfter, v):
		return true
	case v == 0:
		return before.used == 0 || end.deletes > begin.deletes
	}
	return v > before.used && v <= after.used
}
