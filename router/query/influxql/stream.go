package influxql

import (
	"errors"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// isOneStream reports whether all rows are of one series in the order of time, so that they
// can be read a range of time after the other.
func (s *selection) isOneStream() bool {
	if len(s.by) > 0 || len(s.stmt.Sources) != 1 || s.slimit > 0 || s.soffset > 0 {
		return false
	}
	_, ok := s.stmt.Sources[0].(*ql.Measurement)
	return ok
}

// rawStream answers rows range by range: a LIMIT is reached early, and no more than a
// range is held.
func (s *selection) rawStream(out answer.Sink) error {
	m, ok := s.stmt.Sources[0].(*ql.Measurement)
	if !ok {
		return nil
	}
	series := s.newRawSeries(&load.Group{Name: m.Name}, out)
	for _, within := range s.ranges() {
		if err := s.rawRange(series, within, splitsMax); err != nil || series.isFull() {
			return err
		}
	}
	return nil
}

// splitsMax bounds how often a range is halved.
const splitsMax = 12

// rawRange answers the rows of a range; of one that needs more memory than there is,
// first those of one half, then those of the other.
func (s *selection) rawRange(series *rawSeries, of load.Span, splits int) error {
	outer := s.held
	s.held = &load.Holding{}
	tables, err := s.read(of)
	if err == nil {
		err = series.answer(tables, of)
		s.Release(s.held)
		s.held = outer
		return err
	}
	s.Release(s.held)
	s.held = outer
	var limit *scan.LimitError
	if !errors.As(err, &limit) || limit.What != "bytes" || splits == 0 || of.To-of.From < int64(time.Second) {
		return err
	}
	halves := []load.Span{{From: of.From, To: of.From/2 + of.To/2}, {From: of.From/2 + of.To/2 + 1, To: of.To}}
	if !s.ascending {
		halves[0], halves[1] = halves[1], halves[0]
	}
	for _, half := range halves {
		if err := s.rawRange(series, half, splits-1); err != nil || series.isFull() {
			return err
		}
	}
	return nil
}

// Stretches begin with an hour and grow by this factor.
const rangeGrowth = 4

// ranges cuts the span of the selection. Where the answer begins at a time that is
// given, the first range begins there and is the shortest; where it begins before all
// points, the ranges are the longer the older they are.
func (s *selection) ranges() []load.Span {
	now := s.now.UnixNano()
	var cuts []int64 // each the first time of a range, but of the first one; ascending
	switch {
	case s.ascending && s.From > ql.MinTime:
		for d := int64(time.Hour); d < ql.MaxTime/rangeGrowth && s.From < ql.MaxTime-d && s.From+d < s.To; d *= rangeGrowth {
			cuts = append(cuts, s.From+d)
		}
	default:
		newest := min(s.To, now)
		for d := int64(time.Hour); d < ql.MaxTime/rangeGrowth && newest > ql.MinTime+d && newest-d > s.From; d *= rangeGrowth {
			cuts = append([]int64{newest - d}, cuts...)
		}
	}
	var all []load.Span
	from := s.From
	for _, cut := range cuts {
		all = append(all, load.Span{From: from, To: cut - 1})
		from = cut
	}
	all = append(all, load.Span{From: from, To: s.To})
	if !s.ascending {
		for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
			all[i], all[j] = all[j], all[i]
		}
	}
	return all
}
