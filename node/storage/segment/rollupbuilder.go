package segment

import (
	"math"
	"slices"
	"sort"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// pieceHours is where a series' rollups are cut into entries, at the next day, unless pieceDays is.
const pieceHours = 31 * 24

// rollupBuilder makes the rollups of one series after the other.
type rollupBuilder struct {
	originMs int64 // the hour of the partition's start
	withDays bool  // the partition is a day or wider

	hour, day   aggregate
	hourKnown   bool // the open hour has a sample that counts, so it has ends
	marked      markedHour
	hourEnds    recordEnds
	dayEnds     dayEnds
	hours, days []rollupRecord

	digest  dayDigest // of the open day
	digests []dayDigest
	values  []float64 // scratch
}

func (b *rollupBuilder) init(m *Meta) {
	b.originMs = floorTo(m.StartMs, HourMs)
	b.withDays = m.HasDays()
}

// moveTo closes the open hour, and the open day, if hourMs lies behind it. It reports whether pieceFull has become true.
func (b *rollupBuilder) moveTo(hourMs int64) (full bool) {
	if hourMs != b.hour.startMs {
		b.closeHour()
		b.hour = aggregate{startMs: hourMs}
	}
	if dayMs := floorTo(hourMs, DayMs); dayMs != b.day.startMs {
		b.closeDay()
		b.day = aggregate{startMs: dayMs}
		return b.pieceFull()
	}
	return false
}

// fold takes the samples of the first hour in c and returns their number. It is
// 0 when pieceFull has become true. Those of a thinned hour do not go into the day's digest.
func (b *rollupBuilder) fold(c *codec.Columns, thinned bool) (n int) {
	hourMs := floorTo(c.Times[0], HourMs)
	if b.moveTo(hourMs) {
		return 0
	}
	n = hourEnd(c.Times, hourMs+HourMs)
	if b.foldMarked(c, n, thinned) {
		return n
	}
	for from := 0; from < n; {
		to := from + 1
		for scale := c.Scales[from]; to < n && to-from < aggregateRun && c.Scales[to] == scale; {
			to++
		}
		b.hour.merge(aggregateOf(c.Mantissas[from:to], c.Scales[from]))
		from = to
	}
	b.setValues(c, n)
	b.hour.scanSum = scanSum(b.hour.scanSum, b.values)
	b.foldEnds(c)
	if !thinned {
		b.digest.samples += int64(n)
		b.digest.sum += scan.DigestSamples(c.Times[:n], b.values)
	}
	return n
}

func (b *rollupBuilder) setValues(c *codec.Columns, n int) {
	b.values = b.values[:0]
	for i, m := range c.Mantissas[:n] {
		b.values = append(b.values, series.Float64(m, c.Scales[i]))
	}
}

// foldEnds takes the first and the last of the open hour's next samples that are numbers, whose values b
// has. There may be none: the hour tells of those so far.
func (b *rollupBuilder) foldEnds(c *codec.Columns) {
	first := slices.IndexFunc(b.values, isNumber)
	if first < 0 {
		return
	}
	last := len(b.values) - 1
	for !isNumber(b.values[last]) {
		last--
	}
	e := &b.hourEnds
	if !b.hourKnown {
		e.first, e.firstMs = series.Number{Mantissa: c.Mantissas[first], Scale: c.Scales[first]}, c.Times[first]
		b.hourKnown = true
	}
	e.last, e.lastMs = series.Number{Mantissa: c.Mantissas[last], Scale: c.Scales[last]}, c.Times[last]
	if b.withDays {
		b.dayEnds.add(c, b.values, &b.hour, e)
	}
}

// foldMarked takes the first n samples of c, all of the open hour, if that is one whose samples are those of a series.Hour. Nobody
// else writes such samples: see storage.unmarked.
func (b *rollupBuilder) foldMarked(c *codec.Columns, n int, thinned bool) bool {
	m := &b.marked
	if !m.known {
		if c.Scales[0] != series.ScaleFloat {
			return false
		}
		if _, m.known = series.MarkedHour(c.Times[0], series.Float64(c.Mantissas[0], c.Scales[0])); !m.known {
			return false
		}
		m.times, m.values = m.times[:0], m.values[:0]
	}
	b.setValues(c, n)
	m.times, m.values = append(m.times, c.Times[:n]...), append(m.values, b.values...)
	if !thinned {
		b.digest.samples += int64(n)
		b.digest.sum += scan.DigestSamples(c.Times[:n], b.values)
	}
	if h, ok := series.HourOfSamples(m.times, m.values); ok {
		r := recordOfHour(&h)
		b.foldRecord(&r)
	}
	return true
}

// foldKept takes samples of the open day into its digest.
func (b *rollupBuilder) foldKept(c *codec.Columns) {
	b.setValues(c, c.Len())
	b.digest.samples += int64(c.Len())
	b.digest.sum += scan.DigestSamples(c.Times, b.values)
}

// foldRecord takes a record of the open hour, which comes before its other samples.
func (b *rollupBuilder) foldRecord(r *rollupRecord) {
	b.hour.merge(aggregateOfRecord(r))
	b.hour.scanSum += r.scanSum
	e := &b.hourEnds
	if !b.hourKnown {
		e.first, e.firstMs, b.hourKnown = r.first, r.firstMs, true
	}
	e.last, e.lastMs = r.last, r.lastMs
	if b.withDays {
		b.dayEnds.addRecord(r)
	}
}

// scanSum adds samples to a sum, in order.
func scanSum(sum float64, values []float64) float64 {
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
		}
	}
	return sum
}

// hourEnd returns the number of times before endMs.
func hourEnd(times []int64, endMs int64) int {
	if times[len(times)-1] < endMs {
		return len(times)
	}
	return sort.Search(len(times), func(i int) bool { return times[i] >= endMs })
}

func (b *rollupBuilder) closeHour() {
	if b.hour.count > 0 {
		r := b.hour.record()
		r.recordEnds = b.hourEnds
		b.hours = append(b.hours, r)
		b.day.merge(b.hour)
		b.day.scanSum += b.hour.scanSum
	}
	b.hour.count, b.hour.scanSum, b.hourKnown, b.marked.known = 0, 0, false, false
}

func (b *rollupBuilder) closeDay() {
	if b.day.count > 0 && b.withDays {
		r := b.day.record()
		r.recordEnds = b.dayEnds.recordEnds
		b.days = append(b.days, r)
	}
	b.dayEnds.known = false
	b.digest.startMs = b.day.startMs
	b.closeDigest()
	b.day.count, b.day.scanSum = 0, 0
}

// closeDigest ends the digest of the open day.
func (b *rollupBuilder) closeDigest() {
	if b.digest.samples > 0 {
		b.digests = append(b.digests, b.digest)
	}
	b.digest = dayDigest{}
}

// foldDigests takes samples into the digests of their days, and into nothing else.
func (b *rollupBuilder) foldDigests(c *codec.Columns) {
	for rest := *c; rest.Len() > 0; {
		startMs := floorTo(rest.Times[0], DayMs)
		if startMs != b.digest.startMs {
			b.closeDigest()
			b.digest.startMs = startMs
		}
		n := max(1, hourEnd(rest.Times, startMs+DayMs)) // at the end of time the sum wraps around
		b.setValues(&rest, n)
		b.digest.samples += int64(n)
		b.digest.sum += scan.DigestSamples(rest.Times[:n], b.values)
		rest = columnsBetween(&rest, n, rest.Len())
	}
}

// close ends the series.
func (b *rollupBuilder) close() {
	b.closeHour()
	b.closeDay()
}

// pieceFull reports whether appendHours and appendDays are due.
func (b *rollupBuilder) pieceFull() bool {
	return (len(b.hours) >= pieceHours || len(b.days) >= pieceDays) && b.hour.count == 0 && b.day.count == 0
}

// firstMs returns the start of the first hour that appendHours has to give.
func (b *rollupBuilder) firstMs() (int64, bool) {
	if len(b.hours) == 0 {
		return 0, false
	}
	return b.hours[0].startMs, true
}

// appendHours appends the finished hours, and no days, which have pages of their own.
func (b *rollupBuilder) appendHours(dst []byte) []byte {
	dst = appendRollups(dst, b.hours, b.originMs, HourMs, false)
	return appendRollups(dst, nil, 0, DayMs, false)
}

// appendHourEnds appends the ends of the finished hours.
func (b *rollupBuilder) appendHourEnds(dst []byte) []byte {
	return appendHourEnds(dst, b.hours, b.originMs)
}

// firstDayMs returns the start of the first day that appendDays has to give.
func (b *rollupBuilder) firstDayMs() (int64, bool) {
	if len(b.days) == 0 {
		return 0, false
	}
	return b.days[0].startMs, true
}

// appendDays appends the finished days with their ends.
func (b *rollupBuilder) appendDays(dst []byte) []byte {
	return appendRollups(dst, b.days, floorTo(b.originMs, DayMs), DayMs, true)
}

// forget begins the next entry.
func (b *rollupBuilder) forget() { b.hours, b.days = b.hours[:0], b.days[:0] }
