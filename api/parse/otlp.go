package parse

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/otlptranslator"

	"github.com/tickmesh/tickmesh/api/series"
)

// OTLP parses the metrics of OpenTelemetry's protocol: an ExportMetricsServiceRequest in
// protobuf. Each sample is a Line of FormLabels whose names and labels are those that
// Prometheus makes of the same message with its default configuration
// (underscores and suffixes for units and counters, job and instance from the resource's
// service.namespace, service.name and service.instance.id, target_info from its other
// attributes), but for these:
//
//   - An exponential histogram becomes a classic one with the bounds that
//     otlpBoundExponents describes, as native histograms are not stored.
//   - target_info has one sample, at the latest time of the resource's points.
//   - A data point without a value is refused.
//
// Sums and histograms of delta temporality are refused with KindUnsupported and a remedy, and so are
// metrics whose name cannot be translated; what else the body holds stays. The number of an error is that of its data point in the body, from 1.
//
// Errors: ErrMalformed when the body is not the message, ErrTooLarge, those of b.Memory.
// Nothing of the body is in the batch then.
//
// Sources: opentelemetry-proto, metrics/v1/metrics.proto; the specification's
// "Prometheus and OpenMetrics Compatibility".
func OTLP(b *Batch, body []byte, limits Limits) error {
	if err := b.reset(body); err != nil {
		return err
	}
	limits = limits.WithDefaults()
	p := otlpParser{b: b, errorsMax: limits.ErrorsMax, keyBytesMax: limits.KeyBytesMax, names: make(map[string]string)}
	err := p.request(body)
	if err != nil {
		b.Reset()
	}
	return err
}

// otlpParser holds what the parse of one body needs at hand.
type otlpParser struct {
	b           *Batch
	errorsMax   int
	keyBytesMax int
	number      uint32            // of the data point, from 1
	scale       uint8             // of the value before: the first guess for the next one
	names       map[string]string // of labels, by the keys of attributes

	job, instance []byte // of the resource
	latestMs      int64  // the newest data point of the resource
	points        int    // of the resource

	metric     string      // the name that the data points at hand get
	gauge      bool        // they are of a gauge
	attributes []attribute // of the data point, by key
	labels     []label     // what becomes of them
	elements   int         // values in the attribute at hand
	listBytes  int         // of texts in lists, of all attributes of the data point
	counts     []uint64    // of its buckets
	bounds     []uint64    // of its buckets, as bits of doubles
}

// attribute is a KeyValue whose value is written as text.
type attribute struct {
	key, value []byte
	fault      error // why it cannot be
}

type label struct {
	name  string
	value []byte
}

// Names of attributes of resources, as Prometheus has them.
const (
	attributeServiceName      = "service.name"
	attributeServiceNamespace = "service.namespace"
	attributeServiceInstance  = "service.instance.id"
	labelJob                  = "job"
	labelInstance             = "instance"
	targetInfo                = "target_info"
)

// deltaRemedy is what the sender can do.
const deltaRemedy = "delta temporality is not stored: set OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=cumulative in the program, " +
	"or the deltatocumulative processor in the collector"

// fields walks a message that stands in the body.
func (p *otlpParser) fields(message Span) wire {
	return wire{b: p.b.Body[:message.End], at: int(message.Start)}
}

// each calls visit for each field of a message that is of the wire type bytes and has the number.
func (p *otlpParser) each(message Span, field uint64, visit func(Span) error) error {
	w := p.fields(message)
	for w.next() {
		if w.field != field {
			continue
		}
		if !w.is(wireBytes) {
			return w.fault()
		}
		if err := visit(w.span()); err != nil {
			return err
		}
	}
	return w.err
}

// request reads ExportMetricsServiceRequest: resource_metrics = 1.
func (p *otlpParser) request(body []byte) error {
	return p.each(Span{0, uint32(len(body))}, 1, p.resourceMetrics)
}

// resourceMetrics reads ResourceMetrics: resource = 1, scope_metrics = 2.
func (p *otlpParser) resourceMetrics(message Span) error {
	var resource Span
	if err := p.each(message, 1, func(s Span) error { resource = s; return nil }); err != nil {
		return err
	}
	if err := p.readAttributes(resource, 1); err != nil {
		return err
	}
	p.job, p.instance = p.identity()
	p.latestMs, p.points = math.MinInt64, 0
	if err := p.each(message, 2, func(scope Span) error { return p.each(scope, 2, p.metricOf) }); err != nil {
		return err
	}
	return p.targetInfo(resource)
}

// identity returns what the attributes of a resource say of job and instance.
func (p *otlpParser) identity() (job, instance []byte) {
	var name, namespace []byte
	named, spaced := false, false
	for _, a := range p.attributes {
		switch string(a.key) {
		case attributeServiceName:
			name, named = a.value, true
		case attributeServiceNamespace:
			namespace, spaced = a.value, true
		case attributeServiceInstance:
			instance = a.value
		}
	}
	switch {
	case named && spaced:
		job = slices.Concat(namespace, []byte("/"), name)
	case named:
		job = name
	}
	return job, instance
}

// targetInfo adds a sample whose labels are the resource's other attributes, if a label says whose they are.
func (p *otlpParser) targetInfo(resource Span) error {
	if p.points == 0 {
		return nil
	}
	if err := p.readAttributes(resource, 1); err != nil {
		return err
	}
	p.attributes = slices.DeleteFunc(p.attributes, func(a attribute) bool {
		return string(a.key) == attributeServiceName || string(a.key) == attributeServiceNamespace || string(a.key) == attributeServiceInstance
	})
	if len(p.attributes) == 0 {
		return nil
	}
	if p.makeLabels(resource) {
		return nil
	}
	identifies := func(l label) bool { return l.name == labelJob || l.name == labelInstance }
	if !slices.ContainsFunc(p.labels, identifies) {
		return nil
	}
	p.addMetadata(targetInfo, "", Span{}, metricTypeGauge)
	return p.add(resource, sampleName{metric: targetInfo}, p.latestMs, 1)
}

// metricOf reads Metric: name = 1, description = 2, unit = 3, and one of gauge = 5, sum = 7,
// histogram = 9, exponential_histogram = 10, summary = 11.
func (p *otlpParser) metricOf(message Span) error {
	var name, help, unit, data Span
	var kind uint64
	w := p.fields(message)
	for w.next() {
		switch w.field {
		case 1, 2, 3, otlpGauge, otlpSum, otlpHistogram, otlpExponential, otlpSummary:
			if !w.is(wireBytes) {
				return w.fault()
			}
		}
		switch w.field {
		case 1:
			name = w.span()
		case 2:
			help = w.span()
		case 3:
			unit = w.span()
		case otlpGauge, otlpSum, otlpHistogram, otlpExponential, otlpSummary:
			data, kind = w.span(), w.field
		}
	}
	if w.err != nil {
		return w.err
	}
	temporality, monotonic, err := p.temporality(data)
	if err != nil {
		return err
	}
	if kind == 0 {
		return nil // a metric without data
	}
	if bytes := max(name.Len(), unit.Len()); bytes > p.keyBytesMax { // names are translated in many times their memory
		return p.refuseAll(data, KindLimit, "a metric's name or unit of "+strconv.Itoa(bytes)+" bytes, more than "+strconv.Itoa(p.keyBytesMax))
	}
	m := otlptranslator.Metric{Name: p.text(name), Unit: p.text(unit), Type: otlpType(kind, monotonic)}
	namer := otlptranslator.MetricNamer{WithMetricSuffixes: true}
	built, err := namer.Build(m)
	switch cumulative := kind == otlpGauge || kind == otlpSummary || temporality == temporalityCumulative; {
	case err != nil:
		return p.refuseAll(data, KindSyntax, "metric name: "+err.Error())
	case temporality == temporalityDelta:
		return p.refuseAll(data, KindUnsupported, m.Name+": "+deltaRemedy)
	case !cumulative:
		return p.refuseAll(data, KindSyntax, m.Name+": aggregation_temporality is not set")
	}
	p.metric, p.gauge = built, kind == otlpGauge
	unitNamer := otlptranslator.UnitNamer{}
	p.addMetadata(built, unitNamer.Build(m.Unit), help, prometheusType(kind, monotonic))
	return p.each(data, 1, p.pointReader(kind))
}

// The fields of Metric that hold its data.
const (
	otlpGauge       = 5
	otlpSum         = 7
	otlpHistogram   = 9
	otlpExponential = 10
	otlpSummary     = 11
)

// Values of AggregationTemporality.
const (
	temporalityDelta      = 1
	temporalityCumulative = 2
)

// Numbers of MetricType, as remote write has them.
const (
	metricTypeCounter   MetricType = 1
	metricTypeGauge     MetricType = 2
	metricTypeHistogram MetricType = 3
	metricTypeSummary   MetricType = 5
)

// otlpType returns the type by which the name of a metric gets its suffix.
func otlpType(kind uint64, monotonic bool) otlptranslator.MetricType {
	switch kind {
	case otlpGauge:
		return otlptranslator.MetricTypeGauge
	case otlpSum:
		if monotonic {
			return otlptranslator.MetricTypeMonotonicCounter
		}
		return otlptranslator.MetricTypeNonMonotonicCounter
	case otlpHistogram:
		return otlptranslator.MetricTypeHistogram
	case otlpExponential:
		return otlptranslator.MetricTypeExponentialHistogram
	case otlpSummary:
		return otlptranslator.MetricTypeSummary
	default:
		return otlptranslator.MetricTypeUnknown
	}
}

// prometheusType returns the type as metadata has it.
func prometheusType(kind uint64, monotonic bool) MetricType {
	switch kind {
	case otlpSum:
		if monotonic {
			return metricTypeCounter
		}
		return metricTypeGauge
	case otlpHistogram, otlpExponential:
		return metricTypeHistogram
	case otlpSummary:
		return metricTypeSummary
	default:
		return metricTypeGauge
	}
}

// temporality reads aggregation_temporality = 2 and is_monotonic = 3 of a Sum; a histogram has the first too.
func (p *otlpParser) temporality(data Span) (temporality uint64, monotonic bool, err error) {
	w := p.fields(data)
	for w.next() {
		if w.field != 2 && w.field != 3 {
			continue
		}
		if !w.is(wireVarint) {
			return 0, false, w.fault()
		}
		if w.field == 2 {
			temporality = w.value
		} else {
			monotonic = w.value != 0
		}
	}
	return temporality, monotonic, w.err
}

func (p *otlpParser) addMetadata(metric, unit string, help Span, kind MetricType) {
	b := p.b
	if len(b.Metadata) >= metadataMax || b.scratchRoom(len(metric)+len(unit)) != nil {
		return
	}
	at := uint32(len(b.Scratch))
	b.Scratch = append(append(b.Scratch, metric...), unit...)
	between, end := at+uint32(len(metric)), uint32(len(b.Scratch))
	b.Metadata = append(b.Metadata, Metadata{
		Metric: Span{at, between}, Unit: Span{between, end}, Help: help, Type: kind, InScratch: true,
	})
}

func (p *otlpParser) text(s Span) string { return string(p.b.Body[s.Start:s.End]) }

// sampleName is the identity of a sample beside the labels of its data point.
type sampleName struct {
	metric, suffix string
	label          string // le or quantile; may be empty
	value          string
}

// add adds a sample whose other labels are p.labels.
func (p *otlpParser) add(point Span, name sampleName, timeMs int64, value float64) error {
	b := p.b
	bytes := labelBytes(metricLabel, len(name.metric)+len(name.suffix)) + labelBytes(name.label, len(name.value))
	for _, a := range p.labels {
		bytes += labelBytes(a.name, len(a.value))
	}
	if err := b.scratchRoom(bytes); err != nil {
		return err
	}
	if len(b.Scratch)+bytes > scratchBytesMax {
		return ErrTooLarge
	}
	if err := b.room(); err != nil {
		return err
	}
	start := uint32(len(b.Scratch))
	b.Scratch = appendLabel(b.Scratch, metricLabel, name.metric, name.suffix)
	for _, a := range p.labels {
		if a.name != name.label {
			b.Scratch = appendLabel(b.Scratch, a.name, a.value, "")
		}
	}
	if name.label != "" {
		b.Scratch = appendLabel(b.Scratch, name.label, name.value, "")
	}
	end := uint32(len(b.Scratch))
	n := series.DecimalOf(value, p.scale)
	if n.Scale != series.ScaleFloat {
		p.scale = n.Scale
	} else {
		n.Mantissa = int64(math.Float64bits(value)) // as sent, whatever the processor does to a NaN
	}
	b.Lines = append(b.Lines, Line{
		Head: Span{start, end}, Tags: Span{end, end}, Text: point, First: uint32(len(b.Points)), Count: 1,
		Shape: uint32(len(b.Lines)), Number: p.number, Form: FormLabels, InScratch: true,
	})
	b.Points = append(b.Points, Point{TimeMs: timeMs, Mantissa: n.Mantissa, Scale: n.Scale})
	b.Samples++
	return nil
}

// refuse adds the error of a data point.
func (p *otlpParser) refuse(point Span, kind Kind, detail string) {
	p.b.Samples++
	p.b.AddError(&Line{Text: point, Number: p.number, Form: FormLabels}, 1, kind, shortened(detail), p.errorsMax)
}

// refuseAll refuses the data points of a metric.
func (p *otlpParser) refuseAll(data Span, kind Kind, detail string) error {
	detail = shortened(detail)
	return p.each(data, 1, func(point Span) error {
		p.number++
		p.refuse(point, kind, detail)
		return nil
	})
}

// shortened returns the start of a long text, which may quote names several times over, in memory of its own.
func shortened(text string) string {
	const end = "…"
	if len(text) <= ExcerptBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:ExcerptBytesMax-len(end)], "") + end
}

// labelBytes bounds the bytes of a Label message in a TimeSeries.
func labelBytes(name string, value int) int { return len(name) + value + 3*(1+binary.MaxVarintLen32) }
