package parse

import (
	"errors"
	"unsafe"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Kinds of errors that concern a whole body. Errors of single lines are in
// Batch.Errors.
var (
	// ErrMalformed: the body as a whole cannot be read (JSON, protobuf). The
	// batch holds nothing of it.
	ErrMalformed = errors.New("malformed body")
	// ErrTooLarge: the body is longer than BodyBytesMax.
	ErrTooLarge = errors.New("body too large")
)

// BodyBytesMax bounds one body, so that spans fit 32 bits.
const BodyBytesMax = 1<<31 - 1

// Limits bound one line. The zero value of a field stands for its default.
type Limits struct {
	LineBytesMax int // one line with its newline, or one JSON datapoint; default 256 KiB
	TagsMax      int // tags of one series; default 64
	KeyBytesMax  int // the canonical key of one series; default 16 KiB
	ErrorsMax    int // errors kept with their text; the rest is only counted; default 1,000
}

// Defaults of Limits.
const (
	LineBytesMaxDefault = 256 << 10
	TagsMaxDefault      = 64
	KeyBytesMaxDefault  = 16 << 10
	ErrorsMaxDefault    = 1000
	// JSONLineBytesMax is what servers take as a line of JSONLines where LineBytesMax is less: each one that
	// /api/v1/export writes is shorter, whatever its values, times and labels are.
	JSONLineBytesMax = 1 << 20
)

// WithDefaults fills in what is not set.
func (l Limits) WithDefaults() Limits {
	if l.LineBytesMax <= 0 {
		l.LineBytesMax = LineBytesMaxDefault
	}
	if l.TagsMax <= 0 {
		l.TagsMax = TagsMaxDefault
	}
	if l.KeyBytesMax <= 0 {
		l.KeyBytesMax = KeyBytesMaxDefault
	}
	if l.ErrorsMax <= 0 {
		l.ErrorsMax = ErrorsMaxDefault
	}
	return l
}

// Span is a half-open range of bytes.
type Span struct{ Start, End uint32 }

// Len returns the number of bytes.
func (s Span) Len() int { return int(s.End - s.Start) }

// Form describes how the identity text of a line is written.
type Form uint8

// The forms.
const (
	FormLine     Form = iota // Head is "measurement,tag=value,…", escaped
	FormPut                  // Head is the metric, Tags is "k=v k=v …"
	FormJSON                 // Head is the raw JSON value of metric, Tags that of tags
	FormLabels               // Head is a run of protobuf Label fields (field 1 of TimeSeries)
	FormText                 // as FormLabels, of a line of text
	FormGraphite             // Head is a path with its tags, "a.b.c;name=value;…"
)

// Line is what shares one identity text: a line of text, a JSON datapoint, a
// series of remote write.
type Line struct {
	Head, Tags Span   // the identity text, in Body or, with InScratch, in Scratch
	Text       Span   // the whole line in Body, for error messages
	First      uint32 // index of its first point
	Count      uint32 // number of its points
	Shape      uint32 // index of the line of this batch whose field names, in order, are the same
	Number     uint32 // place in the body, from 1
	Form       Form
	InScratch  bool
}

// Point is one sample before it has a series. Mantissa and Scale are a
// series.Number.
type Point struct {
	TimeMs       int64
	Mantissa     int64
	Field        uint32 // where in Body the field's name starts
	FieldLen     uint16 // 0 when the protocol has no fields
	Scale        uint8
	FieldEscaped bool // the name holds backslashes that must be resolved
}

// Reachable reports whether queries reach a time: a sample beyond would be written, and never be read.
func Reachable(timeMs int64) bool { return timeMs >= scan.TimeMsMin && timeMs <= scan.TimeMsMax }

// Command is a telnet line that is not a put.
type Command struct {
	Text   Span // the line in Body, without its end
	Lines  int  // how many elements of Lines came before it
	Number int  // its line, from 1
}

// Batch is what a body holds. Parsers reset it; its memory is reused.
type Batch struct {
	Body    []byte
	Scratch []byte
	Lines   []Line
	Points  []Point

	Commands []Command
	Metadata []Metadata // remote write: what is said of metrics, at most metadataMax
	// Exemplars are there only with KeepExemplars, at most exemplarsMax.
	Exemplars []Exemplar

	Errors      []LineError
	ErrorsTotal int // with those that were only counted
	ErrorPoints int // points that were lost with all of them

	SkippedStrings int // line protocol fields that hold a string, and values of Graphite that are NaN
	// SkippedExemplars were left out: all, unless KeepExemplars is set, and otherwise those that cannot be kept.
	SkippedExemplars  int
	SkippedHistograms int // remote write; each series that has some is also an error
	Samples           int // remote write: samples in the body, refused ones too

	symbols []Span   // remote write 2.0: the symbols table
	refs    []uint64 // remote write 2.0: the labels of the current series

	// KeepExemplars has exemplars read. It stays until it is set anew.
	KeepExemplars bool
	exemplarBytes int  // memory of Exemplars
	exemplarsEnd  bool // there was no memory for one

	// Extra is given to the series of all lines. It stays until it is set anew.
	Extra ExtraLabels
	// Memory is asked before the batch grows; nil: it may. It stays until it is set anew.
	Memory Memory
	paid   int // bytes that Memory knows of, and those that were there before

	keys  KeyBuilder     // checks the heads of line protocol
	names *GraphiteNames // of Graphite's paths
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	*b = Batch{
		Scratch:  b.Scratch[:0],
		Lines:    b.Lines[:0],
		Points:   b.Points[:0],
		Commands: b.Commands[:0],
		Metadata: b.Metadata[:0],
		Errors:   b.Errors[:0],
		symbols:  b.symbols[:0],
		refs:     b.refs[:0],
		keys:     b.keys,
		Extra:    b.Extra,
		Memory:   b.Memory,

		KeepExemplars: b.KeepExemplars,
	}
}

// MemoryBytes returns about how much memory the batch keeps, its body aside. A
// pool lets go of batches that have grown beyond its bound.
func (b *Batch) MemoryBytes() int {
	const (
		commandBytes, errorBytes = int(unsafe.Sizeof(Command{})), int(unsafe.Sizeof(LineError{}))
		referenceBytes           = 8
	)
	return cap(b.Scratch) + lineBytes*cap(b.Lines) + pointBytes*cap(b.Points) +
		commandBytes*cap(b.Commands) + errorBytes*cap(b.Errors) +
		spanBytes*cap(b.symbols) + referenceBytes*cap(b.refs) + b.exemplarBytes + b.keys.memoryBytes()
}

// Head returns the first part of a line's identity text.
func (b *Batch) Head(l *Line) []byte { return b.identity(l, l.Head) }

// Tags returns the second part of a line's identity text.
func (b *Batch) Tags(l *Line) []byte { return b.identity(l, l.Tags) }

func (b *Batch) identity(l *Line, s Span) []byte {
	if l.InScratch {
		return b.Scratch[s.Start:s.End]
	}
	return b.Body[s.Start:s.End]
}

// Field returns the raw name of a point's field; it is empty when the protocol
// has none.
func (b *Batch) Field(p *Point) []byte {
	return b.Body[p.Field : p.Field+uint32(p.FieldLen)]
}

// reset starts a batch over a body.
func (b *Batch) reset(body []byte) error {
	b.Reset()
	if len(body) > BodyBytesMax {
		return ErrTooLarge
	}
	b.Body = body
	if b.Memory != nil {
		b.paid = b.MemoryBytes()
	}
	return nil
}

// padded returns the body with up to 16 bytes of its spare capacity, for reads of
// whole words near its end. What is behind the body is never taken for input.
func padded(body []byte) []byte {
	return body[:min(cap(body), len(body)+16)]
}
