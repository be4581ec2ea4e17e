package parse

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
)

// JSON parses the body of OpenTSDB's /api/put: one datapoint or an array of
// them, each
//
//	{"metric": "m", "timestamp": 1700000000, "value": 1.5, "tags": {"k": "v"}}
//
// A value may be a number or a string that holds one; so may a timestamp, in
// seconds (up to ten digits, a fraction may follow) or milliseconds. Tag values
// may be strings, numbers or booleans. Zero tags are allowed, unknown names are
// ignored, of equal names the last counts.
//
// A datapoint that is well-formed JSON but cannot be stored is an error of its
// own, in OpenTSDB's words, and the others stay. A body that is not JSON, or
// holds something else than datapoints, is ErrMalformed, and the batch holds
// nothing of it. Nor does it after an error of b.Memory.
func JSON(b *Batch, body []byte, limits Limits) error {
	if err := b.reset(body); err != nil {
		return err
	}
	p := jsonParser{b: b, limits: limits.WithDefaults()}
	s := &p.scan
	s.b = body
	switch s.peek() {
	case '{':
		p.datapoint()
	case '[':
		s.array(p.datapoint)
	default:
		b.Reset()
		return fmt.Errorf("%w: the JSON must start as an object or an array", ErrMalformed)
	}
	if s.err == nil && s.peek() != 0 || s.err == nil && s.at < len(body) {
		s.fail("text behind the end")
	}
	if s.err != nil {
		b.Reset()
	}
	return s.err
}

// jsonParser holds what the parse of one body needs at hand.
type jsonParser struct {
	b      *Batch
	scan   jsonScanner
	limits Limits
	number uint32

	// The members of the datapoint being read.
	metric, timestamp, value, tags jsonValue
}

// datapoint reads one element of the body.
func (p *jsonParser) datapoint() {
	s := &p.scan
	if err := p.b.room(); err != nil {
		s.err = err
		return
	}
	p.number++
	c := s.peek()
	start := s.at
	p.metric, p.timestamp, p.value, p.tags = jsonValue{}, jsonValue{}, jsonValue{}, jsonValue{}
	if c == '{' {
		s.object(p.member)
	} else if v := s.value(1); s.err == nil && v.kind != jsonNull {
		s.at = start
		s.fail("a datapoint must be an object")
	}
	if s.err != nil {
		return
	}
	l := Line{
		Text:   Span{uint32(start), uint32(s.at)},
		Head:   p.metric.Span,
		Tags:   p.tags.Span,
		First:  uint32(len(p.b.Points)),
		Count:  1,
		Number: p.number,
		Form:   FormJSON,
	}
	var point Point
	wrong := fault{KindSyntax, "Unexpected null datapoint encountered in set."}
	if c == '{' {
		wrong = p.point(&point, l.Text.Len())
	}
	if wrong.detail != "" {
		p.b.AddError(&l, 1, wrong.kind, wrong.detail, p.limits.ErrorsMax)
		return
	}
	p.b.Lines = append(p.b.Lines, l)
	p.b.Points = append(p.b.Points, point)
}

// member reads a member of a datapoint.
func (p *jsonParser) member(name jsonValue) {
	v := p.scan.value(2)
	raw := p.scan.b[name.Start:name.End]
	if name.escaped {
		raw = append(appendJSONText([]byte{'"'}, raw), '"')
	}
	switch string(raw) {
	case `"metric"`:
		p.metric = v
	case `"timestamp"`:
		p.timestamp = v
	case `"value"`:
		p.value = v
	case `"tags"`:
		p.tags = v
	}
}

// point checks the members in OpenTSDB's order (IncomingDataPoint.validate).
func (p *jsonParser) point(point *Point, textBytes int) fault {
	if textBytes > p.limits.LineBytesMax {
		return fault{KindLimit, lineTooLong(p.limits.LineBytesMax)}
	}
	switch p.metric.kind {
	case jsonObject, jsonArray:
		return syntaxFault("Metric name must be a string")
	case jsonNone, jsonNull:
		return syntaxFault("Metric name was empty")
	}
	if p.metric.kind == jsonString && p.metric.Len() == 2 {
		return syntaxFault("Metric name was empty")
	}
	timeMs, wrong := p.time()
	if wrong.detail != "" {
		return wrong
	}
	number, wrong := p.valueNumber()
	if wrong.detail != "" {
		return wrong
	}
	switch p.tags.kind {
	case jsonNone, jsonNull, jsonObject:
	default:
		return syntaxFault("Tags must be an object")
	}
	*point = Point{TimeMs: timeMs, Mantissa: number.Mantissa, Scale: number.Scale}
	return fault{}
}

// content returns the text of a number, or of a string without its quotes and
// escapes.
func (p *jsonParser) content(v jsonValue) []byte {
	raw := p.scan.b[v.Start:v.End]
	switch {
	case v.kind == jsonNumber:
		return raw
	case v.kind == jsonString && v.escaped:
		return appendJSONText(nil, raw)
	case v.kind == jsonString:
		return raw[1 : len(raw)-1]
	}
	return nil
}

func (p *jsonParser) time() (timeMs int64, wrong fault) {
	text := p.content(p.timestamp)
	if len(text) == 0 {
		return 0, syntaxFault("Invalid timestamp")
	}
	if t, digits := digits19(p.scan.b, int(p.timestamp.Start)); p.timestamp.kind == jsonNumber && digits == len(text) {
		if timeMs, ok := wholeTimeMs(t); ok {
			return timeMs, fault{}
		}
	}
	if timeMs, wrong = putTime(text); wrong.detail == "" {
		return timeMs, fault{}
	}
	// 1.7e9 is a number, too.
	if n, err := numberOf(text); err == nil {
		if seconds := n.Float64(); seconds >= 1 && seconds < 1e13 {
			if seconds < 1e10 {
				seconds *= 1000
			}
			return int64(seconds), fault{}
		}
	}
	return 0, valueFault("Invalid timestamp")
}

func (p *jsonParser) valueNumber() (series.Number, fault) {
	text := p.content(p.value)
	switch p.value.kind {
	case jsonNone, jsonNull:
		return series.Number{}, syntaxFault("Empty value")
	case jsonString:
		if len(text) == 0 {
			return series.Number{}, syntaxFault("Empty value")
		}
	case jsonNumber:
		at, end := int(p.value.Start), int(p.value.End)
		if m, scale, stop, ok := decimal(p.scan.b, at); ok && stop == end {
			return series.Number{Mantissa: int64(m), Scale: scale}, fault{}
		}
	}
	n, err := numberOf(text)
	switch {
	case err == nil:
		return n, fault{}
	case errors.Is(err, errNumberRange):
		return n, valueFault("value is NaN or Infinite: " + string(text))
	}
	return n, valueFault("Unable to parse value to a number")
}
