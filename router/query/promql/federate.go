package promql

import (
	"cmp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/scan"
)

// pathFederate is where Prometheus has it.
const pathFederate = "/federate"

// federate serves the newest sample of each series that a match[] picks, with its own time, as Prometheus' handler
// does (web/federate.go): samples older than the lookback and staleness markers are left out, series without the label
// instance get an empty one, and there are no other labels than theirs.
func (h *handler) federate(x *exchange) error {
	sets, err := h.selectors(x)
	if err != nil {
		return err
	}
	nowMs := h.shell.Clock().UnixMilli()
	lookbackMs := h.options.LookbackDelta.Milliseconds()
	var found []*column
	for _, set := range sets {
		picked, err := h.newestOf(x, set, nowMs-lookbackMs, nowMs)
		if err != nil {
			return err
		}
		found = append(found, picked...)
	}
	h.tellMissing(x)
	slices.SortFunc(found, func(a, b *column) int {
		return cmp.Or(strings.Compare(a.labels.Get(model.MetricNameLabel), b.labels.Get(model.MetricNameLabel)), labels.Compare(a.labels, b.labels))
	})
	found = slices.CompactFunc(found, func(a, b *column) bool { return labels.Equal(a.labels, b.labels) }) // several match[] may pick one
	return x.expose(found)
}

// newestOf returns the newest sample of each series, as columns of one.
func (h *handler) newestOf(x *exchange, matchers []*labels.Matcher, fromMs, toMs int64) (found []*column, err error) {
	selectors, err := selectorsOf(x.ctx, x.reader.Source, x.database, matchers)
	if err != nil || len(selectors) == 0 {
		return nil, err
	}
	r := reading{
		source: x.reader.Source, entry: x.entry, selectors: selectors, parallel: max(1, h.options.Parallel), thin: true, deduplicateMs: h.deduplicateMs(),
		fromMs: max(fromMs, scan.TimeMsMin), toMs: min(toMs, scan.TimeMsMax),
		grid: grid{firstMs: toMs, lastMs: toMs, stepMs: 1, widthMs: toMs - fromMs + 1, lastOnly: true},
	}
	runs, err := r.columns(x.ctx)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		for i := range run {
			if c := &run[i]; len(c.times) > 0 && !value.IsStaleNaN(c.values[len(c.values)-1]) {
				found = append(found, c)
			}
		}
	}
	return found, nil
}

// About what a series takes while its family is written.
const (
	exposedSeriesBytes = 256
	exposedLabelBytes  = 128 // of each label, its text aside
	exposedTextTimes   = 2
)

// exposedBytes returns what a family takes while it is written in a format: twice as much for another one where
// names are escaped, and for the bytes of all of it in protobuf.
func exposedBytes(found []*column, format expfmt.Format) (bytes int64) {
	for _, c := range found {
		bytes += exposedSeriesBytes + exposedLabelBytes // of the label instance
		c.labels.Range(func(l labels.Label) {
			bytes += exposedLabelBytes + exposedTextTimes*int64(len(l.Name)+len(l.Value))
		})
	}
	if format.FormatType() != expfmt.TypeTextPlain || format.ToEscapingScheme() != model.NoEscaping {
		bytes *= 2
	}
	return bytes
}

// exposedFormats are those that a Prometheus asks for. The others of expfmt make a family one text in memory.
func exposedFormats() []expfmt.Format {
	return slices.DeleteFunc(expfmt.DefaultAcceptedFormats(), func(f expfmt.Format) bool {
		return f.FormatType() != expfmt.TypeTextPlain && f.FormatType() != expfmt.TypeProtoDelim
	})
}

// expose writes series, sorted by their names, in the format that the client asks for.
func (x *exchange) expose(found []*column) error {
	format := expfmt.NegotiateAccept(x.r.Header, exposedFormats()...)
	x.out.w.Header().Set("Content-Type", string(format))
	encoder := expfmt.NewEncoder(x.out, format)
	paid := int64(0)
	for len(found) > 0 {
		name := found[0].labels.Get(model.MetricNameLabel)
		n := 1
		for n < len(found) && found[n].labels.Get(model.MetricNameLabel) == name {
			n++
		}
		if bytes := exposedBytes(found[:n], format); bytes > paid { // the memory of one family serves the next
			if err := x.entry.Take(bytes - paid); err != nil {
				return err
			}
			paid = bytes
		}
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if err := encoder.Encode(familyOf(name, found[:n])); err != nil {
			return err
		}
		found = found[n:]
	}
	return nil
}

func familyOf(name string, found []*column) *dto.MetricFamily {
	family := &dto.MetricFamily{Name: proto.String(name), Type: dto.MetricType_UNTYPED.Enum(), Metric: make([]*dto.Metric, 0, len(found))}
	for _, c := range found {
		last := len(c.times) - 1
		metric := &dto.Metric{
			Label: make([]*dto.LabelPair, 0, c.labels.Len()), TimestampMs: proto.Int64(c.times[last]), Untyped: &dto.Untyped{Value: proto.Float64(c.values[last])},
		}
		c.labels.Range(func(l labels.Label) {
			if l.Name != model.MetricNameLabel && l.Value != "" {
				metric.Label = append(metric.Label, &dto.LabelPair{Name: proto.String(l.Name), Value: proto.String(l.Value)})
			}
		})
		if !c.labels.Has(model.InstanceLabel) {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: proto.String(model.InstanceLabel), Value: proto.String("")})
		}
		family.Metric = append(family.Metric, metric)
	}
	return family
}

// Write implements io.Writer for encoders of other packages.
func (e *encoder) Write(p []byte) (int, error) {
	e.buf = append(e.buf, p...)
	e.flushIfLong()
	return len(p), e.err
}
