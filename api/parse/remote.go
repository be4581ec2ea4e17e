package parse

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// RemoteWriteVersion describes which protobuf message a body is.
type RemoteWriteVersion uint8

// The versions of Prometheus remote write.
const (
	RemoteWrite1 RemoteWriteVersion = 1 // prometheus.WriteRequest
	RemoteWrite2 RemoteWriteVersion = 2 // io.prometheus.write.v2.Request
)

// scratchBytesMax bounds the label text that the references of a remote write
// 2.0 body may expand to.
const scratchBytesMax = 256 << 20

// RemoteWrite parses a decompressed remote write body. Each series is a Line of
// FormLabels; labels need not be in order. The bits of every value are kept,
// stale markers included. Metadata is in Batch.Metadata. Native histograms are counted and refused: each series that has some gets an error of
// KindUnsupported, and what else the body holds stays. So do those with samples of times that no
// query reaches, with KindValue.
//
// Errors: ErrMalformed when the body is not the message, ErrTooLarge, those of b.Memory.
// Nothing of the body is in the batch then.
//
// The messages are described in the Prometheus remote write specifications 1.0
// and 2.0.
func RemoteWrite(b *Batch, body []byte, version RemoteWriteVersion, limits Limits) error {
	if err := b.reset(body); err != nil {
		return err
	}
	limits = limits.WithDefaults()
	p := remoteParser{b: b, errorsMax: limits.ErrorsMax, keyBytesMax: limits.KeyBytesMax}
	var err error
	switch version {
	case RemoteWrite1:
		err = p.request1(body)
	case RemoteWrite2:
		err = p.request2(body)
	default:
		err = fmt.Errorf("%w: unknown version %d of remote write", ErrMalformed, version)
	}
	if err != nil {
		b.Reset()
	}
	return err
}

// remoteParser holds what the parse of one body needs at hand.
type remoteParser struct {
	b           *Batch
	errorsMax   int
	keyBytesMax int
	number      uint32
	scale       uint8 // of the value before: the first guess for the next one
	symbols     []Span
	refs        []uint64
	exemplars   []Span // of the series at hand, at most exemplarsMax

	// Of the series at hand.
	hasExemplars  bool
	samples       int // sample fields
	unreachable   int // those of times that no query reaches
	unreachableAt int // the place of the first of them, from 1
	unreachableMs int64
}

// request1 reads WriteRequest: timeseries = 1, metadata = 3.
func (p *remoteParser) request1(body []byte) error {
	w := wire{b: body}
	for w.next() {
		switch w.field {
		case 1:
			if !w.is(wireBytes) {
				return w.fault()
			}
			if err := p.series1(w.span()); err != nil {
				return err
			}
		case 3:
			if !w.is(wireBytes) {
				return w.fault()
			}
			if err := p.metadata1(w.span()); err != nil {
				return err
			}
		}
	}
	return w.err
}

// series1 reads TimeSeries: labels = 1, samples = 2, exemplars = 3, histograms = 4.
func (p *remoteParser) series1(message Span) error {
	b := p.b
	p.number++
	l := p.line(message)
	histograms, scattered := 0, false
	w := wire{b: b.Body[:message.End], at: int(message.Start)}
	for w.next() {
		if w.field <= 4 && !w.is(wireBytes) {
			return w.fault()
		}
		switch w.field {
		case 1:
			if l.Head.Len() == 0 {
				l.Head.Start = uint32(w.start)
			} else if l.Head.End != uint32(w.start) {
				scattered = true
			}
			l.Head.End = uint32(w.at)
		case 2:
			if err := p.sample(w.span()); err != nil {
				return err
			}
		case 3:
			p.noteExemplar(w.span())
		case 4:
			histograms++
		}
	}
	if w.err != nil {
		return w.err
	}
	if scattered {
		if err := p.gatherLabels(&l, message); err != nil {
			return err
		}
	}
	p.addLine(&l, histograms)
	p.addExemplars(&l, p.exemplarLabel1)
	return nil
}

// gatherLabels copies labels that other fields stand between.
func (p *remoteParser) gatherLabels(l *Line, message Span) error {
	b := p.b
	if err := b.scratchRoom(message.Len()); err != nil {
		return err
	}
	l.InScratch = true
	l.Head.Start = uint32(len(b.Scratch))
	w := wire{b: b.Body[:message.End], at: int(message.Start)}
	for w.next() {
		if w.field == 1 {
			b.Scratch = append(b.Scratch, w.b[w.start:w.at]...)
		}
	}
	l.Head.End = uint32(len(b.Scratch))
	return nil
}

// line begins a series.
func (p *remoteParser) line(message Span) Line {
	p.samples, p.unreachable = 0, 0
	p.exemplars, p.hasExemplars = p.exemplars[:0], false
	return Line{
		Text:   message,
		First:  uint32(len(p.b.Points)),
		Shape:  uint32(len(p.b.Lines)),
		Number: p.number,
		Form:   FormLabels,
	}
}

// histogramRemedy is what the sender, usually Prometheus, can do.
const histogramRemedy = "set send_native_histograms: false for this remote_write, and always_scrape_classic_histograms: true where they are scraped"

func (p *remoteParser) addLine(l *Line, histograms int) {
	b := p.b
	l.Count = uint32(len(b.Points)) - l.First
	if histograms > 0 {
		b.SkippedHistograms += histograms
		b.AddError(l, histograms, KindUnsupported, "native histograms are not stored: "+strconv.Itoa(histograms)+" refused; "+histogramRemedy, p.errorsMax)
	}
	if p.unreachable > 0 {
		b.AddError(l, p.unreachable, KindValue, p.unreachableDetail(), p.errorsMax)
	}
	if l.Count > 0 {
		l.Tags = Span{l.Head.End, l.Head.End}
		b.Lines = append(b.Lines, *l)
	}
}

// unreachableDetail words which samples of a series are of times that no query reaches, with Prometheus' name for it.
func (p *remoteParser) unreachableDetail() string {
	return fmt.Sprintf("out of bounds: %d refused, the first of them sample %d at %d ms; times are from %d to %d ms",
		p.unreachable, p.unreachableAt, p.unreachableMs, int64(scan.TimeMsMin), int64(scan.TimeMsMax))
}

// sample reads Sample: value = 1, timestamp = 2, in both versions.
func (p *remoteParser) sample(message Span) error {
	w := wire{b: p.b.Body[:message.End], at: int(message.Start)}
	var bits uint64
	var timeMs int64
	for w.next() {
		switch w.field {
		case 1:
			if !w.is(wireFixed64) {
				return w.fault()
			}
			bits = binary.LittleEndian.Uint64(w.b[w.at-8:])
		case 2:
			if !w.is(wireVarint) {
				return w.fault()
			}
			timeMs = int64(w.value)
		}
	}
	if w.err != nil {
		return w.err
	}
	p.b.Samples++
	p.samples++
	if !Reachable(timeMs) {
		if p.unreachable++; p.unreachable == 1 {
			p.unreachableAt, p.unreachableMs = p.samples, timeMs
		}
		return nil
	}
	n := series.DecimalOf(math.Float64frombits(bits), p.scale)
	if n.Scale != series.ScaleFloat {
		p.scale = n.Scale
	} else {
		n.Mantissa = int64(bits) // as sent, whatever the processor does to a NaN
	}
	if err := p.b.room(); err != nil {
		return err
	}
	p.b.Points = append(p.b.Points, Point{TimeMs: timeMs, Mantissa: n.Mantissa, Scale: n.Scale})
	return nil
}

// request2 reads Request: symbols = 4, timeseries = 5. The symbols may come
// behind the series.
func (p *remoteParser) request2(body []byte) error {
	w := wire{b: body}
	for w.next() {
		if (w.field == 4 || w.field == 5) && !w.is(wireBytes) {
			return w.fault()
		}
		if w.field == 4 {
			if err := p.b.symbolRoom(); err != nil {
				return err
			}
			p.b.symbols = append(p.b.symbols, w.span())
		}
	}
	p.symbols, p.refs = p.b.symbols, p.b.refs
	if w.err != nil {
		return w.err
	}
	w = wire{b: body}
	for w.next() {
		if w.field == 5 {
			if err := p.series2(w.span()); err != nil {
				return err
			}
		}
	}
	return w.err
}

// series2 reads TimeSeries: labels_refs = 1, samples = 2, histograms = 3,
// exemplars = 4, metadata = 5.
func (p *remoteParser) series2(message Span) error {
	b := p.b
	p.number++
	l := p.line(message)
	p.refs = p.refs[:0]
	histograms := 0
	var metadata Span
	w := wire{b: b.Body[:message.End], at: int(message.Start)}
	for w.next() {
		if w.field >= 2 && w.field <= 5 && !w.is(wireBytes) {
			return w.fault()
		}
		switch w.field {
		case 1:
			if err := p.labelRefs(&w); err != nil {
				return err
			}
		case 2:
			if err := p.sample(w.span()); err != nil {
				return err
			}
		case 3:
			histograms++
		case 4:
			p.noteExemplar(w.span())
		case 5:
			metadata = w.span()
		}
	}
	if w.err != nil {
		return w.err
	}
	b.refs = p.refs
	if err := p.metadata2(metadata); err != nil {
		return err
	}
	if err := b.scratchRoom(p.labelBytes()); err != nil {
		return err
	}
	wrong := p.writeLabels(&l)
	if wrong.detail == "" && p.samples == 0 && histograms == 0 && !p.hasExemplars { // Prometheus sends some that have exemplars alone
		wrong = syntaxFault("TimeSeries must contain at least one sample or histogram")
	}
	if wrong.detail != "" {
		b.Points = b.Points[:l.First]
		b.SkippedExemplars += len(p.exemplars)
		b.AddError(&l, max(1, p.samples), wrong.kind, wrong.detail, p.errorsMax)
		return nil
	}
	if len(b.Scratch) > scratchBytesMax {
		return ErrTooLarge
	}
	p.addLine(&l, histograms)
	p.addExemplars(&l, p.exemplarLabels2)
	return nil
}

// labelRefs reads repeated uint32, packed or not.
func (p *remoteParser) labelRefs(w *wire) error {
	if w.is(wireVarint) {
		p.addRef(w.value)
		return nil
	}
	if !w.is(wireBytes) {
		return w.fault()
	}
	s := w.span()
	for packed := w.b[s.Start:s.End]; len(packed) > 0; {
		v, used := uvarint(packed)
		if used <= 0 {
			return w.fault()
		}
		p.addRef(v)
		packed = packed[used:]
	}
	return nil
}

// refsMax bounds the references of one series: more labels than this no limit
// allows.
const refsMax = 2 * (series.TagsMax + 1)

// addRef adds a reference; one beyond the bound is enough to refuse the series.
func (p *remoteParser) addRef(ref uint64) {
	if len(p.refs) <= refsMax {
		p.refs = append(p.refs, uint64(uint32(ref)))
	}
}

// labelBytes returns a bound of what writeLabels writes.
func (p *remoteParser) labelBytes() int {
	const frameBytes = 16 // of a label: three tags and three lengths
	n := 0
	for i, ref := range p.refs {
		if ref < uint64(len(p.symbols)) {
			n += p.symbols[ref].Len()
		}
		if i%2 == 0 {
			n += frameBytes
		}
	}
	return min(n, p.keyBytesMax+p.keyBytesMax/2+frameBytes*len(p.refs))
}

// writeLabels writes the labels of a series to Scratch as protobuf Label fields,
// the form of remote write 1.0.
func (p *remoteParser) writeLabels(l *Line) fault {
	b := p.b
	l.InScratch = true
	l.Head = Span{uint32(len(b.Scratch)), uint32(len(b.Scratch))}
	if len(p.refs) > refsMax {
		return fault{KindLimit, "more than " + strconv.Itoa(refsMax/2) + " labels"}
	}
	if len(p.refs)%2 != 0 {
		return syntaxFault("invalid labelRefs length " + strconv.Itoa(len(p.refs)))
	}
	for i := 0; i < len(p.refs); i += 2 {
		if r := max(p.refs[i], p.refs[i+1]); r >= uint64(len(p.symbols)) {
			return syntaxFault("labelRefs " + strconv.FormatUint(r, 10) + " outside of symbols table (size " + strconv.Itoa(len(p.symbols)) + ")")
		}
		name, value := p.symbol(p.refs[i]), p.symbol(p.refs[i+1])
		if len(b.Scratch)-int(l.Head.Start)+len(name)+len(value) > p.keyBytesMax+p.keyBytesMax/2 {
			b.Scratch = b.Scratch[:l.Head.Start]
			return fault{KindLimit, "labels are longer than " + strconv.Itoa(p.keyBytesMax) + " bytes"}
		}
		b.Scratch = appendLabel(b.Scratch, name, value, "")
	}
	l.Head.End = uint32(len(b.Scratch))
	return fault{}
}

func (p *remoteParser) symbol(ref uint64) []byte {
	s := p.symbols[ref]
	return p.b.Body[s.Start:s.End]
}
