package ingest

import (
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendJSONString appends text as a JSON string. Bytes that are not UTF-8 become
// U+FFFD.
func appendJSONString[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			dst = utf8.AppendRune(dst, r) // RuneError is U+FFFD
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}

// appendJSONMember appends `"name":"text"`.
func appendJSONMember(dst []byte, name, text string) []byte {
	dst = append(append(append(dst, '"'), name...), `":`...)
	return appendJSONString(dst, text)
}

// appendJSONCount appends `"name":n`.
func appendJSONCount(dst []byte, name string, n int) []byte {
	dst = append(append(append(dst, '"'), name...), `":`...)
	return strconv.AppendInt(dst, int64(n), 10)
}
