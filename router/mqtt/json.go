package mqtt

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a payload in JSON.
const (
	jsonDepthMax   = 16
	jsonRecordsMax = 1000
)

// jsonPath are the keys from the top of a record to a value: "env.temp", or "values.0" for an element of a list.
type jsonPath []string

func parsePath(text string) (jsonPath, error) {
	path := strings.Split(text, ".")
	if slices.Contains(path, "") || len(path) > jsonDepthMax {
		return nil, errors.New("expected keys with points between them, such as env.temp, at most " + strconv.Itoa(jsonDepthMax))
	}
	return path, nil
}

// of returns the value at the path, or nil.
func (p jsonPath) of(v any) any {
	for _, key := range p {
		switch inner := v.(type) {
		case map[string]any:
			v = inner[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(inner) {
				return nil
			}
			v = inner[i]
		default:
			return nil
		}
	}
	return v
}

// namedPath is a value that gets a name.
type namedPath struct {
	name string
	path jsonPath
}

// jsonRecord is what reads one record.
type jsonRecord struct {
	s      *subscription
	values []named
	tags   []label
	timeMs int64
	all    []sample
}

// decodeJSON reads a payload that is a record, or a list of records.
func (s *subscription) decodeJSON(payload []byte, values []named, tags []label, receivedMs int64) (all []sample, err error) {
	if depthOf(payload) > jsonDepthMax {
		return nil, refuse(refusedPayload, "the JSON has more than %d levels: publish flatter records", jsonDepthMax)
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var top any
	if err := decoder.Decode(&top); err != nil {
		return nil, refuse(refusedPayload, "the payload is no JSON (%v): publish JSON, or say another format for this topic", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, refuse(refusedPayload, "more follows the JSON: publish one record, or a list of records")
	}
	records, isList := top.([]any)
	if !isList {
		records = []any{top}
	}
	if len(records) > jsonRecordsMax {
		return nil, refuse(refusedSize, "the list has %d records, at most %d are taken: publish fewer at once", len(records), jsonRecordsMax)
	}
	for _, record := range records {
		if _, isRecord := record.(map[string]any); !isRecord {
			return nil, refuse(refusedPayload, "the JSON is no record {\"name\": number}: publish one, or say format value for a plain number")
		}
		r := jsonRecord{s: s, values: values, tags: slices.Clip(tags), timeMs: receivedMs, all: all}
		if err := r.read(record); err != nil {
			return nil, err
		}
		all = r.all
	}
	if len(all) == 0 {
		return nil, refuse(refusedEmpty, "the JSON has no number where some are looked for: check the key fields of the subscription")
	}
	return all, nil
}

// depthOf returns how many records and lists stand inside each other.
func depthOf(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func (r *jsonRecord) read(record any) error {
	s := r.s
	if s.timePath != nil {
		text, _ := textOf(s.timePath.of(record))
		ms, ok := timeOfText(text, s.timeUnit)
		if !ok {
			return refuse(refusedTime, "%q at %s is no time in %s: check the keys time and time-unit of the subscription", cut(text), strings.Join(s.timePath, "."), s.timeUnitText)
		}
		r.timeMs = ms
	}
	for _, tag := range s.jsonTags {
		if text, ok := textOf(tag.path.of(record)); ok && text != "" {
			r.tags = append(r.tags, label{tag.name, text})
		}
	}
	if s.fields == nil {
		return r.readAll("", nil, record)
	}
	for _, field := range s.fields {
		v := field.path.of(record)
		number, ok := numberOfJSON(v)
		if text, isText := v.(string); isText { // it was asked for, so numbers in quotes are taken
			number, ok = numberOfText(text)
		}
		if ok {
			if err := r.add(field.name, number); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAll adds each number and truth value below v that has no other use, by the order of names.
func (r *jsonRecord) readAll(name string, path jsonPath, v any) error {
	if number, ok := numberOfJSON(v); ok {
		if r.s.elsewhere(path) {
			return nil
		}
		return r.add(name, number)
	}
	inner, ok := v.(map[string]any)
	if !ok {
		return nil // texts, and lists, whose elements have no names
	}
	keys := make([]string, 0, len(inner))
	for key := range inner {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		below := key
		if name != "" {
			below = name + "_" + key
		}
		if err := r.readAll(below, append(slices.Clip(path), key), inner[key]); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere reports whether a value is a tag or the time.
func (s *subscription) elsewhere(path jsonPath) bool {
	return slices.Equal(path, s.timePath) || slices.ContainsFunc(s.jsonTags, func(t namedPath) bool { return slices.Equal(t.path, path) })
}

func (r *jsonRecord) add(field string, v float64) error {
	labels, err := r.s.series(r.values, r.tags, field)
	if err != nil {
		return err
	}
	if len(r.all) == samplesMax {
		return refuse(refusedSize, "the message has more than %d numbers: publish fewer at once", samplesMax)
	}
	r.all = append(r.all, sample{labels, v, r.timeMs})
	return nil
}

// numberOfJSON returns the number that a number or a truth value is.
func numberOfJSON(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		return numberOfText(v.String())
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// textOf returns a single value as a text.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// cut returns a text that is short enough for the log.
func cut(text string) string {
	const bytesMax = 100
	if len(text) <= bytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:bytesMax], "") + "…"
}
