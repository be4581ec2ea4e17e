package parse

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/api/series"
)

// Exposition parses Prometheus' text format, as VictoriaMetrics takes it at /api/v1/import/prometheus:
//
//	metric{label="value",…} value [time]
//	{"metric","label"="value",…} value [time]
//
// A line with # in front is skipped. What follows a # behind the value is an exemplar of OpenMetrics, and skipped if it cannot be read as one. Times are
// milliseconds; between -2³¹ and 2³¹ they are seconds, perhaps with a fraction, as OpenMetrics has them. A sample
// without one is of o.NowMs. Metrics and labels may have any name; a time that is wrong, a value that is no number and
// a quote that stays open are errors of their line alone. Each sample is a Line of FormText.
//
// It is written by hand because Prometheus' own parser (model/textparse) ends at the first error and needs the whole of
// a body at once; that one is what the tests compare with.
//
// Of the options Precision is not used. Its errors are ErrTooLarge and those of b.Memory; errors of lines are in
// b.Errors.
func Exposition(b *Batch, body []byte, o LineOptions) (Rest, error) {
	p := expositionParser{nowMs: o.NowMs}
	return textLines(b, body, o, &p.textParser, p.line)
}

// textParser holds what parsers of lines of FormText share.
type textParser struct {
	b      *Batch
	limits Limits
	run    labelRun
	text   []byte // of the current line: names and values without escapes
}

// textLines parses a body line by line. An error of the function given ends it; a fault refuses the line.
func textLines(b *Batch, body []byte, o LineOptions, p *textParser, parse func(l *Line, content []byte) (fault, error)) (Rest, error) {
	if err := b.reset(body); err != nil {
		return Rest{}, err
	}
	limits := o.Limits.WithDefaults()
	*p = textParser{b: b, limits: limits, run: labelRun{b: b, keyBytesMax: limits.KeyBytesMax}}
	stream := stream{body: body, inside: o.InsideLine, lineBytesMax: limits.LineBytesMax, number: o.LinesBefore}
	at, err := stream.lines(o.Partial, func(line Span) error {
		return p.line(&Line{Text: line, Shape: uint32(len(b.Lines)), Number: stream.number, Form: FormText}, parse)
	})
	if err != nil {
		b.Reset()
		return Rest{}, err
	}
	return stream.rest(b, FormText, at, limits.ErrorsMax), nil
}

// line parses a line, whose points and lines are taken back when it is refused.
func (p *textParser) line(l *Line, parse func(l *Line, content []byte) (fault, error)) error {
	b := p.b
	content := b.Body[l.Text.Start:l.Text.End]
	lines, points, scratch := len(b.Lines), len(b.Points), len(b.Scratch)
	wrong := fault{KindLimit, lineTooLong(p.limits.LineBytesMax)}
	if len(content) <= p.limits.LineBytesMax {
		p.text = p.text[:0]
		var err error
		if wrong, err = parse(l, bytes.TrimSuffix(content, carriageReturn)); err != nil {
			return err
		}
	}
	if wrong.detail != "" {
		lost := max(1, len(b.Points)-points)
		b.Lines, b.Points, b.Scratch = b.Lines[:lines], b.Points[:points], b.Scratch[:scratch]
		b.AddError(l, lost, wrong.kind, wrong.detail, p.limits.ErrorsMax)
	}
	return nil
}

// add adds a sample of the series that the run holds.
func (p *textParser) add(l *Line, timeMs int64, n series.Number) error {
	b := p.b
	if err := b.room(); err != nil {
		return err
	}
	l.First, l.Count, l.Shape = uint32(len(b.Points)), 1, uint32(len(b.Lines))
	if err := p.run.end(l); err != nil {
		return err
	}
	b.Lines = append(b.Lines, *l)
	b.Points = append(b.Points, Point{TimeMs: timeMs, Mantissa: n.Mantissa, Scale: n.Scale})
	return nil
}

// expositionParser parses lines of Prometheus' text format.
type expositionParser struct {
	textParser
	nowMs int64
}

func (p *expositionParser) line(l *Line, s []byte) (fault, error) {
	at := skipWhite(s, 0)
	if at == len(s) || s[at] == '#' {
		return fault{}, nil
	}
	p.run.begin()
	start := at
	for at < len(s) && s[at] != ' ' && s[at] != '\t' && s[at] != '{' {
		at++
	}
	metric := s[start:at]
	if at = skipWhite(s, at); at < len(s) && s[at] == '{' {
		var wrong fault
		var err error
		if metric, at, wrong, err = p.labels(metric, s, at+1); wrong.detail != "" || err != nil {
			return wrong, err
		}
	}
	if len(metric) == 0 {
		return syntaxFault("the metric has no name"), nil
	}
	if wrong, err := p.run.add(metricLabelName, metric); wrong.detail != "" || err != nil {
		return wrong, err
	}
	sample, exemplar, hasExemplar := bytes.Cut(s[at:], []byte{'#'})
	timeMs, n, wrong := p.sample(sample)
	if wrong.detail != "" {
		return wrong, nil
	}
	if err := p.add(l, timeMs, n); err != nil || !hasExemplar {
		return fault{}, err
	}
	if !p.b.KeepExemplars {
		p.b.SkippedExemplars++
		return fault{}, nil
	}
	p.exemplar(l, exemplar, timeMs)
	return fault{}, nil
}

// labels reads labels up to their closing brace, and the metric where it is among them.
func (p *expositionParser) labels(metric, s []byte, at int) (_ []byte, next int, wrong fault, err error) {
	for {
		if at = skipWhite(s, at); at < len(s) && s[at] == '}' {
			return metric, at + 1, fault{}, nil
		}
		name, behind, quoted := p.labelName(s, at)
		if behind == at {
			return nil, at, syntaxFault("a label's name or } is missing in column " + strconv.Itoa(at+1)), nil
		}
		at = skipWhite(s, behind)
		if quoted && at < len(s) && (s[at] == ',' || s[at] == '}') {
			if len(metric) > 0 {
				return nil, at, syntaxFault("there are two names of the metric"), nil
			}
			metric = name
		} else {
			var value []byte
			if value, at, wrong = p.labelValue(s, at, name); wrong.detail == "" {
				wrong, err = p.run.add(name, value)
			}
			if wrong.detail != "" || err != nil {
				return nil, at, wrong, err
			}
			at = skipWhite(s, at)
		}
		if at < len(s) && s[at] == ',' {
			at++
		}
	}
}

// labelName reads a name, in quotes or not; behind is at where there is none.
func (p *expositionParser) labelName(s []byte, at int) (name []byte, behind int, quoted bool) {
	if at < len(s) && s[at] == '"' {
		name, behind = p.quoted(s, at)
		return name, behind, true
	}
	for behind = at; behind < len(s) && bytes.IndexByte([]byte("=,{}\" \t"), s[behind]) < 0; behind++ {
	}
	return s[at:behind], behind, false
}

// labelValue reads = and a value in quotes.
func (p *expositionParser) labelValue(s []byte, at int, name []byte) (value []byte, behind int, wrong fault) {
	if at == len(s) || s[at] != '=' {
		return nil, at, syntaxFault("= is missing behind the label " + excerptOf(name))
	}
	at = skipWhite(s, at+1)
	if value, behind = p.quoted(s, at); behind == at {
		return nil, at, syntaxFault("the value of the label " + excerptOf(name) + " must be in double quotes")
	}
	return value, behind, fault{}
}

// quoted reads a text in double quotes, with \\, \" and \n for a backslash, a quote and a newline; behind is at where
// there is none, or its end is missing.
func (p *expositionParser) quoted(s []byte, at int) (text []byte, behind int) {
	if at == len(s) || s[at] != '"' {
		return nil, at
	}
	escaped := false
	end := at + 1
	for ; end < len(s) && s[end] != '"'; end++ {
		if s[end] == '\\' {
			escaped = true
			end++
		}
	}
	if end >= len(s) {
		return nil, at
	}
	raw := s[at+1 : end]
	if !escaped {
		return raw, end + 1
	}
	start := len(p.text)
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '\\' && i+1 < len(raw) {
			switch raw[i+1] {
			case '\\', '"':
				i++
				c = raw[i]
			case 'n':
				i++
				c = '\n'
			}
		}
		p.text = append(p.text, c)
	}
	return p.text[start:len(p.text):len(p.text)], end + 1
}

// sample reads a value and perhaps a time.
func (p *expositionParser) sample(s []byte) (timeMs int64, n series.Number, wrong fault) {
	end := uint32(len(s))
	value := blankedWord(s, Span{0, end})
	stamp := blankedWord(s, Span{value.End, end})
	more := blankedWord(s, Span{stamp.End, end})
	switch {
	case value.Len() == 0:
		return 0, n, syntaxFault("the value is missing")
	case more.Len() > 0:
		return 0, n, syntaxFault("something follows the time: " + excerptOf(s[more.Start:]))
	}
	if n, wrong = numberOrWord(s[value.Start:value.End]); wrong.detail != "" || stamp.Len() == 0 {
		return p.nowMs, n, wrong
	}
	timeMs, wrong = expositionTime(s[stamp.Start:stamp.End])
	return timeMs, n, wrong
}

// expositionTime reads milliseconds, or seconds where they would be too few milliseconds.
func expositionTime(word []byte) (int64, fault) {
	const secondsEnd = 1 << 31
	var ms float64
	if whole, err := strconv.ParseInt(string(word), 10, 64); err == nil {
		if whole >= -secondsEnd && whole < secondsEnd {
			whole *= 1000
		}
		if Reachable(whole) {
			return whole, fault{}
		}
		ms = math.Inf(1)
	} else {
		if !decimalSyntax(word) {
			return 0, valueFault("the time " + excerptOf(word) + " is no number of milliseconds")
		}
		ms, _ = strconv.ParseFloat(string(word), 64) // beyond its range it is infinite
		if ms >= -secondsEnd && ms < secondsEnd {
			ms = math.Round(ms*1e6) / 1e3 // a float64 has seconds of today to a fraction of a microsecond
		}
	}
	whole := math.Floor(ms)
	if !(math.Abs(whole) < 1<<62) || !Reachable(int64(whole)) { // as a float64 the latest time is one that is not reachable
		return 0, valueFault("the time " + excerptOf(word) + " is out of range")
	}
	return int64(whole), fault{}
}

// numberOrWord reads a number, or an infinity or NaN in words.
func numberOrWord(word []byte) (series.Number, fault) {
	n, err := numberOf(word)
	if err == nil {
		return n, fault{}
	}
	if len(word) <= len("+infinity") {
		switch strings.ToLower(string(word)) {
		case "inf", "+inf", "infinity", "+infinity":
			return series.FloatNumber(math.Inf(1)), fault{}
		case "-inf", "-infinity":
			return series.FloatNumber(math.Inf(-1)), fault{}
		case "nan":
			return series.FloatNumber(math.NaN()), fault{}
		}
	}
	return n, valueFault("the value " + excerptOf(word) + " is no number: " + err.Error())
}

// excerptOf returns the beginning of a text, in quotes.
func excerptOf(text []byte) string {
	return strconv.Quote(string(appendExcerpt(nil, text, excerptBytesMaxPut)))
}

func skipWhite(s []byte, at int) int {
	for at < len(s) && (s[at] == ' ' || s[at] == '\t') {
		at++
	}
	return at
}

//nolint:gochecknoglobals // constants
var (
	carriageReturn  = []byte{'\r'}
	metricLabelName = []byte(metricLabel)
)
