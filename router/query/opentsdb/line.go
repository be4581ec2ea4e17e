package opentsdb

import (
	"context"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// line is one result that is held in memory, to be computed with.
type line struct {
	group             // its tags and members
	sub     *subQuery // of an expression: that of its first input
	metrics []string  // whose points it is made of, sorted
	times   []int64   // milliseconds, strictly growing; may be shared
	values  []float64
}

// lineBytes is what a line takes beside its points and its group.
const lineBytes = 128

// lines merges what a sub-query has read and keeps the results that have a point.
func (h *handler) lines(ctx context.Context, sub *subQuery, f *fetch) ([]line, error) {
	entry := ledger.Of(ctx)
	groups, err := groupColumns(f.columns, sub, &holding{entry: entry})
	if err != nil {
		return nil, err
	}
	m := &merger{ctx: ctx, sub: sub, from: f.span.outFrom, to: f.span.outTo, entry: entry}
	lines := make([]line, 0, len(groups))
	for i := range groups {
		l := line{group: groups[i], sub: sub}
		charged := len(l.members[0].times) // most groups have the times of each member
		if err := entry.Take(int64(16*charged) + lineBytes); err != nil {
			return nil, err
		}
		l.times, l.values = make([]int64, 0, charged), make([]float64, 0, charged)
		err := m.merge(l.members, func(timeMs int64, value float64) error {
			l.times, l.values = append(l.times, timeMs), append(l.values, value)
			if len(l.times) <= charged {
				return nil
			}
			grown := cap(l.times) - charged
			charged = cap(l.times)
			return entry.Take(int64(16 * grown))
		})
		if err != nil {
			return nil, err
		}
		if len(l.times) == 0 {
			continue
		}
		for _, c := range l.members { // sub-queries by tsuid may have several
			if name := string(metricOf(c.key)); !slices.Contains(l.metrics, name) {
				l.metrics = append(l.metrics, name)
			}
		}
		slices.Sort(l.metrics)
		lines = append(lines, l)
	}
	return lines, nil
}

// timesOf gives the times of all lines, sorted, each once. What is made is charged.
func timesOf(ctx context.Context, lines []line) ([]int64, error) {
	columns := make([]column, len(lines))
	for i := range lines {
		columns[i].times = lines[i].times
	}
	if len(columns) == 0 {
		return nil, nil
	}
	m := &merger{ctx: ctx, entry: ledger.Of(ctx)}
	times, _, err := m.union(columns)
	return times, err
}

// commonTags gives the tags that both lists, sorted by name, have with the same value.
func commonTags(a, b []series.Tag) []series.Tag {
	var common []series.Tag
	for _, t := range a {
		if v := tagValue(b, string(t.Name)); v != nil && string(v) == string(t.Value) {
			common = append(common, t)
		}
	}
	return common
}

// unionOf gives the elements of both sorted lists, sorted, each once.
func unionOf(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}
