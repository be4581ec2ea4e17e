package parse

import (
	"bytes"
	"slices"
	"strconv"
	"unsafe"

	"github.com/tickmesh/tickmesh/api/series"
)

// IdentityError describes why a line's identity text names no series.
type IdentityError struct {
	Kind   Kind
	Detail string // in the protocol's own words
}

// Error returns the detail.
func (e *IdentityError) Error() string { return e.Detail }

// KeyBuilder makes the canonical keys of a line's points: it unescapes, checks
// and sorts the tags once for a line, and adds the field's name for each point.
// The zero value is ready; it keeps its memory from line to line.
type KeyBuilder struct {
	metric []byte
	tags   []series.Tag
	text   []byte   // unescaped copies; metric and tags may point into it
	parts  [][]byte // of a Graphite path

	key    []byte // prefix, then what the last Key added
	prefix int    // bytes of key in front of the field's tag
	suffix []byte // the encoded tags behind the field's tag

	keyBytesMax int
}

// Start reads the identity of a line. It returns an *IdentityError when that is
// not legal in its protocol or beyond the limits.
func (k *KeyBuilder) Start(b *Batch, l *Line, database []byte, limits Limits) error {
	limits = limits.WithDefaults()
	k.keyBytesMax = min(limits.KeyBytesMax, series.KeyBytesMax)
	var wrong fault
	switch l.Form {
	case FormLine:
		wrong = k.readLine(b.Head(l))
	case FormPut:
		wrong = k.readPut(b.Head(l), b.Tags(l))
	case FormJSON:
		wrong = k.readJSON(b.Head(l), b.Tags(l))
	case FormLabels, FormText:
		wrong = k.readLabels(b.Head(l))
	case FormGraphite:
		wrong = k.readGraphite(b.names, b.Head(l))
	}
	if wrong.detail == "" {
		k.give(&b.Extra)
	}
	if wrong.detail == "" && len(k.tags) > min(limits.TagsMax, series.TagsMax-1) {
		wrong = fault{KindLimit, "Too many tags: " + strconv.Itoa(len(k.tags)) + " maximum allowed: " + strconv.Itoa(limits.TagsMax)}
	}
	if wrong.detail != "" {
		return &IdentityError{wrong.kind, wrong.detail}
	}
	k.encode(database)
	return nil
}

// encode writes the key's parts before and behind the place of the field's tag.
func (k *KeyBuilder) encode(database []byte) {
	k.key = series.AppendPart(series.AppendPart(k.key[:0], database), k.metric)
	k.suffix = k.suffix[:0]
	i := 0
	for ; i < len(k.tags) && string(k.tags[i].Name) < series.FieldTagName; i++ {
		k.key = series.AppendPart(series.AppendPart(k.key, k.tags[i].Name), k.tags[i].Value)
	}
	for ; i < len(k.tags); i++ {
		k.suffix = series.AppendPart(series.AppendPart(k.suffix, k.tags[i].Name), k.tags[i].Value)
	}
	k.prefix = len(k.key)
}

// Key returns the key of the line's series for a field. Field is the raw name and
// may be empty, for protocols without fields; the field "value" and no field are
// the same series. The key is valid until the next call.
func (k *KeyBuilder) Key(field []byte, escaped bool) (series.Key, error) {
	k.key = k.key[:k.prefix]
	if escaped {
		k.text = appendUnescaped(k.text[:0], field, `," =`)
		field = k.text
	}
	if len(field) > 0 && string(field) != "value" {
		k.key = series.AppendPart(k.key, fieldTagName)
		k.key = series.AppendPart(k.key, field)
	}
	k.key = append(k.key, k.suffix...)
	if len(k.key) > k.keyBytesMax {
		wrong := keyTooLong(len(k.key), k.keyBytesMax)
		return nil, &IdentityError{wrong.kind, wrong.detail}
	}
	return k.key, nil
}

//nolint:gochecknoglobals // a constant
var fieldTagName = []byte(series.FieldTagName)

func keyTooLong(bytes, bytesMax int) fault {
	return fault{KindLimit, "max key length exceeded: " + strconv.Itoa(bytes) + " > " + strconv.Itoa(bytesMax)}
}

func lineTooLong(bytesMax int) string {
	return "line is longer than " + strconv.Itoa(bytesMax) + " bytes"
}

func (k *KeyBuilder) memoryBytes() int {
	return int(unsafe.Sizeof(series.Tag{}))*cap(k.tags) + int(unsafe.Sizeof(k.text))*cap(k.parts) + cap(k.text) + cap(k.key) + cap(k.suffix)
}

func (k *KeyBuilder) reset() {
	k.tags, k.text = k.tags[:0], k.text[:0]
}

// sortTags puts the tags in order, equal names in the order of the text.
func (k *KeyBuilder) sortTags() {
	if !slices.IsSortedFunc(k.tags, compareNames) {
		slices.SortStableFunc(k.tags, compareNames)
	}
}

func compareNames(a, b series.Tag) int { return bytes.Compare(a.Name, b.Name) }

// repeatedName returns the index of the first sorted tag that has the name of the
// one before it, or 0.
func (k *KeyBuilder) repeatedName() int {
	for i := 1; i < len(k.tags); i++ {
		if bytes.Equal(k.tags[i-1].Name, k.tags[i].Name) {
			return i
		}
	}
	return 0
}

// dropRepeated keeps the last of equal names of the sorted tags.
func (k *KeyBuilder) dropRepeated() {
	kept := 0
	for i := range k.tags {
		if i+1 < len(k.tags) && bytes.Equal(k.tags[i].Name, k.tags[i+1].Name) {
			continue
		}
		k.tags[kept] = k.tags[i]
		kept++
	}
	k.tags = k.tags[:kept]
}

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
