package load

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// ValueField is the field of series without the tag _field.
const ValueField = "value"

// Measurement is what is known of a metric.
type Measurement struct {
	database, name string
	Fields, Tags   []string // sorted; tags without _field
}

// HasField reports whether a series of the measurement has the field.
func (m *Measurement) HasField(name string) bool {
	_, found := slices.BinarySearch(m.Fields, name)
	return found
}

// HasTag reports whether a series of the measurement has the tag.
func (m *Measurement) HasTag(name string) bool {
	_, found := slices.BinarySearch(m.Tags, name)
	return found
}

// ReadMeasurement asks for names of tags, for fields that are named, and whether there are
// series of the one that is not, all at once. Such series are looked for in [fromMs, toMs] first:
// there they are cheap to find, where a metric has had very many at other times.
func (r *Reader) ReadMeasurement(database, name string, fromMs, toMs int64) (*Measurement, error) {
	m := &Measurement{database: database, name: name}
	var unnamed bool
	var failures [3]error
	var asked sync.WaitGroup
	ask := func(do func(ctx context.Context)) {
		asked.Go(func() {
			ctx, work := processor.Fork(r.Ctx)
			defer work.End()
			do(ctx)
		})
	}
	ask(func(ctx context.Context) { m.Tags, failures[0] = r.Source.TagNames(ctx, database, name, "", 0) })
	ask(func(ctx context.Context) {
		m.Fields, failures[1] = r.Source.TagValues(ctx, database, name, series.FieldTagName, "", 0)
	})
	unnamedIn := func(ctx context.Context) {
		selector := scan.Selector{Database: database, Metric: name, Matchers: []scan.Matcher{{Name: series.FieldTagName, Kind: scan.MatchAbsent}}}
		for _, source := range [...]scan.Source{scan.Between(r.Source, fromMs, toMs), r.Source} {
			_, failures[2] = source.Series(ctx, &selector, 1, func(series.Key) error {
				unnamed = true
				return nil
			})
			if unnamed || failures[2] != nil || fromMs <= scan.TimeMsMin && toMs >= scan.TimeMsMax {
				return
			}
		}
	}
	unnamedIn(r.Ctx) // by this goroutine, as it would only wait
	processor.Of(r.Ctx).Idle()
	asked.Wait()
	if err := cmp.Or(failures[0], failures[1], failures[2]); err != nil {
		return nil, err
	}
	if at, found := slices.BinarySearch(m.Tags, series.FieldTagName); found {
		m.Tags = slices.Delete(m.Tags, at, at+1)
	}
	if at, found := slices.BinarySearch(m.Fields, ValueField); unnamed && !found {
		m.Fields = slices.Insert(m.Fields, at, ValueField)
	}
	return m, nil
}
