package influxql

import (
	"errors"
	"strings"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/guard"
)

// measure checks a query before it is parsed. A slash begins an expression where an operand is
// due, and divides elsewhere, so the text is read here as the parser would, up to the first
// mistake, where the parser stops. Bound are the values of parameters, of which each use of an
// expression is compiled. Errors: guard.ErrTooLarge, errNoText.
func measure(text string, bound map[string]any) error {
	m, err := guard.NewMeter(len(text))
	if err != nil {
		return err
	}
	if strings.IndexByte(text, 0) >= 0 { // the parser takes it for the end, of comments too
		return errNoText
	}
	text = strings.ReplaceAll(text, "\r", "\n") // as the parser does
	s := &measuring{text: text, bound: bound, meter: m, operand: true}
	for s.at < len(s.text) {
		if err := s.next(); err != nil {
			return err
		}
	}
	return nil
}

var errNoText = errors.New("a query has no zero bytes")

// measuring is the state of reading a text.
type measuring struct {
	text    string
	at      int
	bound   map[string]any
	meter   *guard.Meter
	operand bool // an operand is due
	cast    bool // a type is due, behind ::
}

// next reads a token.
func (s *measuring) next() error {
	c, rest := s.text[s.at], s.text[s.at:]
	switch {
	case c == ' ' || c == '\t' || c == '\n':
		s.at++
		return nil
	case strings.HasPrefix(rest, "--"):
		s.skipBehind("\n")
		return nil
	case strings.HasPrefix(rest, "/*"): // no expression can begin so
		s.at += len("/*")
		s.skipBehind("*/")
		return nil
	case c == '/' && s.operand:
		return s.expression()
	case c == '"' || c == '\'':
		s.quoted(c)
		return s.operandRead()
	case c >= '0' && c <= '9', c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		s.number()
		return s.operandRead()
	case c == '$':
		return s.parameter()
	case isWordByte(c):
		return s.word()
	}
	return s.symbol(c)
}

// skipBehind goes on behind the next end of a comment.
func (s *measuring) skipBehind(end string) {
	if i := strings.Index(s.text[s.at:], end); i >= 0 {
		s.at += i + len(end)
		return
	}
	s.stop()
}

// stop ends reading where the parser reports a mistake.
func (s *measuring) stop() { s.at = len(s.text) }

func (s *measuring) operandRead() error {
	s.operand, s.cast = false, false
	return s.meter.Token()
}

// expression reads /…/, in which \/ stands for a slash.
func (s *measuring) expression() error {
	var expression strings.Builder
	for i := s.at + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '/':
			s.at = i + 1
			if err := s.meter.Regexp(expression.String()); err != nil {
				return err
			}
			return s.operandRead()
		case c == '\n':
			s.stop()
			return nil
		case c == '\\' && i+1 < len(s.text) && s.text[i+1] == '/':
			i++
			expression.WriteByte('/')
		default:
			expression.WriteByte(c)
		}
	}
	s.stop()
	return nil
}

// quoted reads up to the quote that ends a text or a name.
func (s *measuring) quoted(quote byte) {
	for i := s.at + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case quote:
			s.at = i + 1
			return
		case '\n':
			s.stop()
			return
		case '\\':
			i++
		}
	}
	s.stop()
}

// number reads a number, or a duration with all letters and digits behind it.
func (s *measuring) number() {
	start := s.at
	for s.at < len(s.text) && (s.text[s.at] >= '0' && s.text[s.at] <= '9' || s.text[s.at] == '.') {
		s.at++
	}
	if strings.Contains(s.text[start:s.at], ".") {
		return
	}
	for s.at < len(s.text) {
		switch {
		case strings.HasPrefix(s.text[s.at:], "µ"):
			s.at += len("µ")
		case isWordByte(s.text[s.at]) && s.text[s.at] != '_':
			s.at++
		default:
			return
		}
	}
}

// parameter reads $name or $"name".
func (s *measuring) parameter() error {
	s.at++
	start := s.at
	for s.at < len(s.text) && isWordByte(s.text[s.at]) {
		s.at++
	}
	name := s.text[start:s.at]
	if s.at < len(s.text) && s.text[s.at] == '"' {
		start = s.at
		s.quoted('"')
		name = strings.NewReplacer(`\n`, "\n", `\\`, `\`, `\"`, `"`, `\'`, `'`).Replace(strings.Trim(s.text[start:s.at], `"`))
	}
	if value, ok := s.bound[name].(map[string]any); ok {
		for _, of := range value { // whatever it is called: it is compiled if it is a regex
			if expression, ok := of.(string); ok {
				if err := s.meter.Regexp(expression); err != nil {
					return err
				}
			}
		}
	}
	return s.operandRead()
}

// word reads a name or a word of the language.
func (s *measuring) word() error {
	start := s.at
	for s.at < len(s.text) && isWordByte(s.text[s.at]) {
		s.at++
	}
	switch token := ql.Lookup(s.text[start:s.at]); {
	case s.cast, token == ql.IDENT, token == ql.TRUE, token == ql.FALSE:
		return s.operandRead()
	case token == ql.AND, token == ql.OR:
		s.operand = true
		return s.meter.Operator()
	}
	s.operand = true
	return s.meter.Token()
}

// symbol reads operators and brackets.
func (s *measuring) symbol(c byte) error {
	s.at++
	s.cast = false
	switch c {
	case '(':
		s.operand = true
		return s.meter.Open()
	case ')':
		s.operand = false
		return s.meter.Close()
	case ':':
		s.cast = s.at < len(s.text) && s.text[s.at] == ':'
		if s.cast {
			s.at++
		}
		return s.meter.Token()
	case '*':
		if s.operand { // all fields
			return s.operandRead()
		}
	case '=', '!', '<', '>':
		if s.at < len(s.text) && strings.IndexByte("=~>", s.text[s.at]) >= 0 {
			s.at++
		}
	case ',', ';', '.':
		s.operand = true
		return s.meter.Token()
	}
	s.operand = true
	return s.meter.Operator()
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
