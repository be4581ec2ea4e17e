package parse

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/series"
)

// PutOptions are the arguments of Puts.
type PutOptions struct {
	Limits     Limits
	Partial    bool // as in LineOptions
	InsideLine bool // as in LineOptions
	PutsOnly   bool // nobody reads answers: a line that is no put is an error, not a command
	Bare       bool // the word put may be left out, as in TickTock's datagrams: there are no commands
}

// Puts parses OpenTSDB put lines:
//
//	put <metric> <timestamp> <value> [<name>=<value> …]
//
// With Bare, lines without put, which are TickTock's datagrams, are taken, too.
// A timestamp of up to ten digits is in seconds, a longer one in milliseconds; a
// fraction of a second may follow a point. Other lines become Commands, or errors with PutsOnly; blank
// lines are skipped. The rules are those of OpenTSDB 2.5 (PutDataPointRpc, Tags,
// IncomingDataPoints), with these differences: zero tags are allowed, runs of
// spaces count as one, integers beyond 64 bits are rounded as floats are, and
// text is UTF-8.
//
// Its errors are ErrTooLarge and those of b.Memory; errors of lines are in b.Errors.
func Puts(b *Batch, body []byte, o PutOptions) (Rest, error) {
	if err := b.reset(body); err != nil {
		return Rest{}, err
	}
	p := putParser{b: b, pad: padded(body), end: len(body), limits: o.Limits.WithDefaults(), putsOnly: o.PutsOnly, bare: o.Bare}
	stream := stream{body: body, inside: o.InsideLine, lineBytesMax: p.limits.LineBytesMax}
	at := stream.start()
	for at < p.end {
		if err := b.room(); err != nil {
			b.Reset()
			return Rest{}, err
		}
		stream.number++
		p.number = stream.number
		if next, ok := p.fast(at); ok {
			at = next
			continue
		}
		stop := bytes.IndexByte(body[at:], '\n')
		if stop < 0 {
			if o.Partial {
				break
			}
			stop = p.end - at
		}
		p.general(at, at+stop)
		at += stop + 1
	}
	return stream.rest(b, FormPut, at, p.limits.ErrorsMax), nil
}

// putParser holds what the parse of one body needs at hand.
type putParser struct {
	b      *Batch
	pad    []byte // the body and some bytes behind it
	end    int    // of the body
	number uint32
	limits Limits

	putsOnly, bare bool

	// The last timestamp that the fast path has read: where it is, with the
	// space behind it, and its time.
	stamp, stampBytes int
	stampMs           int64
}

// "put " as it is loaded into the low half of a word.
const putWord = 'p' | 'u'<<8 | 't'<<16 | ' '<<24

// fast parses the line at pad[at:] if it is complete and of the common form:
// single spaces, whole seconds or milliseconds, a plain decimal. It returns the
// start of the next line, or ok = false and has changed nothing.
func (p *putParser) fast(at int) (next int, ok bool) {
	pad := p.pad
	if at+8 > len(pad) {
		return 0, false
	}
	metric := at + 4
	if uint32(load64(pad, at)) != putWord {
		if !p.bare {
			return 0, false
		}
		metric = at
	}
	i, ok := wordEnd(pad, metric)
	if !ok || pad[i] != ' ' || i == metric {
		return 0, false
	}
	metricEnd := i
	timeMs, i, ok := p.fastTime(i + 1)
	if !ok || i >= len(pad) {
		return 0, false
	}
	sign := signBytes(pad[i])
	mantissa, scale, i, ok := decimal(pad, i+sign)
	if !ok || i >= len(pad) || mantissa < uint64(sign) { // −0 is no decimal
		return 0, false
	}
	tags := i
	if pad[i] == ' ' {
		tags++
		if i, ok = textEnd(pad, tags); !ok {
			return 0, false
		}
	}
	end := i
	if i < p.end && pad[i] == '\r' {
		i++
	}
	if i >= p.end || pad[i] != '\n' || end-at > p.limits.LineBytesMax {
		return 0, false
	}
	l, point := p.add()
	l.Head = Span{uint32(metric), uint32(metricEnd)}
	l.Tags = Span{uint32(tags), uint32(end)}
	l.Text = Span{uint32(at), uint32(end)}
	point.TimeMs, point.Mantissa, point.Scale = timeMs, signed(mantissa, sign), scale
	return i + 1, true
}

// fastTime reads the timestamp at pad[i:] and the space behind it. Most lines
// have the timestamp of the line before.
func (p *putParser) fastTime(i int) (timeMs int64, end int, ok bool) {
	if p.stampBytes > 0 && sameText(p.pad, i, p.stamp, p.stampBytes) {
		return p.stampMs, i + p.stampBytes, true
	}
	t, digits := digits19(p.pad, i)
	end = i + digits
	if digits == 0 || end >= len(p.pad) || p.pad[end] != ' ' {
		return 0, 0, false
	}
	if timeMs, ok = wholeTimeMs(t); ok {
		p.stamp, p.stampBytes, p.stampMs = i, digits+1, timeMs
	}
	return timeMs, end + 1, ok
}

// wordEnd finds the first space or control character from i on.
func wordEnd(pad []byte, i int) (end int, ok bool) {
	for ; i+8 <= len(pad); i += 8 {
		if n := first(below(load64(pad, i), ' '+1)); n < 8 {
			return i + n, true
		}
	}
	return i, false
}

// textEnd finds the first control character from i on.
func textEnd(pad []byte, i int) (end int, ok bool) {
	for ; i+8 <= len(pad); i += 8 {
		if n := first(below(load64(pad, i), ' ')); n < 8 {
			return i + n, true
		}
	}
	return i, false
}

// add makes room for a line and its point. Spans and numbers are left to the
// caller, to be written in place: they may hold those of an earlier batch.
func (p *putParser) add() (*Line, *Point) {
	b := p.b
	n := len(b.Lines)
	b.Lines = slices.Grow(b.Lines, 1)[:n+1]
	b.Points = slices.Grow(b.Points, 1)[:n+1]
	l, point := &b.Lines[n], &b.Points[n]
	l.First, l.Count, l.Shape, l.Number = uint32(n), 1, uint32(n), p.number
	l.Form, l.InScratch = FormPut, false
	point.Field, point.FieldLen, point.FieldEscaped = 0, 0, false
	return l, point
}

// general parses the line body[start:stop] by all rules and adds it, its error,
// or its command to the batch.
func (p *putParser) general(start, stop int) {
	b := p.b
	if stop > start && b.Body[stop-1] == '\r' {
		stop--
	}
	l := Line{Text: Span{uint32(start), uint32(stop)}, Number: p.number, Form: FormPut}
	if stop-start > p.limits.LineBytesMax {
		b.AddError(&l, 1, KindLimit, lineTooLong(p.limits.LineBytesMax), p.limits.ErrorsMax)
		return
	}
	line := b.Body[:stop]
	command := nextWord(line, uint32(start))
	if command.Len() == 0 {
		return
	}
	put := string(line[command.Start:command.End]) == "put"
	if !put && !p.bare {
		if p.putsOnly {
			b.AddError(&l, 1, KindSyntax, "not a put line", p.limits.ErrorsMax)
			return
		}
		b.Commands = append(b.Commands, Command{Text: l.Text, Lines: len(b.Lines), Number: int(p.number)})
		return
	}
	metric := command
	if put {
		metric = nextWord(line, command.End)
	}
	timestamp := nextWord(line, metric.End)
	value := nextWord(line, timestamp.End)
	if value.Len() == 0 {
		words := min(metric.Len(), 1) + min(timestamp.Len(), 1)
		b.AddError(&l, 1, KindSyntax, "not enough arguments (need least 3, got "+strconv.Itoa(words)+")", p.limits.ErrorsMax)
		return
	}
	timeMs, wrong := putTime(line[timestamp.Start:timestamp.End])
	var n series.Number
	if wrong.detail == "" {
		n, wrong = putNumber(line[value.Start:value.End])
	}
	if wrong.detail != "" {
		b.AddError(&l, 1, wrong.kind, wrong.detail, p.limits.ErrorsMax)
		return
	}
	added, point := p.add()
	added.Head, added.Text = metric, l.Text
	added.Tags = Span{nextWord(line, value.End).Start, uint32(stop)}
	point.TimeMs, point.Mantissa, point.Scale = timeMs, n.Mantissa, n.Scale
}

// nextWord returns the next word from i on; it is empty at the end of the line.
func nextWord(line []byte, i uint32) Span {
	end := uint32(len(line))
	for i < end && line[i] == ' ' {
		i++
	}
	s := Span{i, i}
	for s.End < end && line[s.End] != ' ' {
		s.End++
	}
	return s
}

// The largest timestamps, as numbers of ten and thirteen digits.
const (
	putSecondsMax = 9_999_999_999
	putTimeMsMax  = 9_999_999_999_999
)

// wholeTimeMs takes a timestamp for seconds or milliseconds by its magnitude. It
// is not ok for zero and for what is too large.
func wholeTimeMs(t uint64) (timeMs int64, ok bool) {
	if t <= putSecondsMax {
		return int64(t) * 1000, t > 0
	}
	return int64(t), t <= putTimeMsMax
}

// putTime reads a timestamp: whole seconds (up to ten digits), milliseconds (up
// to thirteen), or seconds with a fraction, cut to milliseconds.
func putTime(word []byte) (timeMs int64, wrong fault) {
	whole, fraction, point := bytes.Cut(word, []byte{'.'})
	t, wrong := parseLong(whole, word)
	if wrong.detail != "" {
		return 0, wrong
	}
	if !point {
		if t <= 0 {
			return 0, syntaxFault("invalid timestamp: " + string(word))
		}
		timeMs, ok := wholeTimeMs(uint64(t))
		if !ok {
			return 0, syntaxFault("bad timestamp=" + string(word))
		}
		return timeMs, fault{}
	}
	if end := skipDigits(fraction, 0); end < len(fraction) {
		return 0, badCharacter(fraction[end:], word)
	}
	if t > putSecondsMax {
		return 0, syntaxFault("bad timestamp=" + string(word))
	}
	timeMs = t * 1000
	for i, unit := 0, int64(100); i < len(fraction) && unit > 0; i, unit = i+1, unit/10 {
		timeMs += int64(fraction[i]-'0') * unit
	}
	if timeMs <= 0 || whole[0] == '-' {
		return 0, syntaxFault("invalid timestamp: " + string(word))
	}
	return timeMs, fault{}
}

// parseLong reads a whole number with OpenTSDB's errors (Tags.parseLong). Word
// is what the errors show.
func parseLong(text, word []byte) (int64, fault) {
	if len(text) == 0 {
		return 0, valueFault("Empty string")
	}
	start := skipSign(text, 0)
	if start == len(text) {
		return 0, valueFault("Just a sign, no value: " + string(word))
	}
	if end := skipDigits(text, start); end < len(text) {
		return 0, badCharacter(text[end:], word)
	}
	v, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, valueFault("Value too long: " + string(word))
	}
	return v, fault{}
}

func badCharacter(text, word []byte) fault {
	r, _ := utf8.DecodeRune(text)
	return valueFault("Invalid character '" + string(r) + "' in " + string(word))
}

// putNumber reads a value with OpenTSDB's errors.
func putNumber(word []byte) (series.Number, fault) {
	n, err := numberOf(word)
	switch {
	case err == nil:
		return n, fault{}
	case errors.Is(err, errNumberRange):
		return n, syntaxFault("value is NaN or Infinite: " + string(word))
	case bytes.ContainsAny(word, ".eE"):
		return n, valueFault("For input string: \"" + string(word) + "\"")
	}
	_, wrong := parseLong(word, word)
	return n, wrong
}
