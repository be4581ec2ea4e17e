package influxql

import (
	"slices"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// aggregate answers calls.
func (s *selection) aggregate(out answer.Sink) error {
	reads := s.planReads()
	by := load.NewGrouper(s.by, len(reads))
	for i, r := range reads {
		tables, err := s.readFor(r)
		if err != nil {
			return err
		}
		for _, t := range tables {
			by.Add(i, t)
		}
	}
	for _, g := range s.inOrder(by.Sorted()) {
		if err := s.Ctx.Err(); err != nil {
			return err
		}
		held := &load.Holding{}
		err := s.answerGroup(g, held, out)
		s.Release(held)
		if err != nil {
			return err
		}
	}
	return nil
}

// aggregateRead is one read of all sources, for the calls that are computed from the same span.
type aggregateRead struct {
	span  load.Span
	calls []*call // innermost ones
}

func (s *selection) planReads() []*aggregateRead {
	var reads []*aggregateRead
	for _, c := range s.calls {
		c = c.base()
		at := slices.IndexFunc(reads, func(r *aggregateRead) bool { return r.span == c.span })
		if at < 0 {
			at = len(reads)
			reads = append(reads, &aggregateRead{span: c.span})
		}
		c.read = at
		reads[at].calls = append(reads[at].calls, c)
	}
	return reads
}

// readFor reads windows where that is enough, else samples.
func (s *selection) readFor(r *aggregateRead) ([]*load.Table, error) {
	loaders, read, err := s.planWindows(r)
	if err != nil {
		return nil, err
	}
	if read == nil {
		return s.read(r.span)
	}
	var all []*load.Table
	onlyLast := s.interval.DurationNs == 0 && !slices.ContainsFunc(r.calls, func(c *call) bool { return c.name != "last" })
	for _, l := range loaders {
		if onlyLast {
			tables, ok, err := l.Newest(r.span, read.Fields)
			if err != nil {
				return nil, err
			}
			if ok {
				all = append(all, tables...)
				continue
			}
		}
		tables, err := l.Windows(r.span, read)
		if err != nil {
			return nil, err
		}
		all = append(all, tables...)
	}
	return all, nil
}

// planWindows returns which windows to read; a nil read: samples have to be read. That is so
// where a field is compared or answered beside a point that was picked, where a source is
// a subquery, and for functions of all values.
func (s *selection) planWindows(r *aggregateRead) ([]*load.Loader, *load.WindowRead, error) {
	read := &load.WindowRead{Interval: s.interval}
	for _, c := range r.calls {
		aggregates, ok := aggregatesOf(c.name)
		if !ok {
			return nil, nil, nil
		}
		if s.inputs[c.input].Type != ql.Float {
			return nil, nil, nil
		}
		read.Aggregates |= aggregates
		if name := s.inputs[c.input].Val; !slices.Contains(read.Fields, name) {
			read.Fields = append(read.Fields, name)
		}
		read.Timed = read.Timed || c.selector && s.interval.DurationNs == 0
	}
	var loaders []*load.Loader
	for _, source := range s.stmt.Sources {
		m, ok := source.(*ql.Measurement)
		if !ok {
			return nil, nil, nil
		}
		l, err := s.loader(m)
		if err != nil {
			return nil, nil, err
		}
		if l == nil {
			continue
		}
		if len(l.Condition.Fields) > 0 || s.picksFields(l) {
			return nil, nil, nil
		}
		if !s.groupedByAll(l) && slices.ContainsFunc(r.calls, func(c *call) bool { return c.name == "first" || c.name == "last" }) {
			read.Timed = true // of several series, the one that was first or last
		}
		loaders = append(loaders, l)
	}
	return loaders, read, nil
}

// picksFields reports whether fields are answered beside calls.
func (s *selection) picksFields(l *load.Loader) bool {
	return slices.ContainsFunc(s.auxiliary, func(a auxiliary) bool { return l.Of.HasField(s.inputs[a.input].Val) })
}

// groupedByAll reports whether each group is one series of each field.
func (s *selection) groupedByAll(l *load.Loader) bool {
	return !slices.ContainsFunc(l.Of.Tags, func(name string) bool { return !slices.Contains(s.by, name) })
}

// answerGroup computes the calls of a group and answers its rows.
func (s *selection) answerGroup(g *load.Group, held *load.Holding, out answer.Sink) error {
	points := make([][]point, len(s.calls))
	found := false
	for i, c := range s.calls {
		all, err := s.pointsOf(c, g, held)
		if err != nil {
			return err
		}
		all = all[min(s.offset, len(all)):]
		if s.limit > 0 {
			all = all[:min(s.limit, len(all))]
		}
		points[i] = all
		found = found || len(all) > 0
	}
	if !found {
		return nil
	}
	if err := out.Series(s.head(g)); err != nil {
		return err
	}
	symbols, values := s.newRow()
	for {
		t, ok := s.nextTime(points)
		if !ok {
			return nil
		}
		for i, c := range s.calls {
			s.setSymbols(symbols, c, &points[i], t)
		}
		for i, of := range s.fields {
			values[i] = of(symbols)
		}
		if err := out.Row(t, values); err != nil {
			return err
		}
	}
}

// nextTime returns the time of the next row.
func (s *selection) nextTime(points [][]point) (t int64, ok bool) {
	for _, all := range points {
		if len(all) > 0 && (!ok || (all[0].time < t) == s.ascending && all[0].time != t) {
			t, ok = all[0].time, true
		}
	}
	return t, ok
}

// setSymbols takes the next point of a call if it is of a time.
func (s *selection) setSymbols(symbols []answer.Value, c *call, points *[]point, t int64) {
	if len(*points) == 0 || (*points)[0].time != t {
		s.setDefault(symbols, c.place)
		for _, a := range s.auxiliary {
			s.setDefault(symbols, a.place)
		}
		return
	}
	p := &(*points)[0]
	*points = (*points)[1:]
	if v := c.valueOf(p); p.empty {
		s.setDefault(symbols, c.place)
	} else {
		symbols[c.place] = v
	}
	s.setAuxiliary(symbols, p.table, int(p.row))
}
