package parse

import (
	"encoding/binary"
	"math"
	"strconv"
)

// staleNaN is the bits of Prometheus' marker that a series has ended.
const staleNaN = 0x7ff0000000000002

// flagNoRecordedValue is the only flag of data points.
const flagNoRecordedValue = 1

// dataPoint is the fields of all kinds of data points.
type dataPoint struct {
	at       Span
	timeMs   int64
	value    float64 // of a gauge or sum
	hasValue bool
	sum      float64
	hasSum   bool
	count    uint64
	stale    bool // there is no value at this time

	hasExemplars bool
}

// sample returns a value, or the marker that there is none.
func (d *dataPoint) sample(value float64) float64 {
	if d.stale {
		return math.Float64frombits(staleNaN)
	}
	return value
}

// pointReader returns what reads a data point of a kind of metric.
func (p *otlpParser) pointReader(kind uint64) func(Span) error {
	switch kind {
	case otlpHistogram:
		return p.histogramPoint
	case otlpExponential:
		return p.exponentialPoint
	case otlpSummary:
		return p.summaryPoint
	default:
		return p.numberPoint
	}
}

// begin reads what data points have in common: time_unix_nano = 3, and attributes and flags, whose fields are
// given; the attributes become labels. It reports whether the point was refused.
func (p *otlpParser) begin(message Span, attributes, flags uint64) (d dataPoint, refused bool, err error) {
	p.number++
	d = dataPoint{at: message}
	w := p.fields(message)
	for w.next() {
		switch w.field {
		case 3:
			if !w.is(wireFixed64) {
				return d, false, w.fault()
			}
			d.timeMs = int64(w.fixed64() / 1e6) // unsigned until 2554
		case flags:
			if !w.is(wireVarint) {
				return d, false, w.fault()
			}
			d.stale = w.value&flagNoRecordedValue != 0
		}
	}
	if w.err != nil {
		return d, false, w.err
	}
	if err := p.readAttributes(message, attributes); err != nil {
		return d, false, err
	}
	if p.makeLabels(message) {
		return d, true, nil
	}
	p.latestMs = max(p.latestMs, d.timeMs)
	p.points++
	return d, false, nil
}

// numberPoint reads NumberDataPoint: as_double = 4, exemplars = 5, as_int = 6, attributes = 7, flags = 8.
func (p *otlpParser) numberPoint(message Span) error {
	d, refused, err := p.begin(message, 7, 8)
	if refused || err != nil {
		return err
	}
	w := p.fields(message)
	for w.next() {
		switch w.field {
		case 4, 6:
			if !w.is(wireFixed64) {
				return w.fault()
			}
			d.hasValue = true
			if d.value = float64(int64(w.fixed64())); w.field == 4 {
				d.value = math.Float64frombits(w.fixed64())
			}
		case 5:
			p.countExemplar(&d)
		}
	}
	if w.err != nil {
		return w.err
	}
	if !d.hasValue && !d.stale {
		p.refuse(message, KindValue, p.metric+": a data point without a value")
		return nil
	}
	if err := p.add(message, sampleName{metric: p.metric}, d.timeMs, d.sample(d.value)); err != nil || p.gauge {
		return err
	}
	p.otlpExemplars(&d, 5, func(float64) *Line { return &p.b.Lines[len(p.b.Lines)-1] })
	return nil
}

// histogramPoint reads HistogramDataPoint: count = 4, sum = 5, bucket_counts = 6, explicit_bounds = 7,
// exemplars = 8, attributes = 9, flags = 10.
func (p *otlpParser) histogramPoint(message Span) error {
	d, refused, err := p.begin(message, 9, 10)
	if refused || err != nil {
		return err
	}
	p.counts, p.bounds = p.counts[:0], p.bounds[:0]
	w := p.fields(message)
	for w.next() {
		switch w.field {
		case 4, 5:
			if !d.countOrSum(&w) {
				return w.fault()
			}
		case 6:
			if p.counts, err = w.appendFixed64(p.counts); err != nil {
				return err
			}
		case 7:
			if p.bounds, err = w.appendFixed64(p.bounds); err != nil {
				return err
			}
		case 8:
			p.countExemplar(&d)
		}
	}
	if w.err != nil {
		return w.err
	}
	if err := p.addCountAndSum(&d); err != nil {
		return err
	}
	var below uint64
	for i := range min(len(p.counts), len(p.bounds)) {
		below += p.counts[i]
		if err := p.addBucket(&d, formatBound(math.Float64frombits(p.bounds[i])), below); err != nil {
			return err
		}
	}
	if err := p.addBucket(&d, "+Inf", d.count); err != nil {
		return err
	}
	bounded := min(len(p.counts), len(p.bounds))
	p.otlpExemplars(&d, 8, func(value float64) *Line {
		return p.b.bucketLine(bounded, value, func(i int) float64 { return math.Float64frombits(p.bounds[i]) })
	})
	return nil
}

// otlpBoundExponents are the first and the last bound of what an exponential histogram becomes, as powers of
// two: 0.12 ms if it counts seconds, 8 GiB if it counts bytes. The bounds are the same for all
// data points, so that buckets of many series can be summed; bounds below the one that
// comes before the first observation are left out, as they count nothing. An observation counts for a bound when the
// whole of its bucket lies below, which is exact for scales of 0 and more.
var otlpBoundExponents = [2]int{-13, 33} //nolint:gochecknoglobals // a constant

// exponentialPoint reads ExponentialHistogramDataPoint: attributes = 1, count = 4, sum = 5, scale = 6,
// zero_count = 7, positive = 8, negative = 9, flags = 10, exemplars = 11.
func (p *otlpParser) exponentialPoint(message Span) error {
	d, refused, err := p.begin(message, 1, 10)
	if refused || err != nil {
		return err
	}
	var scale int64
	var zeros uint64
	var positive, negative Span
	w := p.fields(message)
	for w.next() {
		switch w.field {
		case 4, 5:
			if !d.countOrSum(&w) {
				return w.fault()
			}
		case 6:
			if !w.is(wireVarint) {
				return w.fault()
			}
			scale = zigzag(w.value)
		case 7:
			if !w.is(wireFixed64) {
				return w.fault()
			}
			zeros = w.fixed64()
		case 8, 9:
			if !w.is(wireBytes) {
				return w.fault()
			}
			if w.field == 8 {
				positive = w.span()
			} else {
				negative = w.span()
			}
		case 11:
			p.countExemplar(&d)
		}
	}
	if w.err != nil {
		return w.err
	}
	const scaleMin, scaleMax = -10, 20 // of the specification
	if scale < scaleMin || scale > scaleMax {
		p.refuse(message, KindValue, p.metric+": scale "+strconv.FormatInt(scale, 10)+" is not within -10 and 20")
		return nil
	}
	if err := p.addCountAndSum(&d); err != nil {
		return err
	}
	return p.addPowers(&d, scale, zeros, positive, negative)
}

// addPowers adds the buckets of an exponential histogram whose bounds are otlpBoundExponents.
func (p *otlpParser) addPowers(d *dataPoint, scale int64, zeros uint64, positive, negative Span) error {
	first, last := otlpBoundExponents[0], otlpBoundExponents[1]
	counts := make([]uint64, last-first+1)
	counts[0] = zeros
	if err := p.buckets(negative, func(_ int64, count uint64) { counts[0] += count }); err != nil {
		return err
	}
	err := p.buckets(positive, func(index int64, count uint64) {
		if exponent := upperExponent(index, scale); exponent <= int64(last) {
			counts[max(exponent, int64(first))-int64(first)] += count
		}
	})
	if err != nil {
		return err
	}
	lowest := 0
	for lowest < len(counts)-1 && counts[lowest] == 0 && counts[lowest+1] == 0 && !d.stale {
		lowest++
	}
	var below uint64
	for i, count := range counts[lowest:] {
		below += count
		if err := p.addBucket(d, formatBound(math.Ldexp(1, first+lowest+i)), below); err != nil {
			return err
		}
	}
	if err := p.addBucket(d, "+Inf", d.count); err != nil {
		return err
	}
	p.otlpExemplars(d, 11, func(value float64) *Line {
		return p.b.bucketLine(len(counts)-lowest, value, func(i int) float64 { return math.Ldexp(1, first+lowest+i) })
	})
	return nil
}

// upperExponent returns the least whole exponent of two that is not below the upper bound of a bucket,
// which is 2^((index+1)/2^scale).
func upperExponent(index, scale int64) int64 {
	if scale < 0 {
		return (index + 1) << -scale
	}
	return -(-(index + 1) >> scale)
}

// buckets reads Buckets: offset = 1, bucket_counts = 2, and visits each bucket with its index.
func (p *otlpParser) buckets(message Span, visit func(index int64, count uint64)) error {
	var offset int64
	p.counts = p.counts[:0]
	w := p.fields(message)
	for w.next() {
		switch w.field {
		case 1:
			if !w.is(wireVarint) {
				return w.fault()
			}
			offset = int64(int32(zigzag(w.value)))
		case 2:
			var err error
			if p.counts, err = w.appendVarints(p.counts); err != nil {
				return err
			}
		}
	}
	for i, count := range p.counts {
		visit(offset+int64(i), count)
	}
	return w.err
}

// summaryPoint reads SummaryDataPoint: count = 4, sum = 5, quantile_values = 6, attributes = 7, flags = 8.
func (p *otlpParser) summaryPoint(message Span) error {
	d, refused, err := p.begin(message, 7, 8)
	if refused || err != nil {
		return err
	}
	d.hasSum = true
	w := p.fields(message)
	for w.next() {
		switch w.field {
		case 4, 5:
			if !d.countOrSum(&w) {
				return w.fault()
			}
		}
	}
	if w.err != nil {
		return w.err
	}
	if err := p.addCountAndSum(&d); err != nil {
		return err
	}
	return p.each(message, 6, func(s Span) error { return p.quantile(&d, s) })
}

// quantile reads ValueAtQuantile: quantile = 1, value = 2.
func (p *otlpParser) quantile(d *dataPoint, message Span) error {
	var quantile, value float64
	w := p.fields(message)
	for w.next() {
		if w.field > 2 {
			continue
		}
		if !w.is(wireFixed64) {
			return w.fault()
		}
		if w.field == 1 {
			quantile = math.Float64frombits(w.fixed64())
		} else {
			value = math.Float64frombits(w.fixed64())
		}
	}
	if w.err != nil {
		return w.err
	}
	name := sampleName{metric: p.metric, label: "quantile", value: formatBound(quantile)}
	return p.add(d.at, name, d.timeMs, d.sample(value))
}

// countOrSum reads count = 4 or sum = 5, and reports whether it could.
func (d *dataPoint) countOrSum(w *wire) bool {
	if !w.is(wireFixed64) {
		return false
	}
	if w.field == 4 {
		d.count = w.fixed64()
	} else {
		d.sum, d.hasSum = math.Float64frombits(w.fixed64()), true
	}
	return true
}

func (p *otlpParser) addCountAndSum(d *dataPoint) error {
	if d.hasSum {
		if err := p.add(d.at, sampleName{metric: p.metric, suffix: "_sum"}, d.timeMs, d.sample(d.sum)); err != nil {
			return err
		}
	}
	return p.add(d.at, sampleName{metric: p.metric, suffix: "_count"}, d.timeMs, d.sample(float64(d.count)))
}

func (p *otlpParser) addBucket(d *dataPoint, bound string, count uint64) error {
	name := sampleName{metric: p.metric, suffix: "_bucket", label: "le", value: bound}
	return p.add(d.at, name, d.timeMs, d.sample(float64(count)))
}

// formatBound formats a bound or a quantile as Prometheus' translator does.
func formatBound(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// zigzag decodes sint32 and sint64.
func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// fixed64 returns the value of the current field, which is of kind wireFixed64.
func (w *wire) fixed64() uint64 { return binary.LittleEndian.Uint64(w.b[w.at-8:]) }

// otlpBucketsMax bounds the buckets of a data point. SDKs make 160 at most if they are not told otherwise.
const otlpBucketsMax = 1 << 14

// appendFixed64 appends the values of a repeated fixed64, packed or not.
func (w *wire) appendFixed64(values []uint64) ([]uint64, error) {
	if len(values) > otlpBucketsMax {
		return values, w.tooMany()
	}
	if w.is(wireFixed64) {
		return append(values, w.fixed64()), nil
	}
	if !w.is(wireBytes) || (w.at-w.data)%8 != 0 {
		return values, w.fault()
	}
	for packed := w.b[w.data:w.at]; len(packed) > 0; packed = packed[8:] {
		values = append(values, binary.LittleEndian.Uint64(packed))
		if len(values) > otlpBucketsMax {
			return values, w.tooMany()
		}
	}
	return values, nil
}

// appendVarints appends the values of a repeated uint64, packed or not.
func (w *wire) appendVarints(values []uint64) ([]uint64, error) {
	if len(values) > otlpBucketsMax {
		return values, w.tooMany()
	}
	if w.is(wireVarint) {
		return append(values, w.value), nil
	}
	if !w.is(wireBytes) {
		return values, w.fault()
	}
	for packed := w.b[w.data:w.at]; len(packed) > 0; {
		v, used := uvarint(packed)
		if used <= 0 {
			return values, w.fault()
		}
		values = append(values, v)
		if len(values) > otlpBucketsMax {
			return values, w.tooMany()
		}
		packed = packed[used:]
	}
	return values, nil
}

// tooMany is the error for a repeated field of too many values.
func (w *wire) tooMany() error {
	w.fail("field " + strconv.FormatUint(w.field, 10) + " has too many values")
	return w.err
}
