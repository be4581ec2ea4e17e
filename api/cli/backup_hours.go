package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Of hours before raw a cluster has the last sample, and windows of whole hours tell of all that there were. A backup has the last
// sample as any other, so that digests and older archives mean the same, and beside it units of hours: each hour of which there is one sample,
// with what windows tell of it (series.Hour).

// hoursAtOnce is about how many samples are held while hours are put together.
const hoursAtOnce = 500_000

// countHidden sets the numbers that are hidden where the cluster cannot tell them beside digests: windows of a day tell of all numbers,
// windows of less than an hour of those among the samples.
func (d *digests) countHidden(ctx context.Context, c *client.Client, name metricName) error {
	first := startOf(scan.TimeMsMin, dayMs) + dayMs
	rawMs, err := c.RawFrom(ctx, name.database, name.metric)
	if errors.Is(err, client.ErrVersion) {
		return nil
	}
	if err != nil || rawMs <= first {
		return err
	}
	numbers, err := d.count(ctx, c, name, timeRange{first, rawMs - 1}, dayMs)
	if err != nil {
		return err
	}
	visible, err := d.count(ctx, c, name, timeRange{first, rawMs - 1}, series.HourMs/2)
	for day, n := range numbers {
		d.hidden[day] = n - visible[day]
	}
	return err
}

// count returns how many numbers windows of a width tell of, day by day.
func (d *digests) count(ctx context.Context, c *client.Client, name metricName, within timeRange, widthMs int64) (map[int64]int64, error) {
	numbers := map[int64]int64{}
	w := scan.Windows{WidthMs: widthMs, Aggregates: scan.AggregateCount}
	return numbers, inHalves(ctx, within, func(r timeRange) error {
		part := map[int64]int64{}
		err := again(ctx, func() error {
			clear(part)
			for chunk, err := range c.Query(ctx, d.query(name, r, &w)) {
				if err != nil {
					return err
				}
				for i, ms := range chunk.TimesMs {
					part[startOf(ms, dayMs)] += chunk.Count[i]
				}
			}
			return nil
		})
		if err == nil {
			for day, n := range part {
				numbers[day] += n
			}
		}
		return err
	})
}

func (d *digests) query(name metricName, r timeRange, w *scan.Windows) client.Query {
	q := client.Query{Selector: scan.Selector{Database: name.database, Metric: name.metric}, FromMs: r.from, ToMs: r.to, Windows: w}
	q.Snapshot = d.snapshot
	return q
}

// hours adds the hours of a unit of which there is one sample.
func (b *backup) hours(ctx context.Context, w *archive.Wanted) error {
	name := metricName{w.Database, w.Metric}
	parts := max(1, w.Samples/hoursAtOnce)
	widthMs := startOf((w.ToMs-w.FromMs)/parts, series.HourMs) + series.HourMs
	return again(ctx, func() error {
		return b.archive.Hours(ctx, w.Database, w.Metric, func(visit archive.Visitor) error {
			for from := w.FromMs; from <= w.ToMs; from += widthMs {
				err := inHalves(ctx, timeRange{from, min(w.ToMs, from+widthMs-1)}, func(r timeRange) error {
					err := b.hoursBetween(ctx, name, r, visit)
					// Of a part of an hour windows tell of its last sample. The error is not wrapped, as the range would be halved.
					if r.to-r.from < series.HourMs && tooLarge(ctx, err) {
						return fmt.Errorf("the hour from %s on cannot be read as a whole, as its rollups have to be: %v",
							time.UnixMilli(r.from).UTC().Format(time.RFC3339), err)
					}
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// seriesHours are the hours of a series by their start.
type seriesHours map[int64]*singleHour

// singleHour is an hour with the samples that there are.
type singleHour struct {
	series.Hour
	samples int
}

// hoursBetween visits the hours in a range.
func (b *backup) hoursBetween(ctx context.Context, name metricName, r timeRange, visit archive.Visitor) error {
	found := map[string]seriesHours{}
	err := readSamples(ctx, b.client, name, r, b.snapshot, func(key series.Key, timesMs []int64, values []float64) error {
		hours := found[string(key)]
		if hours == nil {
			hours = seriesHours{}
			found[string(key)] = hours
		}
		for i, ms := range timesMs {
			h := hours[startOf(ms, series.HourMs)]
			if h == nil {
				h = &singleHour{Hour: series.Hour{StartMs: startOf(ms, series.HourMs)}}
				hours[h.StartMs] = h
			}
			h.samples++
			h.TimeMs, h.Value = ms, values[i]
		}
		return nil
	}, b.progress)
	if err != nil {
		return err
	}
	w := scan.Windows{
		WidthMs:    series.HourMs,
		Aggregates: scan.AggregateCount | scan.AggregateSum | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast,
	}
	of := digests{snapshot: b.snapshot}
	for chunk, err := range b.client.Query(ctx, of.query(name, r, &w)) {
		if err != nil {
			return err
		}
		hours := found[string(chunk.Series.Key())]
		for i, ms := range chunk.TimesMs {
			if h := hours[ms]; h != nil {
				h.Count, h.Sum, h.Min, h.Max, h.First, h.Last = chunk.Count[i], chunk.Sum[i], chunk.Min[i], chunk.Max[i], chunk.First[i], chunk.Last[i]
			}
		}
	}
	return visitHours(found, visit)
}

func visitHours(found map[string]seriesHours, visit archive.Visitor) error {
	var times []int64
	var values []float64
	for _, key := range slices.Sorted(maps.Keys(found)) {
		hours := found[key]
		for _, startMs := range slices.Sorted(maps.Keys(hours)) {
			h := hours[startMs]
			if h.samples != 1 || h.IsLastOnly() || !h.Fits() { // the last one is among the samples
				continue
			}
			times, values = h.AppendSamples(times[:0], values[:0])
			if err := visit(series.Key(key), times, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// lastOnly returns an hour without what there was beside its last sample.
func lastOnly(h series.Hour) series.Hour {
	one := series.Hour{StartMs: h.StartMs, TimeMs: h.TimeMs, Value: h.Value}
	if !math.IsNaN(h.Value) {
		one.Count, one.Sum, one.Min, one.Max, one.First, one.Last = 1, h.Value, h.Value, h.Value, h.Value, h.Value
	}
	return one
}
