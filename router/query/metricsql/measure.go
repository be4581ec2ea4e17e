package metricsql

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/prometheus/util/strutil"

	"github.com/tickmesh/tickmesh/api/guard"
)

// UnsupportedError tells what of MetricsQL is not there.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string { return e.What + " is not supported" }

func unsupported(format string, values ...any) error {
	return &UnsupportedError{fmt.Sprintf(format, values...)}
}

// Measure checks a text before it is parsed, and counts it in a meter. It refuses what could become much larger than its text:
// templates, and strings that are put together, whose parts may be harmless expressions. Errors: guard.ErrTooLarge, *UnsupportedError.
func Measure(text string) (*guard.Meter, error) {
	m, err := guard.NewMeter(len(text))
	if err != nil {
		return nil, err
	}
	s := scanner{meter: m, rest: text}
	for err == nil && s.skipSpace() {
		err = s.token()
	}
	return m, err
}

// scanner reads tokens as far as they matter here.
type scanner struct {
	meter  *guard.Meter
	rest   string
	before string // the last token; of strings only their quote
}

// skipSpace passes over white space and comments, and reports whether there is more.
func (s *scanner) skipSpace() bool {
	for {
		s.rest = strings.TrimLeft(s.rest, " \t\n\v\f\r")
		if !strings.HasPrefix(s.rest, "#") {
			return s.rest != ""
		}
		_, s.rest, _ = strings.Cut(s.rest, "\n")
	}
}

func (s *scanner) token() error {
	first, size := utf8.DecodeRuneInString(s.rest)
	switch {
	case first == '"' || first == '\'' || first == '`':
		return s.text(s.rest[:1])
	case first == '(' || first == '{' || first == '[':
		if word := strings.ToLower(s.before); first == '(' && (word == "with" || word == "ru" || word == "ttf") {
			return unsupported("MetricsQL's template %s", word)
		}
		s.take(size)
		if first == '[' {
			if err := s.meter.Operator(); err != nil {
				return err
			}
		}
		return s.meter.Open()
	case first == ')' || first == '}' || first == ']':
		s.take(size)
		return s.meter.Close()
	case isWord(first):
		end := strings.IndexFunc(s.rest, func(r rune) bool { return !isWord(r) })
		if end < 0 {
			end = len(s.rest)
		}
		return s.word(end)
	case first == '\\':
		return unsupported(`MetricsQL's \ in names (write {"name"})`)
	case first == '+' && isQuote(s.before):
		return unsupported("putting strings together")
	case first == ',' || first == '@' || first == '$':
		s.take(size)
		return s.meter.Token()
	}
	if len(s.rest) > 1 && strings.Contains("=~ !~ == != >= <=", s.rest[:2]) {
		size = 2
	}
	s.take(size)
	if s.before == "=" || s.before == "=~" || s.before == "!~" { // of filters, which hold nothing but a string
		return s.meter.Token()
	}
	return s.meter.Operator()
}

// word takes a name, number, duration or operator that is written in letters.
func (s *scanner) word(length int) error {
	s.take(length)
	switch strings.ToLower(s.before) {
	case "and", "or", "unless", "if", "ifnot", "default", "atan2", "offset":
		return s.meter.Operator()
	}
	return s.meter.Token()
}

// text takes a string.
func (s *scanner) text(quote string) error {
	end := 1
	for ; end < len(s.rest) && s.rest[end] != quote[0]; end++ {
		if s.rest[end] == '\\' {
			if end++; quote == "`" {
				return unsupported("a backslash between backquotes")
			}
		}
	}
	if end >= len(s.rest) { // the parser says so
		s.take(len(s.rest))
		return nil
	}
	quoted, operator := s.rest[:end+1], s.before
	s.take(end + 1)
	s.before = quote
	if operator == "+" {
		return unsupported("putting strings together")
	}
	if operator == "=~" || operator == "!~" {
		for _, expression := range []string{quoted[1:end], unquoted(quoted)} {
			if err := s.meter.Regexp(expression); err != nil {
				return err
			}
		}
	}
	return s.meter.Token()
}

// unquoted returns what a string means; empty: that is not known.
func unquoted(quoted string) string {
	text, err := strutil.Unquote(quoted)
	if err != nil {
		return ""
	}
	return text
}

func (s *scanner) take(size int) { s.before, s.rest = s.rest[:size], s.rest[size:] }

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == ':' || r == '.'
}

func isQuote(token string) bool { return token == `"` || token == "'" || token == "`" }
