package parse

// Metadata is what a body says of a metric. The spans are in Body; with InScratch those of
// Metric and Unit are in Scratch.
type Metadata struct {
	Metric, Help, Unit Span
	Type               MetricType
	InScratch          bool
}

// MetadataText returns the texts of a Metadata of this batch.
func (b *Batch) MetadataText(m *Metadata) (metric, help, unit []byte) {
	names := b.Body
	if m.InScratch {
		names = b.Scratch
	}
	return names[m.Metric.Start:m.Metric.End], b.Body[m.Help.Start:m.Help.End], names[m.Unit.Start:m.Unit.End]
}

// MetricType is the type of a metric, by the numbers of both versions of remote write.
type MetricType uint8

// metricTypes are the names of types in OpenMetrics, and in Prometheus' API.
//
//nolint:gochecknoglobals // a constant table
var metricTypes = [...]string{"unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset"}

// String returns the type's name; of a number that nobody knows: unknown.
func (t MetricType) String() string {
	if int(t) >= len(metricTypes) {
		return metricTypes[0]
	}
	return metricTypes[t]
}

// metadataMax bounds what one body may say of metrics; the rest is left out.
const metadataMax = 20_000

func (p *remoteParser) addMetadata(m Metadata) {
	if b := p.b; m.Metric.Len() > 0 && len(b.Metadata) < metadataMax {
		b.Metadata = append(b.Metadata, m)
	}
}

// metadata1 reads MetricMetadata: type = 1, metric_family_name = 2, help = 4, unit = 5.
func (p *remoteParser) metadata1(message Span) error {
	var m Metadata
	w := wire{b: p.b.Body[:message.End], at: int(message.Start)}
	for w.next() {
		switch w.field {
		case 1:
			if !w.is(wireVarint) {
				return w.fault()
			}
			m.Type = metricTypeOf(w.value)
		case 2, 4, 5:
			if !w.is(wireBytes) {
				return w.fault()
			}
			switch w.field {
			case 2:
				m.Metric = w.span()
			case 4:
				m.Help = w.span()
			case 5:
				m.Unit = w.span()
			}
		}
	}
	if w.err == nil {
		p.addMetadata(m)
	}
	return w.err
}

// metadata2 reads Metadata of the series whose labels have been read: type = 1,
// help_ref = 3, unit_ref = 4.
func (p *remoteParser) metadata2(message Span) error {
	if message.Len() == 0 {
		return nil
	}
	m := Metadata{Metric: p.metric2()}
	w := wire{b: p.b.Body[:message.End], at: int(message.Start)}
	for w.next() {
		if (w.field == 1 || w.field == 3 || w.field == 4) && !w.is(wireVarint) {
			return w.fault()
		}
		switch w.field {
		case 1:
			m.Type = metricTypeOf(w.value)
		case 3:
			m.Help = p.symbolSpan(w.value)
		case 4:
			m.Unit = p.symbolSpan(w.value)
		}
	}
	if w.err == nil && m != (Metadata{Metric: m.Metric}) {
		p.addMetadata(m)
	}
	return w.err
}

func metricTypeOf(v uint64) MetricType {
	if v >= uint64(len(metricTypes)) {
		return 0
	}
	return MetricType(v)
}

// metric2 finds the metric of the series whose references have been read.
func (p *remoteParser) metric2() Span {
	for i := 0; i+1 < len(p.refs); i += 2 {
		if p.refs[i] < uint64(len(p.symbols)) && string(p.symbol(p.refs[i])) == metricLabel {
			return p.symbolSpan(p.refs[i+1])
		}
	}
	return Span{}
}

// symbolSpan returns where a symbol stands; of a reference to none: nowhere.
func (p *remoteParser) symbolSpan(ref uint64) Span {
	if ref >= uint64(len(p.symbols)) {
		return Span{}
	}
	return p.symbols[ref]
}
