// Package jsontext writes JSON strings, to answers that are built in a buffer.
package jsontext

import "unicode/utf8"

const digits = "0123456789abcdef"

// Append appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func Append[T ~string | ~[]byte](dst []byte, s T) []byte { return appendText(dst, s, false) }

// AppendHTML is Append of a text that may be put into HTML and scripts as it is.
func AppendHTML[T ~string | ~[]byte](dst []byte, s T) []byte { return appendText(dst, s, true) }

func appendText[T ~string | ~[]byte](dst []byte, s T, html bool) []byte {
	dst = append(dst, '"')
	from := 0 // what is before it has been appended
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
			lineEnd := html && (r == '\u2028' || r == '\u2029') // of scripts
			switch {
			case lineEnd:
				dst = append(append(append(dst, s[from:i]...), `\u202`...), digits[r&15])
			case r == utf8.RuneError && size == 1:
				dst = append(append(dst, s[from:i]...), `\ufffd`...)
			default:
				i += size
				continue
			}
			i += size
			from = i
			continue
		}
		i++
		if c >= ' ' && c != '"' && c != '\\' && c != 0x7f && (!html || c != '<' && c != '>' && c != '&') {
			continue
		}
		dst = append(dst, s[from:i-1]...)
		from = i
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}
