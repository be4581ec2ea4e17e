package parse

import (
	"strconv"

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
