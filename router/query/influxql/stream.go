package influxql

import (
	"errors"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// isOneStream reports whether all rows are of one series in the order of time, so that they
// can be read a stretch of time after the other.
func (s *selection) isOneStream() bool {
	if len(s.by) > 0 || len(s.stmt.Sources) != 1 || s.slimit > 0 || s.soffset > 0 {
		return false
	}
	_, ok := s.stmt.Sources[0].(*ql.Measurement)
	return ok
}

// rawStream answers rows stretch by stretch: a LIMIT is reached early, and no more than a
// stretch is held.
func (s *selection) rawStream(out answer.Sink) error {
	m, ok := s.stmt.Sources[0].(*ql.Measurement)
	if !ok {
		return nil
	}
	series := s.newRawSeries(&group{name: m.Name}, out)
	for _, stretch := range s.stretches() {
		if err := s.rawStretch(series, stretch, splitsMax); err != nil || series.isFull() {
			return err
		}
	}
	return nil
}

// splitsMax bounds how often a stretch is halved.
const splitsMax = 12

// rawStretch answers the rows of a stretch; of one that needs more memory than there is,
// first those of one half, then those of the other.
func (s *selection) rawStretch(series *rawSeries, of span, splits int) error {
	outer := s.held
	s.held = &holding{}
	tables, err := s.read(of)
	if err == nil {
		err = series.answer(tables, of)
		s.release(s.held)
		s.held = outer
		return err
	}
	s.release(s.held)
	s.held = outer
	var limit *scan.LimitError
	if !errors.As(err, &limit) || limit.What != "bytes" || splits == 0 || of.to-of.from < int64(time.Second) {
		return err
	}
	halves := []span{{of.from, of.from/2 + of.to/2}, {of.from/2 + of.to/2 + 1, of.to}}
	if !s.ascending {
		halves[0], halves[1] = halves[1], halves[0]
	}
	for _, half := range halves {
		if err := s.rawStretch(series, half, splits-1); err != nil || series.isFull() {
			return err
		}
	}
	return nil
}

// Stretches begin with an hour and grow by this factor.
const stretchFactor = 4

// stretches cuts the span of the selection. Where the answer begins at a time that is
// given, the first stretch begins there and is the shortest; where it begins before all
// points, the stretches are the longer the older they are.
func (s *selection) stretches() []span {
	now := s.now.UnixNano()
	var cuts []int64 // each the first time of a stretch, but of the first one; ascending
	switch {
	case s.ascending && s.from > ql.MinTime:
		for d := int64(time.Hour); d < ql.MaxTime/stretchFactor && s.from < ql.MaxTime-d && s.from+d < s.to; d *= stretchFactor {
			cuts = append(cuts, s.from+d)
		}
	default:
		newest := min(s.to, now)
		for d := int64(time.Hour); d < ql.MaxTime/stretchFactor && newest > ql.MinTime+d && newest-d > s.from; d *= stretchFactor {
			cuts = append([]int64{newest - d}, cuts...)
		}
	}
	var all []span
	from := s.from
	for _, cut := range cuts {
		all = append(all, span{from, cut - 1})
		from = cut
	}
	all = append(all, span{from, s.to})
	if !s.ascending {
		for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
			all[i], all[j] = all[j], all[i]
		}
	}
	return all
}
