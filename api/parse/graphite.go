package parse

import (
	"bytes"
	"math"
	"strings"

	"github.com/tickmesh/tickmesh/api/series"
)

// GraphiteOptions are the arguments of Graphite and GraphitePickle.
type GraphiteOptions struct {
	Limits     Limits
	Names      *GraphiteNames // nil: paths are metrics
	Partial    bool           // as in LineOptions
	InsideLine bool           // as in LineOptions; of Graphite alone
	NowMs      int64          // the time of points without one
}

// Graphite parses Graphite's plaintext protocol:
//
//	path[;name=value…] value seconds
//
// Spaces and tabs are between the words. The seconds may have a fraction; -1 and N stand for now. Blank lines, and
// those that begin with #, are skipped, and so are values that are NaN, as carbon does; they are counted.
//
// Its errors are ErrTooLarge and those of b.Memory; errors of lines are in b.Errors.
func Graphite(b *Batch, body []byte, o GraphiteOptions) (Rest, error) {
	if err := b.reset(body); err != nil {
		return Rest{}, err
	}
	p := newGraphiteParser(b, o)
	stream := stream{body: body, inside: o.InsideLine, lineBytesMax: p.limits.LineBytesMax}
	at := stream.start()
	for at < len(body) {
		if err := b.room(); err != nil {
			b.Reset()
			return Rest{}, err
		}
		stream.number++
		p.number = stream.number
		stop := bytes.IndexByte(body[at:], '\n')
		if stop < 0 {
			if o.Partial {
				break
			}
			stop = len(body) - at
		}
		p.line(at, at+stop)
		at += stop + 1
	}
	return stream.rest(b, FormGraphite, at, p.limits.ErrorsMax), nil
}

// graphiteParser holds what the parse of one body needs at hand.
type graphiteParser struct {
	b      *Batch
	limits Limits
	nowMs  int64
	number uint32 // of the point, from 1
}

func newGraphiteParser(b *Batch, o GraphiteOptions) *graphiteParser {
	b.names = o.Names
	return &graphiteParser{b: b, limits: o.Limits.WithDefaults(), nowMs: o.NowMs}
}

// line parses body[start:stop].
func (p *graphiteParser) line(start, stop int) {
	body := p.b.Body
	if stop > start && body[stop-1] == '\r' {
		stop--
	}
	text := Span{uint32(start), uint32(stop)}
	if stop-start > p.limits.LineBytesMax {
		p.refuse(text, fault{KindLimit, lineTooLong(p.limits.LineBytesMax)})
		return
	}
	var words [4]Span
	n := 0
	for at := text; n < len(words); n++ {
		if words[n] = blankedWord(body, at); words[n].Len() == 0 {
			break
		}
		at.Start = words[n].End
	}
	if n == 0 || body[words[0].Start] == '#' {
		return
	}
	if n != 3 {
		p.refuse(text, syntaxFault("expected a path, a value and a time"))
		return
	}
	value, time := body[words[1].Start:words[1].End], body[words[2].Start:words[2].End]
	if isNaN(value) {
		p.b.SkippedStrings++
		return
	}
	number, wrong := graphiteValue(value)
	var timeMs int64
	if wrong.detail == "" {
		timeMs, wrong = p.textTime(time)
	}
	if wrong.detail != "" {
		p.refuse(text, wrong)
		return
	}
	p.add(words[0], text, timeMs, number)
}

// blankedWord returns the first word of a part of the body; it is empty when there is none.
func blankedWord(body []byte, of Span) Span {
	blank := func(c byte) bool { return c == ' ' || c == '\t' }
	for of.Start < of.End && blank(body[of.Start]) {
		of.Start++
	}
	s := Span{of.Start, of.Start}
	for s.End < of.End && !blank(body[s.End]) {
		s.End++
	}
	return s
}

func isNaN(word []byte) bool {
	return len(word) <= 4 && strings.EqualFold(strings.TrimLeft(string(word), "+-"), "nan")
}

func graphiteValue(word []byte) (series.Number, fault) {
	n, err := numberOf(word)
	if err != nil {
		return n, valueFault("the value is no number: " + err.Error())
	}
	return n, fault{}
}

// textTime reads a time in seconds.
func (p *graphiteParser) textTime(word []byte) (timeMs int64, wrong fault) {
	const secondsDigitsMax = 10
	switch string(word) {
	case "-1", "-1.0", "N":
		return p.nowMs, fault{}
	}
	if whole, _, _ := bytes.Cut(word, []byte{'.'}); len(whole) > secondsDigitsMax {
		return 0, valueFault("the time is not in seconds since 1970")
	}
	return putTime(word)
}

// numericTime reads a time in seconds.
func (p *graphiteParser) numericTime(seconds float64) (timeMs int64, wrong fault) {
	switch {
	case seconds == -1:
		return p.nowMs, fault{}
	case seconds >= 1e-3 && seconds <= putSecondsMax:
		return int64(math.Round(seconds * 1000)), fault{}
	}
	return 0, valueFault("the time is not in seconds since 1970")
}

func (p *graphiteParser) add(path, text Span, timeMs int64, n series.Number) {
	b := p.b
	b.Lines = append(b.Lines, Line{
		Head: path, Text: text, First: uint32(len(b.Points)), Count: 1, Shape: uint32(len(b.Lines)), Number: p.number, Form: FormGraphite,
	})
	b.Points = append(b.Points, Point{TimeMs: timeMs, Mantissa: n.Mantissa, Scale: n.Scale})
}

func (p *graphiteParser) refuse(text Span, wrong fault) {
	l := Line{Text: text, Number: p.number, Form: FormGraphite}
	p.b.AddError(&l, 1, wrong.kind, wrong.detail, p.limits.ErrorsMax)
}
