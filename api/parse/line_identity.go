package parse

import (
	"bytes"

	"github.com/tickmesh/tickmesh/api/series"
)

// readLine reads the head of a line: measurement,name=value,… The rules are
// those of InfluxDB's scanMeasurement, scanTagsKey and scanTagsValue: a comma, a
// space or an = counts when no backslash is before it.
func (k *KeyBuilder) readLine(head []byte) fault {
	k.reset()
	if len(head) == 0 || head[0] == ',' {
		return syntaxFault("missing measurement")
	}
	i := indexPlain(head, 1, ',')
	k.metric = k.unescaped(head[:i], `," =`)
	for i < len(head) {
		start := i + 1
		if start == len(head) || head[start] == ',' || head[start] == '=' {
			return syntaxFault("missing tag key")
		}
		for i = start + 1; i < len(head) && (head[i] != ',' && head[i] != '=' || head[i-1] == '\\'); i++ {
		}
		if i >= len(head) || head[i] == ',' {
			return syntaxFault("missing tag value")
		}
		name := head[start:i]
		start = i + 1
		if start == len(head) || head[start] == ',' {
			return syntaxFault("missing tag value")
		}
		for i = start + 1; i < len(head) && (head[i] != ',' && head[i] != '=' || head[i-1] == '\\'); i++ {
		}
		if i < len(head) && head[i] == '=' {
			return syntaxFault("invalid tag format")
		}
		k.tags = append(k.tags, series.Tag{Name: k.unescaped(name, `, =`), Value: k.unescaped(head[start:i], `, =`)})
	}
	k.sortTags()
	if k.repeatedName() > 0 {
		return syntaxFault("duplicate tags")
	}
	for i := range k.tags {
		if string(k.tags[i].Name) == series.FieldTagName {
			return syntaxFault(`tag key "_field" is reserved`)
		}
	}
	return fault{}
}

// indexPlain returns the index of the first c from i on that has no backslash
// before it, or the length of text.
func indexPlain(text []byte, i int, c byte) int {
	for ; i < len(text); i++ {
		if text[i] == c && text[i-1] != '\\' {
			return i
		}
	}
	return len(text)
}

// unescaped returns text without the backslashes in front of the special
// characters; text itself when it has none.
func (k *KeyBuilder) unescaped(text []byte, special string) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	start := len(k.text)
	k.text = appendUnescaped(k.text, text, special)
	return k.text[start:len(k.text):len(k.text)]
}

func appendUnescaped(dst, text []byte, special string) []byte {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && bytes.IndexByte([]byte(special), text[i+1]) >= 0 {
			i++
		}
		dst = append(dst, text[i])
	}
	return dst
}
