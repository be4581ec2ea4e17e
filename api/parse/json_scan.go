package parse

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonDepthMax bounds values inside values. What nests deeper is malformed.
const jsonDepthMax = 64

// jsonKind is the type of a JSON value.
type jsonKind uint8

const (
	jsonNone jsonKind = iota // no value was seen
	jsonNull
	jsonBool
	jsonNumber
	jsonString
	jsonObject
	jsonArray
)

// jsonValue is a value that was checked to be well-formed: its raw text, with
// its quotes or brackets, and whether a string in it has escapes.
type jsonValue struct {
	Span
	kind    jsonKind
	escaped bool // of a string: it has backslashes
}

// jsonScanner walks JSON text (RFC 8259). It checks the grammar and returns spans;
// nothing is decoded before somebody asks. Bytes that are not UTF-8 pass: what
// they stand in is checked where it is used.
type jsonScanner struct {
	b   []byte
	at  int
	err error
}

func (s *jsonScanner) fail(what string) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: JSON: %s at byte %d", ErrMalformed, what, s.at)
	}
}

// peek returns the next byte that is no white space, 0 at the end.
func (s *jsonScanner) peek() byte {
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take moves over c, if it comes next.
func (s *jsonScanner) take(c byte) bool {
	if s.err != nil || s.peek() != c || s.at >= len(s.b) {
		return false
	}
	s.at++
	return true
}

// value reads any value.
func (s *jsonScanner) value(depth int) (v jsonValue) {
	c := s.peek()
	start := s.at
	switch {
	case s.err != nil:
		return v
	case depth > jsonDepthMax:
		s.fail("nested too deeply")
		return v
	case c == '"':
		return s.text()
	case c == '{':
		v.kind = jsonObject
		s.object(func(jsonValue) { s.value(depth + 1) })
	case c == '[':
		v.kind = jsonArray
		s.array(func() { s.value(depth + 1) })
	case c == '-' || c >= '0' && c <= '9':
		v.kind = jsonNumber
		s.number()
	default:
		v.kind = s.word()
	}
	v.Span = Span{uint32(start), uint32(s.at)}
	return v
}

// object reads an object and calls member behind each name's colon, to read the
// value there.
func (s *jsonScanner) object(member func(name jsonValue)) {
	s.at++
	if s.take('}') {
		return
	}
	for s.err == nil {
		if s.peek() != '"' {
			s.fail("a name is missing")
			return
		}
		name := s.text()
		if !s.take(':') {
			s.fail("a colon is missing")
			return
		}
		member(name)
		if s.take('}') {
			return
		}
		if !s.take(',') {
			s.fail("a comma is missing")
		}
	}
}

// array reads an array and calls element for each element, to read it.
func (s *jsonScanner) array(element func()) {
	s.at++
	if s.take(']') {
		return
	}
	for s.err == nil {
		element()
		if s.take(']') {
			return
		}
		if !s.take(',') {
			s.fail("a comma is missing")
		}
	}
}

// text reads a string.
func (s *jsonScanner) text() jsonValue {
	v := jsonValue{kind: jsonString}
	start := s.at
	i := start + 1
	for {
		for i+8 <= len(s.b) {
			x := load64(s.b, i)
			n := first(equal(x, '"') | equal(x, '\\') | below(x, ' '))
			if i += n; n < 8 {
				break
			}
		}
		if i >= len(s.b) {
			s.at = len(s.b)
			s.fail("a string has no end")
			return v
		}
		switch c := s.b[i]; {
		case c == '"':
			s.at = i + 1
			v.Span = Span{uint32(start), uint32(s.at)}
			return v
		case c == '\\':
			v.escaped = true
			n := escapeBytes(s.b[i:])
			if n == 0 {
				s.at = i
				s.fail("illegal escape")
				return v
			}
			i += n
		case c < ' ':
			s.at = i
			s.fail("control character in a string")
			return v
		default:
			i++
		}
	}
}

// escapeBytes returns the length of the escape at the start of b, 0 if illegal.
func escapeBytes(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b); ok {
			return 6
		}
	}
	return 0
}

// hex4 reads \uXXXX.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number checks a number: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
func (s *jsonScanner) number() {
	b, i := s.b, s.at
	if b[i] == '-' {
		i++
	}
	end := skipDigits(b, i)
	ok := end > i && (b[i] != '0' || end == i+1)
	i = end
	if i < len(b) && b[i] == '.' {
		end = skipDigits(b, i+1)
		ok = ok && end > i+1
		i = end
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		start := skipSign(b, i+1)
		end = skipDigits(b, start)
		ok = ok && end > start
		i = end
	}
	if !ok {
		s.fail("illegal number")
	}
	s.at = i
}

// word reads true, false or null.
func (s *jsonScanner) word() jsonKind {
	for _, w := range [...]struct {
		text string
		kind jsonKind
	}{{"true", jsonBool}, {"false", jsonBool}, {"null", jsonNull}} {
		if len(s.b)-s.at >= len(w.text) && string(s.b[s.at:s.at+len(w.text)]) == w.text {
			s.at += len(w.text)
			return w.kind
		}
	}
	s.fail("a value is missing")
	return jsonNone
}

// appendJSONText appends what a well-formed string, given with its quotes,
// stands for. A lone surrogate becomes U+FFFD, as in encoding/json.
func appendJSONText(dst, quoted []byte) []byte {
	text := quoted[1 : len(quoted)-1]
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			dst = append(dst, text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(text[i-1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low, ok := hex4(text[i+1:])
				if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
					r = pair
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default: // " \ /
			dst = append(dst, c)
		}
	}
	return dst
}
