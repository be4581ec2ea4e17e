package parse

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/series"
)

// readPut reads the identity of a put line.
func (k *KeyBuilder) readPut(metric, tags []byte) fault {
	k.reset()
	k.metric = metric
	if legalBytes(metric, 0) == len(metric) && k.readPlainTags(tags) {
		return fault{}
	}
	k.reset()
	for word := nextWord(tags, 0); word.Len() > 0; word = nextWord(tags, word.End) {
		tag := tags[word.Start:word.End]
		name, value, found := bytes.Cut(tag, []byte{'='})
		if !found || len(name) == 0 || len(value) == 0 || bytes.IndexByte(value, '=') >= 0 {
			return syntaxFault("invalid tag: " + string(tag))
		}
		k.tags = append(k.tags, series.Tag{Name: name, Value: value})
	}
	k.sortTags()
	for i := 1; i < len(k.tags); i++ {
		if a, b := k.tags[i-1], k.tags[i]; bytes.Equal(a.Name, b.Name) && !bytes.Equal(a.Value, b.Value) {
			return syntaxFault("duplicate tag: " + string(b.Name) + "=" + string(b.Value) +
				", tags={" + string(a.Name) + "=" + string(a.Value) + "}")
		}
	}
	k.dropRepeated()
	return k.checkCharacters()
}

// readPlainTags reads tags of the common form: single spaces, ASCII, names in
// growing order. It looks at every byte once. False is not an error: readPut knows
// all forms.
func (k *KeyBuilder) readPlainTags(tags []byte) bool {
	var previous []byte
	for i := 0; i < len(tags); i++ {
		start := i
		i = legalBytes(tags, i)
		if i == start || i == len(tags) || tags[i] != '=' {
			return false
		}
		name := tags[start:i]
		start = i + 1
		i = legalBytes(tags, start)
		if i == start || i < len(tags) && tags[i] != ' ' || previous != nil && bytes.Compare(previous, name) >= 0 {
			return false
		}
		k.tags = append(k.tags, series.Tag{Name: name, Value: tags[start:i]})
		previous = name
	}
	return true
}

// legalBytes returns the end of the legal ASCII characters from i on.
func legalBytes(text []byte, i int) int {
	for i < len(text) && legalASCII[text[i]] {
		i++
	}
	return i
}

// checkCharacters holds metric and tags to OpenTSDB's character set
// (Tags.validateString).
func (k *KeyBuilder) checkCharacters() fault {
	if bad, ok := illegalCharacter(k.metric); ok {
		return syntaxFault("Invalid metric name (\"" + string(k.metric) + "\"): illegal character: " + bad)
	}
	for i := range k.tags {
		name, value := k.tags[i].Name, k.tags[i].Value
		if bad, ok := illegalCharacter(name); ok {
			return syntaxFault("Invalid tag name with value [" + string(value) + "] (\"" + string(name) + "\"): illegal character: " + bad)
		}
		if bad, ok := illegalCharacter(value); ok {
			return syntaxFault("Invalid tag value with key [" + string(name) + "] (\"" + string(value) + "\"): illegal character: " + bad)
		}
	}
	return fault{}
}

// illegalCharacter returns the first character that is no letter, no digit and none of
// "-_./".
func illegalCharacter(text []byte) (character string, found bool) {
	for i := 0; i < len(text); {
		if legalASCII[text[i]] {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || !unicode.IsLetter(r) {
			return string(text[i : i+size]), true
		}
		i += size
	}
	return "", false
}

//nolint:gochecknoglobals // a constant table
var legalASCII = func() (table [256]bool) {
	for c := range 128 {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		table[c] = letter || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '/'
	}
	return table
}()
