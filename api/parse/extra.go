package parse

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/series"
)

// ExtraLabels are labels that a request adds to all of its series, in place of their own labels of the same name, as
// VictoriaMetrics' query arg extra_label does. The zero value holds none.
type ExtraLabels struct {
	tags   []series.Tag // sorted, without equal names; one without a value takes the series' own away
	metric []byte       // of __name__; nil: none
	text   []byte       // all of them, the same for equal ones
}

// errExtraLabel describes the form of a label.
var errExtraLabel = errors.New("extra_label is not of the form name=value")

// NewExtraLabels reads labels of the form name=value. Of equal names the last one counts; a label without a value is
// left out.
func NewExtraLabels(texts []string) (ExtraLabels, error) {
	var e ExtraLabels
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok || name == "":
			return ExtraLabels{}, fmt.Errorf("%w: %q", errExtraLabel, text)
		case !utf8.ValidString(text):
			return ExtraLabels{}, fmt.Errorf("extra_label %q is not UTF-8", text)
		case name == series.FieldTagName:
			return ExtraLabels{}, fmt.Errorf("extra_label %s: the name is reserved for fields of line protocol", name)
		case value == "":
		case name == metricLabel:
			e.metric = []byte(value)
		default:
			tag := series.Tag{Name: []byte(name), Value: []byte(value)}
			at, found := slices.BinarySearchFunc(e.tags, tag, compareNames)
			if found {
				e.tags[at] = tag
			} else {
				e.tags = slices.Insert(e.tags, at, tag)
			}
		}
	}
	if e.metric == nil && e.tags == nil {
		return e, nil
	}
	e.text = series.AppendKey(nil, nil, e.metric, e.tags)
	return e, nil
}

// Without returns the labels, and that series lose their own label of a name, unless it is among these.
func (e ExtraLabels) Without(name string) ExtraLabels {
	tag := series.Tag{Name: []byte(name)}
	at, found := slices.BinarySearchFunc(e.tags, tag, compareNames)
	if found {
		return e
	}
	tags := slices.Insert(slices.Clone(e.tags), at, tag)
	return ExtraLabels{tags: tags, metric: e.metric, text: series.AppendKey(nil, nil, e.metric, tags)}
}

// Text returns a text that is the same for equal labels; it is empty for none.
func (e *ExtraLabels) Text() []byte { return e.text }

// give adds extra labels to the series that was read, whose tags are sorted.
func (k *KeyBuilder) give(e *ExtraLabels) {
	if len(e.text) == 0 {
		return
	}
	if e.metric != nil {
		k.metric = e.metric
	}
	k.tags = slices.DeleteFunc(k.tags, func(own series.Tag) bool {
		_, replaced := slices.BinarySearchFunc(e.tags, own, compareNames)
		return replaced
	})
	for _, tag := range e.tags {
		if len(tag.Value) > 0 {
			k.tags = append(k.tags, tag)
		}
	}
	k.sortTags()
}
