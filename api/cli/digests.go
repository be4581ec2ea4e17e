package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

const (
	dayMs = 24 * 60 * 60 * 1000
	// periodMs is a range of old samples that is one unit of a backup, as a day is of new
	// ones.
	periodMs = 32 * dayMs
)

// metricName is a metric of a database.
type metricName struct{ database, metric string }

// timeRange is a range of times in ms, both inclusive.
type timeRange struct{ from, to int64 }

// startOf returns the start of the range of a width that has a time. The range in which int64 begins starts there.
func startOf(ms, width int64) int64 {
	n := ms / width
	if ms%width < 0 {
		n--
	}
	if n < math.MinInt64/width {
		return math.MinInt64
	}
	return n * width
}

// digests are what a cluster has of one metric.
type digests struct {
	days     map[int64]archive.Digest // by the start of the day
	series   map[uint64]struct{}      // hashes of the keys of series that have samples
	hidden   map[int64]int64          // how many numbers windows of these days tell of that are not among the samples
	snapshot string                   // that is asked; empty: what is there now
}

// readDigests asks for the digests of one metric's days: a number for each series and day. The cluster reads the samples for it.
func readDigests(ctx context.Context, c *client.Client, name metricName) (*digests, error) {
	return askDigests(ctx, c, name, scan.Windows{Aggregates: scan.AggregateDigest | scan.AggregateCount}, "")
}

// readRecorded is readDigests, but the cluster takes what its files say of whole days where it can: that tells what was written
// or deleted, but not what a disk has lost since.
func readRecorded(ctx context.Context, c *client.Client, name metricName) (*digests, error) {
	return askDigests(ctx, c, name, scan.Windows{Aggregates: scan.AggregateDigest | scan.AggregateCount, RecordedDigests: true}, "")
}

// readForBackup is readRecorded for a snapshot, with the numbers of days that are hidden before raw.
func readForBackup(ctx context.Context, c *client.Client, name metricName, snapshot string) (*digests, error) {
	w := scan.Windows{Aggregates: scan.AggregateDigest | scan.AggregateCount | scan.AggregateHidden, RecordedDigests: true}
	d, err := askDigests(ctx, c, name, w, snapshot)
	if errors.Is(err, client.ErrInvalid) { // a server or node of an older version
		w.Aggregates &^= scan.AggregateHidden
		if d, err = askDigests(ctx, c, name, w, snapshot); err == nil {
			err = d.countHidden(ctx, c, name)
		}
	}
	return d, err
}

// askDigests asks for windows of a day.
func askDigests(ctx context.Context, c *client.Client, name metricName, w scan.Windows, snapshot string) (*digests, error) {
	d := &digests{days: map[int64]archive.Digest{}, series: map[uint64]struct{}{}, hidden: map[int64]int64{}, snapshot: snapshot}
	// The day in which time begins has no start that a window could have.
	first := timeRange{scan.TimeMsMin, startOf(scan.TimeMsMin, dayMs) + dayMs - 1}
	w.OriginMs, w.WidthMs = first.from, dayMs
	err := d.readRange(ctx, c, name, first, w)
	if err == nil {
		w.OriginMs = 0
		err = d.readRange(ctx, c, name, timeRange{first.to + 1, scan.TimeMsMax}, w)
	}
	return d, err
}

// dayPart is what an answer tells of a day.
type dayPart struct {
	archive.Digest
	hidden int64
}

func (d *digests) readRange(ctx context.Context, c *client.Client, name metricName, r timeRange, w scan.Windows) error {
	return inHalves(ctx, r, func(r timeRange) error {
		part := map[int64]dayPart{} // a query may fail in the middle
		err := again(ctx, func() error {
			clear(part)
			return d.read(ctx, c, name, r, w, part)
		})
		if err == nil {
			for day, of := range part {
				of.Merge(d.days[day])
				d.days[day] = of.Digest
				d.hidden[day] += of.hidden
			}
		}
		return err
	})
}

func (d *digests) read(ctx context.Context, c *client.Client, name metricName, r timeRange, w scan.Windows, part map[int64]dayPart) error {
	query := client.Query{
		Selector: scan.Selector{Database: name.database, Metric: name.metric}, FromMs: r.from, ToMs: r.to, Windows: &w,
	}
	query.Snapshot = d.snapshot
	for chunk, err := range c.Query(ctx, query) {
		if err != nil {
			return err
		}
		key := chunk.Series.Key()
		d.series[scan.DigestSeries(key, 1)] = struct{}{}
		for i, ms := range chunk.TimesMs {
			day := startOf(ms, dayMs)
			sum := part[day]
			sum.Merge(archive.Digest{Samples: chunk.Count[i], Sum: archive.Sum(scan.DigestSeries(key, chunk.Digest[i]))})
			if len(chunk.Hidden) > 0 {
				sum.hidden += chunk.Hidden[i]
			}
			part[day] = sum
		}
	}
	return nil
}

// byRange adds up the digests of ranges of a width.
func (d *digests) byRange(width int64) map[int64]archive.Digest {
	sums := map[int64]archive.Digest{}
	for day, digest := range d.days {
		digest.Merge(sums[startOf(day, width)])
		sums[startOf(day, width)] = digest
	}
	return sums
}

// wanted returns the units of a backup: days, or longer periods of what is old.
func (d *digests) wanted(name metricName, recentMs int64) []archive.Wanted {
	ranges, thinned := map[timeRange]archive.Digest{}, map[timeRange]bool{}
	for day, digest := range d.days {
		r := timeRange{day, day + dayMs - 1}
		if day < recentMs {
			r = timeRange{startOf(day, periodMs), startOf(day, periodMs) + periodMs - 1}
		}
		r = timeRange{max(r.from, scan.TimeMsMin), min(r.to, scan.TimeMsMax)}
		digest.Merge(ranges[r])
		ranges[r] = digest
		thinned[r] = thinned[r] || d.hidden[day] > 0
	}
	list := make([]archive.Wanted, 0, len(ranges))
	for r, digest := range ranges {
		list = append(list, archive.Wanted{Database: name.database, Metric: name.metric, FromMs: r.from, ToMs: r.to, Digest: digest, Thinned: thinned[r]})
	}
	return list
}

// sortWanted puts units into the order in which they are written: by time, so that what
// retention drops together is together.
func sortWanted(list []archive.Wanted) {
	slices.SortFunc(list, func(a, b archive.Wanted) int {
		return cmp.Or(cmp.Compare(a.FromMs, b.FromMs), cmp.Compare(a.Database, b.Database), cmp.Compare(a.Metric, b.Metric))
	})
}

// errLeftOut: a backup of all databases would silently lack some.
var errLeftOut = errors.New("there are databases that this user or token may not read, so the backup would not be of all: " +
	"use one with the right read on each database, or name the databases to back up by --databases")

// databasesToBackUp returns the databases that were named, each of which has to be there, or all.
func databasesToBackUp(ctx context.Context, c *client.Client, named []string) ([]string, error) {
	all, leftOut, err := c.ReadableDatabases(ctx, client.Names{})
	switch {
	case err != nil:
		return nil, err
	case len(named) == 0 && leftOut:
		return nil, errLeftOut
	case len(named) == 0:
		return all, nil
	}
	var wanted []string
	for _, name := range named {
		if name = access.Canonical(name); !slices.Contains(all, name) {
			return nil, fmt.Errorf("--databases: database %q has no series, or may not be read by this user or token", access.Display(name))
		}
		wanted = append(wanted, name)
	}
	slices.Sort(wanted)
	return slices.Compact(wanted), nil
}

// metricsOf returns the metrics that databases have in a snapshot, or have now.
func metricsOf(ctx context.Context, c *client.Client, databases []string, snapshot string) (names []metricName, err error) {
	for _, database := range databases {
		metrics, err := c.Metrics(ctx, database, client.Names{Snapshot: snapshot})
		if err != nil {
			return nil, err
		}
		for _, metric := range metrics {
			names = append(names, metricName{database, metric})
		}
	}
	return names, nil
}

// inHalves does something for a range of time: for its halves where that meets a limit of
// the server, the earlier one first.
func inHalves(ctx context.Context, r timeRange, do func(timeRange) error) error {
	left := []timeRange{r}
	for len(left) > 0 {
		last := len(left) - 1
		r := left[last]
		left = left[:last]
		err := do(r)
		if tooLarge(ctx, err) && r.from < r.to {
			middle := r.from + (r.to-r.from)/2
			if whole := startOf(middle+1, series.HourMs) - 1; whole >= r.from {
				middle = whole // no hour is divided unless it must be
			}
			left = append(left, timeRange{middle + 1, r.to}, timeRange{r.from, middle})
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tooLarge reports whether a smaller query could succeed.
func tooLarge(ctx context.Context, err error) bool {
	var limit *scan.LimitError
	if errors.As(err, &limit) {
		return limit.What != "series" // those are many at any time
	}
	return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}
