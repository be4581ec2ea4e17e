package rulefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tickmesh/tickmesh/api/quantity"
)

// ErrFile marks a text that cannot be used as what it is read for: rules of databases, users or
// connections to brokers. Its message names file, line and remedy.
var ErrFile = errors.New("not a valid file")

// Value is a part of a file, which knows its place.
type Value struct {
	file string
	path string // of keys, for messages
	node *yaml.Node
}

// Parse reads the text of a file; the name is for messages. A text without content is
// a Value without fields. Errors: ErrFile.
func Parse(file string, text []byte) (Value, error) {
	top := Value{file: file, node: &yaml.Node{Kind: yaml.MappingNode, Line: 1}}
	if len(text) > BytesMax {
		return top, fmt.Errorf("%w: %s: it is longer than %d bytes", ErrFile, file, BytesMax)
	}
	content, err := Document(file, text)
	if err != nil {
		return top, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if content != nil {
		top.node = content
	}
	return top, nil
}

// Document returns the content of the one document of a YAML text, nil if it has none. Errors
// begin with the file and the line.
func Document(file string, text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxError(file, err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: expected one document, and a second begins", file, second.Line)
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(file, err)
	}
	if content := document.Content[0]; !IsNull(content) {
		return content, nil
	}
	return nil, nil
}

// syntaxError puts the place of a syntax error, which yaml words as "yaml: line 3:
// reason", where other errors have it.
func syntaxError(file string, err error) error {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	if after, ok := strings.CutPrefix(reason, "line "); ok {
		if line, reason, ok := strings.Cut(after, ": "); ok {
			return fmt.Errorf("%s:%s: %s", file, line, reason)
		}
	}
	return fmt.Errorf("%s: %s", file, reason)
}

// IsNull reports whether a node has no value.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Errorf words an error of the value with its place. It is an ErrFile.
func (v Value) Errorf(format string, args ...any) error {
	place := fmt.Sprintf("%s:%d: ", v.file, v.node.Line)
	if v.path != "" {
		place += v.path + ": "
	}
	return fmt.Errorf("%w: %s%w", ErrFile, place, fmt.Errorf(format, args...))
}

func (v Value) at(key string, node *yaml.Node) Value {
	if v.path != "" && !strings.HasPrefix(key, "[") {
		key = "." + key
	}
	return Value{file: v.file, path: v.path + key, node: node}
}

// Entry is one key of a mapping and what stands behind it.
type Entry struct {
	Key   string
	Value Value
}

// Entries returns the entries of a mapping in the order of the file. Errors: ErrFile for
// what is no mapping and for keys that repeat or are no single values.
func (v Value) Entries() ([]Entry, error) {
	if v.node.Kind != yaml.MappingNode || v.node.Anchor != "" {
		return nil, v.Errorf("expected lines of the form `name: value`")
	}
	var all []Entry
	var problems []error
	lines := map[string]int{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		entry := Entry{Key: key.Value, Value: v.at(key.Value, v.node.Content[i+1])}
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || IsNull(key) || key.Anchor != "" {
			problems = append(problems, v.at("?", key).Errorf("expected a single name before the colon"))
			continue
		}
		if before, ok := lines[key.Value]; ok {
			problems = append(problems, v.at(key.Value, key).Errorf("is set in line %d already", before))
			continue
		}
		lines[key.Value] = key.Line
		all = append(all, entry)
	}
	return all, errors.Join(problems...)
}

// Fields has each entry of a mapping read by the function of its name. Errors: ErrFile for
// names that are not there, and what the functions give.
func (v Value) Fields(read map[string]func(Value) error) error {
	entries, err := v.Entries()
	problems := []error{err}
	for _, e := range entries {
		if field := read[e.Key]; field != nil {
			problems = append(problems, field(e.Value))
			continue
		}
		var known []string
		for name := range read {
			known = append(known, name)
		}
		slices.Sort(known)
		problems = append(problems, e.Value.Errorf("there is no such key here; use one of %s, or take the line out", strings.Join(known, ", ")))
	}
	return errors.Join(problems...)
}

// List returns the elements of a list. Errors: ErrFile.
func (v Value) List() ([]Value, error) {
	if v.node.Kind != yaml.SequenceNode || v.node.Anchor != "" {
		return nil, v.Errorf("expected a list: lines that begin with `- `, or [a, b]")
	}
	var all []Value
	for i, node := range v.node.Content {
		all = append(all, v.at("["+strconv.Itoa(i)+"]", node))
	}
	return all, nil
}

// Text returns a single value as it is written. Errors: ErrFile.
func (v Value) Text() (string, error) {
	switch {
	case IsNull(v.node):
		return "", v.Errorf(`has no value; write "" for an empty one`)
	case v.node.Kind != yaml.ScalarNode || v.node.Anchor != "":
		return "", v.Errorf("expected a single value")
	}
	return v.node.Value, nil
}

// Texts returns a list of single values. Errors: ErrFile.
func (v Value) Texts() ([]string, error) {
	list, err := v.List()
	problems := []error{err}
	var all []string
	for _, item := range list {
		text, err := item.Text()
		all, problems = append(all, text), append(problems, err)
	}
	return all, errors.Join(problems...)
}

// Count returns a whole number, 0 or more. Errors: ErrFile.
func (v Value) Count() (int64, error) {
	text, err := v.Text()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, v.Errorf("%q: expected a whole number", text)
	}
	return int64(n), nil
}

// Bytes returns a size. Errors: ErrFile.
func (v Value) Bytes() (int64, error) {
	text, err := v.Text()
	if err != nil {
		return 0, err
	}
	n, err := quantity.Bytes(text)
	if err != nil {
		return 0, v.Errorf("%q: %w", text, err)
	}
	return n, nil
}

// Span returns a length of time. Errors: ErrFile.
func (v Value) Span() (time.Duration, error) {
	text, err := v.Text()
	if err != nil {
		return 0, err
	}
	d, err := quantity.Span(text)
	if err != nil {
		return 0, v.Errorf("%q: %w", text, err)
	}
	return d, nil
}
