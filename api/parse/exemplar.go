package parse

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tickmesh/tickmesh/api/series"
)

// Exemplar is an exemplar of a series, which may have no samples in the body.
type Exemplar struct {
	Series Line // its identity; it has no points
	TimeMs int64
	Value  float64
	Labels []series.ExemplarLabel // as series.Exemplar has them
}

// exemplarsMax bounds the exemplars of a body; the rest is left out.
const exemplarsMax = 20_000

// Labels of exemplars that Prometheus makes of OpenTelemetry's fields.
const (
	labelTraceID = "trace_id"
	labelSpanID  = "span_id"
)

// addExemplar adds an exemplar of a line, or counts it as skipped when it cannot be kept. Without memory for one no more are taken: what
// has come with them is not lost for it.
func (b *Batch) addExemplar(l *Line, timeMs int64, value float64, labels []series.ExemplarLabel) {
	labels = slices.DeleteFunc(labels, func(l series.ExemplarLabel) bool { return l.Value == "" }) // as if it was not there
	slices.SortStableFunc(labels, func(a, b series.ExemplarLabel) int { return strings.Compare(a.Name, b.Name) })
	e := series.Exemplar{Labels: labels}
	if b.exemplarsEnd || len(b.Exemplars) == exemplarsMax || !Reachable(timeMs) || e.Check() != nil {
		b.SkippedExemplars++
		return
	}
	bytes := 2 * int(unsafe.Sizeof(Exemplar{})) // the list may have twice the room
	for i := range labels {
		bytes += int(unsafe.Sizeof(labels[i])) + len(labels[i].Name) + len(labels[i].Value)
	}
	if b.pay(bytes) != nil {
		b.exemplarsEnd = true // each one might wait for memory
		b.SkippedExemplars++
		return
	}
	b.exemplarBytes += bytes
	of := *l
	of.First, of.Count = 0, 0
	b.Exemplars = append(b.Exemplars, Exemplar{Series: of, TimeMs: timeMs, Value: value, Labels: labels})
}

// noteExemplar notes where an exemplar of the series at hand is; it is read when the labels of the series are known.
func (p *remoteParser) noteExemplar(message Span) {
	p.hasExemplars = true
	if p.b.KeepExemplars && len(p.exemplars) < exemplarsMax { // nobody has paid for more
		p.exemplars = append(p.exemplars, message)
	} else {
		p.b.SkippedExemplars++
	}
}

// addExemplars reads those that were noted. One that is malformed is skipped.
func (p *remoteParser) addExemplars(l *Line, read func(w *wire, labels []series.ExemplarLabel) ([]series.ExemplarLabel, bool)) {
	for _, message := range p.exemplars {
		var labels []series.ExemplarLabel
		var timeMs int64
		var value float64
		good := true
		w := wire{b: p.b.Body[:message.End], at: int(message.Start)}
		for good && w.next() {
			switch {
			case w.field == 1:
				labels, good = read(&w, labels)
				good = good && len(labels) <= series.ExemplarRunesMax/2
			case w.field == 2 && w.is(wireFixed64):
				value = math.Float64frombits(binary.LittleEndian.Uint64(w.b[w.at-8:]))
			case w.field == 3 && w.is(wireVarint):
				timeMs = int64(w.value)
			case w.field <= 3:
				good = false
			}
		}
		if !good || w.err != nil {
			p.b.SkippedExemplars++
			continue
		}
		p.b.addExemplar(l, timeMs, value, labels)
	}
}

// exemplarLabel1 reads Label of Exemplar, remote write 1.0: name = 1, value = 2.
func (p *remoteParser) exemplarLabel1(w *wire, labels []series.ExemplarLabel) ([]series.ExemplarLabel, bool) {
	if !w.is(wireBytes) {
		return labels, false
	}
	message := w.span()
	var l series.ExemplarLabel
	of := wire{b: p.b.Body[:message.End], at: int(message.Start)}
	for of.next() {
		if of.field > 2 {
			continue
		}
		if !of.is(wireBytes) {
			return labels, false
		}
		text := p.exemplarText(of.span())
		if of.field == 1 {
			l.Name = text
		} else {
			l.Value = text
		}
	}
	return append(labels, l), of.err == nil
}

// exemplarLabels2 reads labels_refs of Exemplar, remote write 2.0: repeated uint32, packed or not.
func (p *remoteParser) exemplarLabels2(w *wire, labels []series.ExemplarLabel) ([]series.ExemplarLabel, bool) {
	if !w.is(wireBytes) {
		return labels, false // each reference by itself: nobody sends it
	}
	s := w.span()
	var refs [series.ExemplarRunesMax]uint64
	count := 0
	for packed := p.b.Body[s.Start:s.End]; len(packed) > 0; count++ {
		v, used := uvarint(packed)
		if used <= 0 || count == len(refs) || v >= uint64(len(p.symbols)) {
			return labels, false
		}
		refs[count], packed = v, packed[used:]
	}
	for i := 0; i+1 < count; i += 2 {
		labels = append(labels, series.ExemplarLabel{Name: p.exemplarText(p.symbols[refs[i]]), Value: p.exemplarText(p.symbols[refs[i+1]])})
	}
	return labels, count%2 == 0
}

// exemplarText copies a text, as far as it can be one of a label that is allowed.
func (p *remoteParser) exemplarText(s Span) string {
	const bytesMax = series.ExemplarRunesMax*utf8.UTFMax + 1
	return string(p.b.Body[s.Start:min(s.End, s.Start+bytesMax)])
}

// countExemplar notes that a data point has an exemplar. It counts as skipped until otlpExemplars reads it, which it does of a point that
// is taken.
func (p *otlpParser) countExemplar(d *dataPoint) {
	d.hasExemplars = true
	p.b.SkippedExemplars++
}

// otlpExemplars reads the exemplars of a data point that has some, which are in a field of it. LineOf returns the line that one of a value
// belongs to. One that is malformed is skipped.
func (p *otlpParser) otlpExemplars(d *dataPoint, field uint64, lineOf func(value float64) *Line) {
	if !p.b.KeepExemplars || !d.hasExemplars {
		return
	}
	w := p.fields(d.at)
	for w.next() {
		if w.field != field || !w.is(wireBytes) {
			continue
		}
		timeMs, value, labels, good := p.otlpExemplar(w.span())
		if !good {
			continue
		}
		p.b.SkippedExemplars-- // addExemplar counts it again if it cannot be kept
		if timeMs == 0 {
			timeMs = d.timeMs
		}
		p.b.addExemplar(lineOf(value), timeMs, value, labels)
	}
}

// otlpExemplar reads Exemplar: time_unix_nano = 2, as_double = 3, span_id = 4, trace_id = 5, as_int = 6, filtered_attributes = 7. As in
// Prometheus the latter are left out when there are too many.
func (p *otlpParser) otlpExemplar(message Span) (timeMs int64, value float64, labels []series.ExemplarLabel, good bool) {
	hasValue := false
	w := p.fields(message)
	for w.next() {
		switch {
		case w.field == 2 && w.is(wireFixed64):
			timeMs = int64(w.fixed64() / 1e6)
		case w.field == 3 && w.is(wireFixed64):
			value, hasValue = math.Float64frombits(w.fixed64()), true
		case w.field == 6 && w.is(wireFixed64):
			value, hasValue = float64(int64(w.fixed64())), true
		case (w.field == 4 || w.field == 5) && w.is(wireBytes):
			s := w.span()
			id := p.b.Body[s.Start:s.End]
			if !slices.ContainsFunc(id, func(c byte) bool { return c != 0 }) || len(id) > 16 {
				continue // there is none
			}
			name := labelSpanID
			if w.field == 5 {
				name = labelTraceID
			}
			labels = append(labels, series.ExemplarLabel{Name: name, Value: hex.EncodeToString(id)})
		}
	}
	if w.err != nil || !hasValue || p.readAttributes(message, 7) != nil {
		return 0, 0, nil, false
	}
	runes := 0
	for _, l := range labels {
		runes += len(l.Name) + len(l.Value)
	}
	for _, a := range p.attributes {
		if a.fault != nil {
			return 0, 0, nil, false
		}
		runes += utf8.RuneCount(a.key) + utf8.RuneCount(a.value)
	}
	if runes <= series.ExemplarRunesMax {
		for _, a := range p.attributes {
			labels = append(labels, series.ExemplarLabel{Name: string(a.key), Value: string(a.value)})
		}
	}
	return timeMs, value, labels, true
}

// bucketLine returns the line of the first of a data point's buckets whose bound is not below a value. The lines are the last ones of the
// batch: of so many bounds, which grow, and of a bucket without one.
func (b *Batch) bucketLine(bounds int, value float64, bound func(i int) float64) *Line {
	buckets := b.Lines[len(b.Lines)-bounds-1:]
	return &buckets[sort.Search(bounds, func(i int) bool { return value <= bound(i) })]
}

// exemplar reads what follows the # behind a sample: {labels} value [time, in seconds], and skips what is nothing of that kind.
func (p *expositionParser) exemplar(l *Line, s []byte, sampleMs int64) {
	labels, timeMs, value, good := p.exemplarParts(s, sampleMs)
	if !good {
		p.b.SkippedExemplars++
		return
	}
	p.b.addExemplar(l, timeMs, value, labels)
}

func (p *expositionParser) exemplarParts(s []byte, sampleMs int64) (labels []series.ExemplarLabel, timeMs int64, value float64, good bool) {
	at := skipWhite(s, 0)
	if at == len(s) || s[at] != '{' {
		return nil, 0, 0, false
	}
	for at++; ; {
		if at = skipWhite(s, at); at < len(s) && s[at] == '}' {
			break
		}
		name, behind, _ := p.labelName(s, at)
		if behind == at || len(labels) == series.ExemplarRunesMax/2 {
			return nil, 0, 0, false
		}
		text, next, wrong := p.labelValue(s, skipWhite(s, behind), name)
		if wrong.detail != "" {
			return nil, 0, 0, false
		}
		labels = append(labels, series.ExemplarLabel{Name: string(name), Value: string(text)})
		if at = skipWhite(s, next); at < len(s) && s[at] == ',' {
			at++
		}
	}
	rest := s[at+1:]
	end := uint32(len(rest))
	word := blankedWord(rest, Span{0, end})
	stamp := blankedWord(rest, Span{word.End, end})
	n, wrong := numberOrWord(rest[word.Start:word.End])
	if word.Len() == 0 || wrong.detail != "" || blankedWord(rest, Span{stamp.End, end}).Len() > 0 {
		return nil, 0, 0, false
	}
	if timeMs = sampleMs; stamp.Len() > 0 {
		if timeMs, wrong = expositionTime(rest[stamp.Start:stamp.End]); wrong.detail != "" {
			return nil, 0, 0, false
		}
	}
	return labels, timeMs, n.Float64(), true
}
