package parse

import (
	"bytes"
	"math"
	"strconv"

	"github.com/tickmesh/tickmesh/api/series"
)

// stalenessBits are the bits of Prometheus' staleness marker (model/value). VictoriaMetrics stores no other NaN and
// writes it as null.
const stalenessBits = 0x7ff0000000000002

// JSONLines parses the lines that VictoriaMetrics writes at /api/v1/export and takes at /api/v1/import, each a run of
// samples of one series:
//
//	{"metric":{"__name__":"m","a":"b"},"values":[1,2.5,null,"Infinity"],"timestamps":[1700000000000,1700000001000,…]}
//
// Times are milliseconds. A value that is null is a staleness marker; infinities and NaN are words, in quotes or not.
// Members may come in any order, unknown ones are ignored, of equal ones the last counts. Each line is a Line of
// FormLabels. A line that is not of this form is an error of its own, and the others stay.
//
// Of the options Precision and NowMs are not used. Its errors are ErrTooLarge and those of b.Memory; errors of lines
// are in b.Errors.
func JSONLines(b *Batch, body []byte, o LineOptions) (Rest, error) {
	if err := b.reset(body); err != nil {
		return Rest{}, err
	}
	p := jsonLineParser{b: b, limits: o.Limits.WithDefaults()}
	p.run = labelRun{b: b, keyBytesMax: p.limits.KeyBytesMax}
	stream := stream{body: body, inside: o.InsideLine, lineBytesMax: p.limits.LineBytesMax, remedy: jsonLineRemedy, number: o.LinesBefore}
	at, err := stream.lines(o.Partial, func(line Span) error { return p.line(stream.number, line) })
	if err != nil {
		b.Reset()
		return Rest{}, err
	}
	return stream.rest(b, FormLabels, at, p.limits.ErrorsMax), nil
}

const jsonLineRemedy = "; an export with max_rows_per_line has shorter ones"

// jsonLineParser holds what the parse of one body needs at hand.
type jsonLineParser struct {
	b      *Batch
	limits Limits
	run    labelRun

	metric, values, timestamps jsonValue // of the current line
}

// line adds a line, or its error, to the batch. Errors are those of Memory.
func (p *jsonLineParser) line(number uint32, text Span) error {
	b := p.b
	content := b.Body[text.Start:text.End]
	if len(bytes.TrimSpace(content)) == 0 {
		return nil
	}
	l := Line{Text: text, First: uint32(len(b.Points)), Shape: uint32(len(b.Lines)), Number: number, Form: FormLabels}
	p.run.begin()
	refused, err := p.series(&l, content)
	if err != nil {
		return err
	}
	if refused.detail != "" {
		points := max(1, len(b.Points)-int(l.First))
		b.Points = b.Points[:l.First]
		p.run.undo()
		b.AddError(&l, points, refused.kind, refused.detail, p.limits.ErrorsMax)
		return nil
	}
	if l.Count = uint32(len(b.Points)) - l.First; l.Count > 0 {
		b.Lines = append(b.Lines, l)
	}
	return nil
}

// series reads the members of a line, its labels and its samples.
func (p *jsonLineParser) series(l *Line, content []byte) (fault, error) {
	if len(content) > p.limits.LineBytesMax {
		return fault{KindLimit, lineTooLong(p.limits.LineBytesMax) + jsonLineRemedy}, nil
	}
	p.metric, p.values, p.timestamps = jsonValue{}, jsonValue{}, jsonValue{}
	s := jsonScanner{b: content}
	if s.peek() == '{' {
		s.object(func(name jsonValue) { p.member(&s, name) })
	} else {
		s.fail("a line must be an object")
	}
	if s.err == nil && s.peek() != 0 {
		s.fail("something follows the object")
	}
	var wrong fault
	switch {
	case s.err != nil:
		wrong = syntaxFault(s.err.Error())
	case p.metric.kind != jsonObject:
		wrong = syntaxFault(`"metric" must be an object of labels`)
	case p.values.kind != jsonArray || p.timestamps.kind != jsonArray:
		wrong = syntaxFault(`"values" and "timestamps" must be arrays`)
	}
	if wrong.detail != "" {
		return wrong, nil
	}
	if wrong, err := p.labels(l, content[p.metric.Start:p.metric.End]); wrong.detail != "" || err != nil {
		return wrong, err
	}
	return p.samples(content)
}

// member reads a member of a line.
func (p *jsonLineParser) member(s *jsonScanner, name jsonValue) {
	raw := s.b[name.Start:name.End]
	if name.escaped {
		raw = append(appendJSONText([]byte{'"'}, raw), '"')
	}
	switch string(raw) {
	case `"metric"`:
		p.metric = s.value(1)
	case `"values"`:
		p.values = valuesOfLine(s)
	case `"timestamps"`:
		p.timestamps = s.value(1)
	default:
		s.value(1)
	}
}

// valuesOfLine reads an array whose elements may be words, which are no JSON.
func valuesOfLine(s *jsonScanner) jsonValue {
	if s.peek() != '[' {
		return s.value(1)
	}
	start := s.at
	s.array(func() { s.valueOrWord() })
	return jsonValue{Span: Span{uint32(start), uint32(s.at)}, kind: jsonArray}
}

// floatWords are the values that earlier VictoriaMetrics writes without quotes, and others accept.
//
//nolint:gochecknoglobals // a constant table
var floatWords = []struct {
	text  string
	value float64
}{
	{"+Infinity", math.Inf(1)}, {"-Infinity", math.Inf(-1)}, {"Infinity", math.Inf(1)}, {"+Inf", math.Inf(1)}, {"-Inf", math.Inf(-1)}, {"Inf", math.Inf(1)},
	{"+inf", math.Inf(1)}, {"-inf", math.Inf(-1)}, {"inf", math.Inf(1)}, {"NaN", math.NaN()}, {"nan", math.NaN()},
}

// valueOrWord reads any value, or a word for a float, whose kind is jsonNone.
func (s *jsonScanner) valueOrWord() jsonValue {
	s.peek()
	for _, word := range floatWords {
		if rest := s.b[s.at:]; len(rest) >= len(word.text) && string(rest[:len(word.text)]) == word.text {
			v := jsonValue{Span: Span{uint32(s.at), uint32(s.at + len(word.text))}}
			s.at += len(word.text)
			return v
		}
	}
	return s.value(2)
}

// labels writes the labels of a line, which are well-formed.
func (p *jsonLineParser) labels(l *Line, object []byte) (wrong fault, err error) {
	s := jsonScanner{b: object}
	s.object(func(name jsonValue) {
		v := s.value(1)
		switch {
		case wrong.detail != "" || err != nil:
		case v.kind != jsonString:
			wrong = syntaxFault("the label " + string(object[name.Start:name.End]) + " must be a string")
		default:
			wrong, err = p.run.add(textOfJSON(object, name), textOfJSON(object, v))
		}
	})
	if err == nil {
		err = p.run.end(l)
	}
	return wrong, err
}

// textOfJSON returns what a string stands for.
func textOfJSON(b []byte, v jsonValue) []byte {
	raw := b[v.Start:v.End]
	if v.escaped {
		return appendJSONText(nil, raw)
	}
	return raw[1 : len(raw)-1]
}

// samples reads the values and the timestamps of a line, which are well-formed.
func (p *jsonLineParser) samples(content []byte) (wrong fault, err error) {
	b := p.b
	first := len(b.Points)
	values := jsonScanner{b: content[p.values.Start:p.values.End]}
	values.array(func() {
		v := values.valueOrWord()
		if wrong.detail != "" || err != nil {
			return
		}
		if err = b.room(); err != nil {
			return
		}
		var n series.Number
		if n, wrong = numberOfJSON(values.b, v); wrong.detail == "" {
			b.Points = append(b.Points, Point{Mantissa: n.Mantissa, Scale: n.Scale})
		}
	})
	if wrong.detail != "" || err != nil {
		return wrong, err
	}
	count, at := len(b.Points)-first, 0
	times := jsonScanner{b: content[p.timestamps.Start:p.timestamps.End]}
	times.array(func() {
		v := times.value(2)
		if wrong.detail != "" {
			return
		}
		raw := times.b[v.Start:v.End]
		ms, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			wrong = valueFault("the timestamp " + string(raw[:min(len(raw), excerptBytesMaxPut)]) + " is no whole number of milliseconds")
			return
		}
		if !Reachable(ms) {
			wrong = valueFault("the timestamp " + string(raw) + " is out of range")
			return
		}
		if at < count {
			b.Points[first+at].TimeMs = ms
		}
		at++
	})
	if wrong.detail == "" && at != count {
		wrong = syntaxFault(strconv.Itoa(count) + " values have " + strconv.Itoa(at) + " timestamps")
	}
	return wrong, nil
}

// numberOfJSON returns the number of a value.
func numberOfJSON(b []byte, v jsonValue) (series.Number, fault) {
	raw := b[v.Start:v.End]
	switch v.kind {
	case jsonNull:
		return series.Number{Mantissa: stalenessBits, Scale: series.ScaleFloat}, fault{} // by its bits, whatever the processor does to a NaN
	case jsonNumber:
		if n, err := numberOf(raw); err == nil {
			return n, fault{}
		}
	case jsonString, jsonNone:
		text := string(raw)
		if v.kind == jsonString {
			text = string(textOfJSON(b, v))
		}
		for _, word := range floatWords {
			if word.text == text {
				return series.FloatNumber(word.value), fault{}
			}
		}
	}
	return series.Number{}, valueFault("the value " + string(raw[:min(len(raw), excerptBytesMaxPut)]) + " is no number")
}
