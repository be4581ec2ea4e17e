package parse

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/series"
)

// ErrGraphiteTemplate marks a template of Graphite's paths that cannot be used.
var ErrGraphiteTemplate = errors.New("not a template")

// Bounds of templates.
const (
	GraphiteTemplatesMax = 1000
	templatePartsMax     = 64
	templateTagsMax      = 32
)

// GraphiteNames describes how Graphite's dotted paths become metrics and tags, by the templates that
// InfluxDB and Telegraf have:
//
//	[filter] template [tag=value,…]
//
// A template names what each part of a path is: measurement, field, or a tag of that name; an empty
// part is left out. The last part may be measurement* or field*, which take all that is left. Parts
// of one name are joined by the separator. A filter says which paths a template is for: its parts are those
// that a path begins with, and * is any one. Of several filters that match, the one is taken that
// says more, from the first part on. Tags of the template, and then those of all templates, are added where a path
// has none of the name. Without a template that matches, the path is the metric.
//
// Nil stands for no templates. It is not changed once it is made.
type GraphiteNames struct {
	separator string
	root      pathFilter
}

// GraphiteRules are what GraphiteNames are made of.
type GraphiteRules struct {
	Separator string // between joined parts; empty: "."
	Tags      map[string]string
	Templates []string
}

// pathFilter is a node in the tree of filters.
type pathFilter struct {
	parts    map[string]*pathFilter
	any      *pathFilter   // of the part *
	template *pathTemplate // of the filter that ends here; nil: none does
}

// pathTemplate describes what the parts of a path are.
type pathTemplate struct {
	metric, field pathParts
	tags          []taggedParts
	defaults      []series.Tag
}

// pathParts are the parts of a path that are joined for one name.
type pathParts struct {
	indexes []int
	rest    bool // the last index stands for all parts from there on
}

type taggedParts struct {
	name  []byte
	parts pathParts
}

// NewGraphiteNames reads templates. Errors: ErrGraphiteTemplate, all of them together.
func NewGraphiteNames(r GraphiteRules) (*GraphiteNames, error) {
	n := &GraphiteNames{separator: r.Separator}
	if n.separator == "" {
		n.separator = "."
	}
	problems := []error{checkName("separator", n.separator)}
	for name, value := range r.Tags {
		problems = append(problems, checkTag(name, value))
	}
	if len(r.Templates) > GraphiteTemplatesMax {
		problems = append(problems, fmt.Errorf("%w: there are %d, and no more than %d may be", ErrGraphiteTemplate, len(r.Templates), GraphiteTemplatesMax))
	}
	for _, text := range r.Templates {
		if err := n.add(text, r.Tags); err != nil {
			problems = append(problems, fmt.Errorf("%w: %q: %w", ErrGraphiteTemplate, text, err))
		}
	}
	if n.root.template == nil {
		n.root.template = &pathTemplate{metric: pathParts{[]int{0}, true}, defaults: tagsOf(r.Tags)}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return n, nil
}

// add reads one template and puts it where its filter is.
func (n *GraphiteNames) add(text string, defaults map[string]string) error {
	words := strings.Fields(text)
	own := map[string]string{}
	if len(words) > 1 && strings.Contains(words[len(words)-1], "=") {
		for pair := range strings.SplitSeq(words[len(words)-1], ",") {
			name, value, _ := strings.Cut(pair, "=")
			if err := checkTag(name, value); err != nil {
				return err
			}
			if _, twice := own[name]; twice {
				return fmt.Errorf("the tag %s stands there twice", name)
			}
			own[name] = value
		}
		words = words[:len(words)-1]
	}
	if len(words) == 0 || len(words) > 2 {
		return errors.New("expected `[filter] template [tag=value,…]`")
	}
	t, err := readTemplate(words[len(words)-1])
	if err != nil {
		return err
	}
	for name, value := range defaults {
		if _, has := own[name]; !has {
			own[name] = value
		}
	}
	if len(own) > templateTagsMax {
		return fmt.Errorf("it has %d tags with values, and no more than %d may be", len(own), templateTagsMax)
	}
	t.defaults = tagsOf(own)
	filter := ""
	if len(words) == 2 {
		filter = words[0]
	}
	return n.root.put(filter, t)
}

func tagsOf(all map[string]string) (tags []series.Tag) {
	for name, value := range all {
		tags = append(tags, series.Tag{Name: []byte(name), Value: []byte(value)})
	}
	slices.SortFunc(tags, compareNames)
	return tags
}

func checkTag(name, value string) error {
	if name == series.FieldTagName {
		return fmt.Errorf("%w: the tag %s is reserved", ErrGraphiteTemplate, name)
	}
	return errors.Join(checkName("name of a tag", name), checkName("value of the tag "+name, value))
}

// nameBytesMax bounds what templates add to each path.
const nameBytesMax = 256

func checkName(what, text string) error {
	if text == "" || len(text) > nameBytesMax || !legalPath([]byte(text)) {
		return fmt.Errorf("%w: the %s is %q: expected 1 to %d bytes of text", ErrGraphiteTemplate, what, text, nameBytesMax)
	}
	return nil
}

// readTemplate reads the parts of a template.
func readTemplate(text string) (*pathTemplate, error) {
	t := &pathTemplate{}
	parts := strings.Split(text, ".")
	if len(parts) > templatePartsMax {
		return nil, fmt.Errorf("it has %d parts, and no more than %d may be", len(parts), templatePartsMax)
	}
	for i, part := range parts {
		name, rest := strings.CutSuffix(part, "*")
		switch {
		case part == "":
			continue
		case rest && name != "measurement" && name != "field":
			return nil, fmt.Errorf("the part %s: only measurement and field may have a *", part)
		case rest && i < len(parts)-1:
			return nil, fmt.Errorf("%s takes all parts that are left: nothing may stand behind it", part)
		}
		to := t.partsOf(name)
		if to == nil {
			if err := checkTag(name, "value"); err != nil {
				return nil, err
			}
			t.tags = append(t.tags, taggedParts{name: []byte(name)})
			to = &t.tags[len(t.tags)-1].parts
		}
		to.indexes, to.rest = append(to.indexes, i), rest
	}
	if len(t.metric.indexes) == 0 {
		return nil, errors.New("no part of it is the measurement")
	}
	return t, nil
}

// partsOf returns the parts of a name, or nil if it is a tag that has none so far.
func (t *pathTemplate) partsOf(name string) *pathParts {
	switch name {
	case "measurement":
		return &t.metric
	case "field":
		return &t.field
	}
	for i := range t.tags {
		if string(t.tags[i].name) == name {
			return &t.tags[i].parts
		}
	}
	return nil
}

// put places a template behind a filter.
func (f *pathFilter) put(filter string, t *pathTemplate) error {
	parts := strings.Split(filter, ".")
	if filter == "" {
		parts = nil
	}
	if len(parts) > templatePartsMax {
		return fmt.Errorf("its filter has %d parts, and no more than %d may be", len(parts), templatePartsMax)
	}
	for _, part := range parts {
		switch {
		case part == "*":
			if f.any == nil {
				f.any = &pathFilter{}
			}
			f = f.any
			continue
		case part == "" || strings.Contains(part, "*"):
			return fmt.Errorf("the part %q of its filter is neither a name nor *", part)
		case f.parts == nil:
			f.parts = map[string]*pathFilter{}
		}
		if f.parts[part] == nil {
			f.parts[part] = &pathFilter{}
		}
		f = f.parts[part]
	}
	if f.template != nil {
		return fmt.Errorf("there is another template with the filter %q", filter)
	}
	f.template = t
	return nil
}

// find returns the template of a path.
func (f *pathFilter) find(path [][]byte) *pathTemplate {
	if len(path) > 0 {
		if next := f.parts[string(path[0])]; next != nil {
			if t := next.find(path[1:]); t != nil {
				return t
			}
		}
		if f.any != nil {
			if t := f.any.find(path[1:]); t != nil {
				return t
			}
		}
	}
	return f.template
}

// legalPath reports whether a text can be a name: it has no control characters.
func legalPath(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(text)
}

// readGraphite reads a path, with or without tags: a.b.c;name=value;…
func (k *KeyBuilder) readGraphite(names *GraphiteNames, path []byte) fault {
	k.reset()
	if !legalPath(path) {
		return syntaxFault("the path has control characters, or is no UTF-8")
	}
	path, tags, tagged := bytes.Cut(path, []byte{';'})
	template, wrong := k.nameGraphite(names, path)
	if wrong.detail != "" {
		return wrong
	}
	for tagged {
		var tag []byte
		tag, tags, tagged = bytes.Cut(tags, []byte{';'})
		name, value, found := bytes.Cut(tag, []byte{'='})
		switch {
		case !found || len(name) == 0 || len(value) == 0 || bytes.ContainsAny(name, "!^") || value[0] == '~':
			return syntaxFault("invalid tag: " + string(tag))
		case string(name) == series.FieldTagName:
			return syntaxFault("the tag " + series.FieldTagName + " is reserved")
		}
		k.tags = append(k.tags, series.Tag{Name: name, Value: value})
	}
	k.sortTags()
	k.dropRepeated() // of one name the last counts: what the path says, not its template
	if template != nil {
		k.addDefaults(template.defaults)
	}
	return fault{}
}

// nameGraphite takes metric and tags out of a path, by the template that it returns.
func (k *KeyBuilder) nameGraphite(names *GraphiteNames, path []byte) (*pathTemplate, fault) {
	if len(path) == 0 {
		return nil, syntaxFault("the path is empty")
	}
	if names == nil {
		k.metric = path
		return nil, fault{}
	}
	k.parts = k.parts[:0]
	for part := range bytes.SplitSeq(path, []byte{'.'}) {
		k.parts = append(k.parts, part)
	}
	t := names.root.find(k.parts)
	k.metric = k.join(t.metric, names.separator)
	if len(k.metric) == 0 {
		return nil, syntaxFault("nothing of the path is left for the measurement of its template")
	}
	for i := range t.tags {
		if value := k.join(t.tags[i].parts, names.separator); len(value) > 0 {
			k.tags = append(k.tags, series.Tag{Name: t.tags[i].name, Value: value})
		}
	}
	if field := k.join(t.field, names.separator); len(field) > 0 && string(field) != "value" {
		k.tags = append(k.tags, series.Tag{Name: fieldTagName, Value: field})
	}
	return t, fault{}
}

// join returns the parts of the path that belong to one name.
func (k *KeyBuilder) join(p pathParts, separator string) []byte {
	start, several := len(k.text), false
	add := func(part []byte) {
		if several {
			k.text = append(k.text, separator...)
		}
		k.text, several = append(k.text, part...), true
	}
	for i, index := range p.indexes {
		if index >= len(k.parts) {
			break
		}
		add(k.parts[index])
		if p.rest && i == len(p.indexes)-1 {
			for _, part := range k.parts[index+1:] {
				add(part)
			}
		}
	}
	return k.text[start:len(k.text):len(k.text)]
}

// addDefaults adds the tags whose names are not there.
func (k *KeyBuilder) addDefaults(defaults []series.Tag) {
	there := k.tags
	for _, tag := range defaults {
		if _, has := slices.BinarySearchFunc(there, tag, compareNames); !has {
			k.tags = append(k.tags, tag)
		}
	}
	k.sortTags()
}
