package load

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
)

// The time of a least or greatest value, of the first or the last, is in no window that the
// storage returns. Of few series it is looked for in two steps: windows of days, of which
// rollups tell, say on which days these values are, and only the samples of these are read.
const (
	SearchSeriesMax = 16 // of more, the days would be most of all days
	SearchDayMs     = 24 * 3600_000
	searchRangeMin  = 3 * SearchDayMs
)

const searchable = scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast

// found is what the days of one series say.
type found struct {
	worker          *windowWorker
	begun           bool
	first, last     int64 // days
	least, most     float64
	leastAt, mostAt int64 // days
}

// errManySeries ends a search.
var errManySeries = errors.New("too many series to search")

// search reads windows over all of a span; ok is false when that is to be done by reading all
// samples.
func (l *Loader) search(of Span, read *WindowRead, all *scan.Request) (tables []*Table, ok bool, err error) {
	if !read.Timed || read.Interval.DurationNs != 0 || read.Aggregates&^searchable != 0 || uint64(all.ToMs-all.FromMs) < searchRangeMin {
		return nil, false, nil
	}
	series, err := l.searchDays(of, read, all)
	if err != nil {
		if errors.Is(err, errManySeries) {
			err = nil
		}
		return nil, false, err
	}
	samples := int64(0)
	for _, day := range daysOf(series, read.Aggregates) {
		request := *all
		request.FromMs, request.ToMs = max(all.FromMs, day), min(all.ToMs, day+SearchDayMs-1)
		err := l.scanOften(&request, func(_ int, c *scan.Chunk) error {
			samples += int64(len(c.Times))
			if f := series[string(c.Key)]; f != nil && !f.worker.skip {
				return f.worker.fold(c)
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
	}
	for _, f := range series {
		if !f.agrees(read.Aggregates) { // it was written or deleted meanwhile
			return nil, false, nil
		}
		if err := f.worker.close(); err != nil {
			return nil, false, err
		}
		tables = append(tables, f.worker.result...)
	}
	slices.SortStableFunc(tables, func(a, b *Table) int {
		return cmp.Or(CompareTables(a, b), cmp.Compare(a.Windows.Place, b.Windows.Place))
	})
	return tables, true, l.reader.Entry.Count(int64(len(series)), samples)
}

// scanOften is a scan, by one visitor, of which nothing counts for the limits of the query in
// the end: a search reads the same series more than once, and one that is given up for nothing.
func (l *Loader) scanOften(request *scan.Request, visit scan.Visitor) error {
	request.Parallel = 1
	var key []byte
	var series, samples int64
	err := l.reader.Source.Scan(l.reader.Ctx, request, func(worker int, c *scan.Chunk) error {
		if series == 0 || !bytes.Equal(key, c.Key) {
			key, series = append(key[:0], c.Key...), series+1
		}
		samples += int64(len(c.Times))
		return visit(worker, c)
	})
	l.reader.Entry.Uncount(series, samples)
	return err
}

// searchDays reads windows of days. Errors: errManySeries, and those of scan.Source.Scan.
func (l *Loader) searchDays(of Span, read *WindowRead, all *scan.Request) (map[string]*found, error) {
	request := *all
	request.Windows = &scan.Windows{WidthMs: SearchDayMs, Aggregates: read.Aggregates&(scan.AggregateMin|scan.AggregateMax) | scan.AggregateCount}
	series := map[string]*found{}
	err := l.scanOften(&request, func(_ int, c *scan.Chunk) error {
		f := series[string(c.Key)]
		if f == nil {
			if len(series) == SearchSeriesMax {
				return errManySeries
			}
			f = &found{worker: &windowWorker{seriesCollector: seriesCollector{loader: l}, read: read, span: of}}
			if err := f.worker.start(c.Key); err != nil {
				return err
			}
			series[string(c.Key)] = f
		}
		if !f.worker.skip {
			f.add(c)
		}
		return nil
	})
	return series, err
}

// add appends windows of days, which come in order.
func (f *found) add(c *scan.Chunk) {
	for i, day := range c.Times {
		fresh := !f.begun
		if fresh {
			f.first, f.begun = day, true
		}
		f.last = day
		if len(c.Min) > 0 && (fresh || c.Min[i] < f.least) {
			f.least, f.leastAt = c.Min[i], day
		}
		if len(c.Max) > 0 && (fresh || c.Max[i] > f.most) {
			f.most, f.mostAt = c.Max[i], day
		}
	}
}

// daysOf returns the days of which samples are needed, in order.
func daysOf(series map[string]*found, asked scan.Aggregate) (days []int64) {
	for _, f := range series {
		if !f.begun {
			continue
		}
		for aggregate, day := range map[scan.Aggregate]int64{
			scan.AggregateMin: f.leastAt, scan.AggregateMax: f.mostAt, scan.AggregateFirst: f.first, scan.AggregateLast: f.last,
		} {
			if asked&aggregate != 0 {
				days = append(days, day)
			}
		}
	}
	slices.Sort(days)
	return slices.Compact(days)
}

// agrees reports whether the samples have what the days have promised, on these days.
func (f *found) agrees(asked scan.Aggregate) bool {
	if !f.begun {
		return true
	}
	n := f.worker.now
	if len(n.Starts) != 1 {
		return false
	}
	on := func(day int64, atNs []int64) bool { return atNs[0]/NsPerMs >= day && atNs[0]/NsPerMs < day+SearchDayMs }
	return (asked&scan.AggregateMin == 0 || n.Least[0] == f.least && on(f.leastAt, n.LeastAt)) &&
		(asked&scan.AggregateMax == 0 || n.Most[0] == f.most && on(f.mostAt, n.MostAt)) &&
		(asked&scan.AggregateFirst == 0 || on(f.first, n.FirstAt)) &&
		(asked&scan.AggregateLast == 0 || on(f.last, n.LastAt))
}
