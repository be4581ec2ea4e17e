package influxql

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// valueField is the field of series without the tag _field.
const valueField = "value"

// measurement is what is known of a metric.
type measurement struct {
	database, name string
	fields, tags   []string // sorted; tags without _field
}

func (m *measurement) hasField(name string) bool {
	_, found := slices.BinarySearch(m.fields, name)
	return found
}

func (m *measurement) hasTag(name string) bool {
	_, found := slices.BinarySearch(m.tags, name)
	return found
}

// readMeasurement asks for names of tags, for fields that are named, and whether there are
// series of the one that is not, all at once. Such series are looked for in [fromMs, toMs] first:
// there they are cheap to find, where a metric has had very many at other times.
func (r *Reader) readMeasurement(database, name string, fromMs, toMs int64) (*measurement, error) {
	m := &measurement{database: database, name: name}
	var unnamed bool
	var failures [3]error
	var asked sync.WaitGroup
	ask := func(do func(ctx context.Context)) {
		asked.Go(func() {
			ctx, work := processor.Fork(r.ctx)
			defer work.End()
			do(ctx)
		})
	}
	ask(func(ctx context.Context) { m.tags, failures[0] = r.source.TagNames(ctx, database, name, "", 0) })
	ask(func(ctx context.Context) {
		m.fields, failures[1] = r.source.TagValues(ctx, database, name, series.FieldTagName, "", 0)
	})
	ask(func(ctx context.Context) {
		selector := scan.Selector{Database: database, Metric: name, Matchers: []scan.Matcher{{Name: series.FieldTagName, Kind: scan.MatchAbsent}}}
		for _, source := range [...]scan.Source{scan.Between(r.source, fromMs, toMs), r.source} {
			_, failures[2] = source.Series(ctx, &selector, 1, func(series.Key) error {
				unnamed = true
				return nil
			})
			if unnamed || failures[2] != nil || fromMs <= scan.TimeMsMin && toMs >= scan.TimeMsMax {
				return
			}
		}
	})
	processor.Of(r.ctx).Idle()
	asked.Wait()
	if err := cmp.Or(failures[0], failures[1], failures[2]); err != nil {
		return nil, err
	}
	if at, found := slices.BinarySearch(m.tags, series.FieldTagName); found {
		m.tags = slices.Delete(m.tags, at, at+1)
	}
	if at, found := slices.BinarySearch(m.fields, valueField); unnamed && !found {
		m.fields = slices.Insert(m.fields, at, valueField)
	}
	return m, nil
}
