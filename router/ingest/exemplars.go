package ingest

import (
	"context"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// exemplarOutcome is what has become of an exemplar, as the metrics name it.
type exemplarOutcome uint8

const (
	exemplarKept exemplarOutcome = iota
	exemplarOutOfOrder
	exemplarRefused
	exemplarFailed
	exemplarOutcomes
)

var exemplarOutcomeNames = [exemplarOutcomes]string{"kept", "out_of_order", "refused", "failed"} //nolint:gochecknoglobals // a constant table

// exemplarBytesMax bounds the exemplars of a write, each with the key of its series: a short body may have thousands of exemplars of a series with a
// long key. The rest is refused.
const (
	exemplarBytesMax = 2 << 20
	exemplarBytes    = 64 // besides its key; for its labels the batch has paid
)

// exemplarsOf returns the exemplars of a parsed batch with the keys of their series, and how many others there are. They outlive the
// batch. Series whose names are not allowed have none: there are errors for their samples.
func (f *front) exemplarsOf(database []byte, b *parse.Batch) (all []series.Exemplar, refused int) {
	refused = b.SkippedExemplars
	var (
		keys  parse.KeyBuilder
		bytes int
	)
	for i := range b.Exemplars {
		x := &b.Exemplars[i]
		err := keys.Start(b, &x.Series, database, f.options.Limits.Line)
		var key series.Key
		if err == nil {
			key, err = keys.Key(nil, false)
		}
		if err != nil {
			refused++
			continue
		}
		if bytes += exemplarBytes + len(key); bytes > exemplarBytesMax {
			refused += len(b.Exemplars) - i
			break
		}
		all = append(all, series.Exemplar{Key: slices.Clone(key), TimeMs: x.TimeMs, Value: x.Value, Labels: x.Labels})
	}
	return all, refused
}

// writeExemplars writes the exemplars of a write whose samples are written, by the end of its time, and returns how many are kept. They count
// to the rate of their database as samples do. An error fails no write: samples count, and clients would send them again.
func (f *front) writeExemplars(exemplars []series.Exemplar, account *tenant.Account, deadline time.Time) (kept int) {
	if err := account.Take(len(exemplars)); err != nil {
		f.metrics.exemplars[exemplarRefused].Add(int64(len(exemplars)))
		return 0
	}
	ctx, cancel := context.WithDeadline(f.base, deadline)
	defer cancel()
	o, err := f.options.Exemplars.WriteExemplars(ctx, exemplars)
	m := &f.metrics.exemplars
	m[exemplarKept].Add(int64(o.Kept))
	m[exemplarOutOfOrder].Add(int64(o.OutOfOrder))
	m[exemplarRefused].Add(int64(o.Refused))
	if err != nil {
		m[exemplarFailed].Add(int64(len(exemplars) - o.Kept - o.OutOfOrder - o.Refused))
		f.options.Logger.Debug("exemplars of a write were not kept", "error", err)
	}
	return o.Kept
}
