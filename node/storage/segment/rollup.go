package segment

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// Rollup is the aggregate of the samples of one hour or day of a series, NaN
// samples left out. The sum of an hour is that of its samples as float64, added to 0
// in order of time; that of a day is the sum of those of its hours, in the same way. So
// has whoever adds up samples the same bits. In segments without Meta.ScanSums it is
// exact where all samples are decimals, and may differ from these in its last bits.
type Rollup struct {
	StartMs       int64
	Count         int64
	Min, Max, Sum float64
	Digest        uint64 // of DayDigests, which tell no other aggregate but Count
	Hidden        int64  // see scan.AggregateHidden; set by no segment
	Ends                 // of days of segments with Meta.DayRollups, and what Reader.HourEnds sets; else zero
}

// Ends are the first and the last value of a rollup with their times, and those of the first one
// of its least and of its greatest values.
type Ends struct {
	First, Last                   float64
	FirstMs, LastMs, MinMs, MaxMs int64
}

// Merge adds the samples of other to the rollup, but for Ends.
func (r *Rollup) Merge(other *Rollup) {
	if other.Count == 0 {
		return
	}
	if r.Count == 0 {
		start := r.StartMs
		*r = *other
		r.StartMs = start
		return
	}
	r.Count += other.Count
	r.Sum += other.Sum
	if other.Min < r.Min {
		r.Min = other.Min
	}
	if other.Max > r.Max {
		r.Max = other.Max
	}
}

// aggregate is a Rollup in the making. With scale ≤ series.ScaleMax the decimal
// fields count, else the float fields.
type aggregate struct {
	startMs                      int64
	count                        int64
	scale                        uint8
	minNumber, maxNumber, total  int64
	minFloat, maxFloat, sumFloat float64
	// scanSum is the sum of an hour's samples, or a day's hours, one after the other.
	scanSum float64
}

// aggregateRun bounds the samples that are added up before the sum is checked:
// as many mantissas as fit into an int64 for sure.
const aggregateRun = math.MaxInt64/series.MantissaMax - 1

// aggregateOf returns the aggregate of samples with one scale, at most aggregateRun.
func aggregateOf(mantissas []int64, scale uint8) aggregate {
	if scale > series.ScaleMax {
		return aggregateOfFloats(mantissas)
	}
	a := aggregate{count: int64(len(mantissas)), scale: scale, minNumber: mantissas[0], maxNumber: mantissas[0]}
	for _, m := range mantissas {
		a.minNumber = min(a.minNumber, m)
		a.maxNumber = max(a.maxNumber, m)
		a.total += m
	}
	return a
}

func aggregateOfFloats(mantissas []int64) aggregate {
	a := aggregate{scale: series.ScaleFloat}
	for _, m := range mantissas {
		v := math.Float64frombits(uint64(m))
		switch {
		case math.IsNaN(v):
			continue
		case a.count == 0:
			a.minFloat, a.maxFloat = v, v
		case v < a.minFloat:
			a.minFloat = v
		case v > a.maxFloat:
			a.maxFloat = v
		}
		a.count++
		a.sumFloat += v
	}
	return a
}

// merge adds b to a.
func (a *aggregate) merge(b aggregate) {
	switch {
	case b.count == 0:
		return
	case a.count == 0:
		b.startMs, b.scanSum = a.startMs, a.scanSum
		*a = b
		return
	}
	if a.mergeDecimal(&b) {
		return
	}
	a.toFloat()
	b.toFloat()
	a.count += b.count
	a.sumFloat += b.sumFloat
	if b.minFloat < a.minFloat {
		a.minFloat = b.minFloat
	}
	if b.maxFloat > a.maxFloat {
		a.maxFloat = b.maxFloat
	}
}

// mergeDecimal adds b, which it may bring to another scale, and returns false,
// having changed no value, when the result is beyond exact decimals.
func (a *aggregate) mergeDecimal(b *aggregate) bool {
	if a.scale > series.ScaleMax || b.scale > series.ScaleMax {
		return false
	}
	if !a.rescale(b.scale) || !b.rescale(a.scale) {
		return false
	}
	total := a.total + b.total
	if (total > a.total) != (b.total > 0) && b.total != 0 {
		return false
	}
	a.count += b.count
	a.total = total
	a.minNumber = min(a.minNumber, b.minNumber)
	a.maxNumber = max(a.maxNumber, b.maxNumber)
	return true
}

// rescale brings the decimals to a higher scale, if there is room.
func (a *aggregate) rescale(scale uint8) bool {
	if scale <= a.scale {
		return true
	}
	factor := powerOf10(scale - a.scale)
	low, high, total := a.minNumber, a.maxNumber, a.total
	if !mulWithin(&low, factor, series.MantissaMax) || !mulWithin(&high, factor, series.MantissaMax) ||
		!mulWithin(&total, factor, math.MaxInt64) {
		return false
	}
	a.minNumber, a.maxNumber, a.total, a.scale = low, high, total, scale
	return true
}

// powerOf10 returns 10^n for n ≤ series.ScaleMax.
func powerOf10(n uint8) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

func mulWithin(v *int64, factor, limit int64) bool {
	magnitude := uint64(*v)
	if *v < 0 {
		magnitude = -magnitude
	}
	hi, lo := bits.Mul64(magnitude, uint64(factor))
	if hi != 0 || lo > uint64(limit) {
		return false
	}
	*v *= factor
	return true
}

// extremes returns the least and the greatest sample.
func (a *aggregate) extremes() (least, most float64) {
	if a.scale > series.ScaleMax {
		return a.minFloat, a.maxFloat
	}
	return series.Float64(a.minNumber, a.scale), series.Float64(a.maxNumber, a.scale)
}

func (a *aggregate) toFloat() {
	if a.scale > series.ScaleMax {
		return
	}
	a.minFloat, a.maxFloat = a.extremes()
	a.sumFloat = series.Float64(a.total, a.scale)
	a.scale = series.ScaleFloat
}

// rollupRecord is a finished aggregate.
type rollupRecord struct {
	startMs, count int64
	min, max, sum  series.Number
	scanSum        float64
	recordEnds     // of hours those of their first and last samples only
}

// recordEnds are the Ends of a rollup in the making.
type recordEnds struct {
	first, last                   series.Number
	firstMs, lastMs, minMs, maxMs int64
}

func (a *aggregate) record() rollupRecord {
	r := rollupRecord{startMs: a.startMs, count: a.count, scanSum: a.scanSum}
	if a.scale > series.ScaleMax {
		r.min, r.max = series.DecimalOf(a.minFloat, 0), series.DecimalOf(a.maxFloat, 0)
		r.sum = series.FloatNumber(a.sumFloat)
		return r
	}
	r.min, r.max = series.Number{Mantissa: a.minNumber, Scale: a.scale}, series.Number{Mantissa: a.maxNumber, Scale: a.scale}
	r.sum = series.Number{Mantissa: a.total, Scale: a.scale}
	if a.total > series.MantissaMax || a.total < -series.MantissaMax {
		r.sum = series.FloatNumber(series.Float64(a.total, a.scale))
	}
	return r
}

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

// HasDays reports whether rollups of days are kept: a narrower partition has hours only.
func (p Partition) HasDays() bool { return p.EndMs-p.StartMs >= DayMs }

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

// dayEnds are the ends of the open day.
type dayEnds struct {
	recordEnds
	known    bool // the day has a sample that counts
	min, max float64
}

// add takes the next samples of the day, all of one hour. Values are those of the columns, the
// hour and its ends those of all its samples so far: only where it goes beyond the day's extremes the
// values are searched.
func (d *dayEnds) add(c *codec.Columns, values []float64, hour *aggregate, ends *recordEnds) {
	least, most := hour.extremes()
	fresh := !d.known
	if fresh {
		d.first, d.firstMs, d.known = ends.first, ends.firstMs, true
	}
	d.last, d.lastMs = ends.last, ends.lastMs
	if fresh || least < d.min {
		d.min, d.minMs = least, c.Times[slices.Index(values, least)]
	}
	if fresh || most > d.max {
		d.max, d.maxMs = most, c.Times[slices.Index(values, most)]
	}
}

func isNumber(v float64) bool { return !math.IsNaN(v) }
