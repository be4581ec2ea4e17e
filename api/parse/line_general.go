package parse

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/tickmesh/tickmesh/api/series"
)

// lineEnd finds the newline that ends the line at at: one that is not escaped
// and not inside a quoted field value (InfluxDB's scanLine). It returns the end of
// the body when there is none.
func lineEnd(body []byte, at int) int {
	quoted, fields := false, false
	equals, commas := 0, 0
	for i := at; i < len(body); i++ {
		switch c := body[i]; {
		case c == '\\':
			i++
		case c == '\n' && !quoted:
			return i
		case c == ' ':
			fields = true
		case !fields:
		case c == '=' && !quoted:
			equals++
		case c == ',' && !quoted:
			commas++
		case c == '"' && equals > commas:
			quoted = !quoted
		}
	}
	return len(body)
}

// general parses the line body[start:stop] by all rules and adds it, or its
// error, to the batch.
func (p *lineParser) general(start, stop int) {
	b := p.b
	text := Span{uint32(start), uint32(stop)}
	line := b.Body[:stop]
	if stop > start && line[stop-1] == '\r' {
		line = line[:stop-1]
	}
	at := skipBlanks(line, start)
	if at == len(line) || line[at] == '#' {
		return
	}
	text.Start = uint32(at)
	text.End = uint32(len(line))
	first, strings := p.count, b.SkippedStrings
	p.firstText = nil
	headEnd := p.headEnd(line, at)
	var wrong fault
	if stop-start > p.limits.LineBytesMax {
		wrong = fault{KindLimit, lineTooLong(p.limits.LineBytesMax)}
	} else if wrong = b.keys.readLine(line[at:headEnd]); wrong.detail == "" {
		// The head is checked here, although every new head is checked again
		// when its key is built: its errors come first, and without points
		// (only strings) no key is built.
		wrong = p.generalBody(line, headEnd)
	}
	if wrong.detail != "" {
		p.count, b.SkippedStrings = first, strings
		l := Line{Text: text, Number: p.number, Form: FormLine}
		b.AddError(&l, 1, wrong.kind, wrong.detail, p.limits.ErrorsMax)
		return
	}
	if p.count > first {
		p.addLine(Span{uint32(at), uint32(headEnd)}, text, first, false)
	}
	if p.refuseText && b.SkippedStrings > strings {
		l := Line{Text: text, Number: p.number, Form: FormLine}
		b.AddError(&l, b.SkippedStrings-strings, KindUnsupported, textRefused(p.firstText, b.SkippedStrings-strings), p.limits.ErrorsMax)
		b.SkippedStrings = strings
	}
}

// textRefused words the error of a line that has so many fields of text.
func textRefused(name []byte, fields int) string {
	const remedy = "values are numbers: leave text out, or send it as a tag"
	first := strconv.Quote(string(name[:min(len(name), excerptBytesMaxPut)]))
	if fields == 1 {
		return "the field " + first + " is text, and " + remedy
	}
	return "the fields " + first + " and " + strconv.Itoa(fields-1) + " more are text, and " + remedy
}

func skipBlanks(line []byte, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t' || line[i] == 0) {
		i++
	}
	return i
}

// headEnd finds the first space without a backslash before it.
func (p *lineParser) headEnd(line []byte, at int) int {
	for i := at; i < len(line); i++ {
		if line[i] == ' ' && line[i-1] != '\\' {
			return i
		}
	}
	return len(line)
}

// generalBody parses the fields and the time.
func (p *lineParser) generalBody(line []byte, headEnd int) fault {
	if headEnd == len(line) {
		return syntaxFault("missing fields")
	}
	first := p.count
	i, wrong := p.generalFields(line, skipBlanks(line, headEnd))
	if wrong.detail != "" {
		return wrong
	}
	timeMs, wrong := p.generalTime(line, skipBlanks(line, i))
	if wrong.detail != "" {
		return wrong
	}
	for j := first; j < p.count; j++ {
		p.points[j].TimeMs = timeMs
	}
	return fault{}
}

// generalFields parses name=value pairs up to the space behind them.
func (p *lineParser) generalFields(line []byte, i int) (int, fault) {
	for {
		nameStart, escaped := i, false
		for i < len(line) && line[i] != '=' {
			switch line[i] {
			case '\\':
				escaped = true
				i++
			case ' ', ',':
				return i, syntaxFault("invalid field format")
			}
			i++
		}
		if i >= len(line) {
			return i, syntaxFault("invalid field format")
		}
		nameEnd := i
		if nameEnd == nameStart {
			return i, syntaxFault("missing field key")
		}
		i++
		if i >= len(line) || line[i] == ',' || line[i] == ' ' {
			return i, syntaxFault("missing field value")
		}
		if nameEnd-nameStart > min(p.limits.KeyBytesMax, math.MaxUint16) {
			return i, keyTooLong(nameEnd-nameStart, p.limits.KeyBytesMax)
		}
		end, number, isString, wrong := generalValue(line, i)
		if wrong.detail != "" {
			return end, wrong
		}
		if isString {
			if p.firstText == nil {
				p.firstText = line[nameStart:nameEnd]
			}
			p.b.SkippedStrings++
		} else {
			p.addPoint(nameStart, nameEnd, escaped, number)
		}
		if end >= len(line) || line[end] == ' ' {
			return end, fault{}
		}
		i = end + 1
	}
}

func (p *lineParser) addPoint(nameStart, nameEnd int, escaped bool, n series.Number) {
	if p.count == len(p.points) {
		p.growPoints()
	}
	p.points[p.count] = Point{
		Mantissa:     n.Mantissa,
		Scale:        n.Scale,
		Field:        uint32(nameStart),
		FieldLen:     uint16(nameEnd - nameStart),
		FieldEscaped: escaped,
	}
	p.count++
}

// generalValue reads a field's value up to the comma or space behind it.
func generalValue(line []byte, i int) (end int, n series.Number, isString bool, wrong fault) {
	c := line[i]
	if c == '"' {
		end, wrong = skipString(line, i)
		return end, n, true, wrong
	}
	end = i
	for end < len(line) && line[end] != ',' && line[end] != ' ' {
		end++
	}
	if c >= '0' && c <= '9' || c == '.' || c == '-' || c == 'N' || c == 'n' {
		n, wrong = lineNumber(line[i:end])
		return end, n, false, wrong
	}
	switch string(line[i:end]) {
	case "t", "T", "true", "TRUE", "True":
		return end, series.Number{Mantissa: 1}, false, fault{}
	case "f", "F", "false", "FALSE", "False":
		return end, series.Number{}, false, fault{}
	}
	return end, n, false, valueFault("invalid boolean")
}

// skipString finds the end of the string value at line[i:].
func skipString(line []byte, i int) (end int, wrong fault) {
	quoted := false
	for ; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',' || c == ' ':
			return i, fault{}
		case c == '=':
			return i, syntaxFault("invalid field format")
		}
	}
	if quoted {
		return len(line), syntaxFault("unbalanced quotes")
	}
	return len(line), fault{}
}

// lineNumber reads a float, an integer (suffix i) or an unsigned one (suffix u).
func lineNumber(text []byte) (series.Number, fault) {
	digits := text[:len(text)-1]
	switch text[len(text)-1] {
	case 'i':
		v, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil {
			return series.Number{}, integerFault("integer", digits, err)
		}
		return integerNumber(v), fault{}
	case 'u':
		v, err := strconv.ParseUint(string(digits), 10, 64)
		if err != nil {
			return series.Number{}, integerFault("unsigned", digits, err)
		}
		return unsignedNumber(v), fault{}
	}
	n, err := numberOf(text)
	switch {
	case err == nil:
		return n, fault{}
	case errors.Is(err, errNumberRange):
		return n, valueFault("invalid float")
	}
	if bytes.ContainsAny(text, "eE") && len(bytes.Trim(text, "0123456789.-+eE")) == 0 {
		return n, valueFault("invalid float")
	}
	return n, valueFault("invalid number")
}

// integerFault words the error as InfluxDB does: only what has the form of an
// integer is out of range.
func integerFault(what string, digits []byte, err error) fault {
	if errors.Is(err, strconv.ErrRange) {
		return valueFault("unable to parse " + what + " " + string(digits) + ": " + err.Error())
	}
	return valueFault("invalid number")
}

// generalTime reads the timestamp, which may be missing.
func (p *lineParser) generalTime(line []byte, i int) (timeMs int64, wrong fault) {
	start := i
	if i < len(line) && line[i] == '-' {
		i++
	}
	i = skipDigits(line, i)
	if i < len(line) && line[i] != ' ' {
		return 0, valueFault("bad timestamp")
	}
	if i == start {
		return p.noTimeMs, fault{}
	}
	t, err := strconv.ParseInt(string(line[start:i]), 10, 64)
	if err != nil {
		return 0, valueFault(err.Error())
	}
	for ; i < len(line); i++ {
		if line[i] != ' ' {
			return 0, syntaxFault("point is invalid")
		}
	}
	timeMs, ok := p.precision.timeMs(t)
	if !ok {
		return 0, valueFault(errTimeRange())
	}
	return timeMs, fault{}
}
