package parse

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/otlptranslator"
)

// Bounds of what one data point or resource may carry.
const (
	otlpAttributesMax = 256   // more tags than this no limit allows
	otlpDepthMax      = 8     // lists in lists
	otlpElementsMax   = 1_024 // values in lists
	otlpNamesMax      = 4_096 // names of attributes that are remembered while a body is read
	otlpNameBytesMax  = 256   // of a name that is remembered
)

// errOTLPValue: an attribute's value is too much for a label.
var errOTLPValue = errors.New("the value is too long, or its lists are nested too deeply")

// readAttributes reads the attributes of a message into p.attributes, sorted by key. Of more than
// otlpAttributesMax it keeps one more than the bound, which makeLabels refuses.
func (p *otlpParser) readAttributes(message Span, field uint64) error {
	p.attributes, p.listBytes = p.attributes[:0], 0
	err := p.each(message, field, func(pair Span) error {
		if len(p.attributes) > otlpAttributesMax {
			return nil
		}
		a, err := p.attribute(pair)
		p.attributes = append(p.attributes, a)
		return err
	})
	slices.SortStableFunc(p.attributes, func(a, b attribute) int { return bytes.Compare(a.key, b.key) })
	return err
}

// attribute reads KeyValue: key = 1, value = 2.
func (p *otlpParser) attribute(pair Span) (attribute, error) {
	key, value, err := p.keyValue(pair)
	if err != nil {
		return attribute{}, err
	}
	a := attribute{key: p.b.Body[key.Start:key.End]}
	a.value, err = p.valueText(value)
	if errors.Is(err, errOTLPValue) {
		a.fault, err = errOTLPValue, nil
	}
	return a, err
}

func (p *otlpParser) keyValue(pair Span) (key, value Span, err error) {
	w := p.fields(pair)
	for w.next() {
		if w.field > 2 {
			continue
		}
		if !w.is(wireBytes) {
			return key, value, w.fault()
		}
		if w.field == 1 {
			key = w.span()
		} else {
			value = w.span()
		}
	}
	return key, value, w.err
}

// valueText returns an AnyValue as the text of a label: lists and maps as JSON, bytes in base64.
func (p *otlpParser) valueText(message Span) ([]byte, error) {
	if w := p.fields(message); w.next() && w.field == 1 && w.is(wireBytes) && w.at == len(w.b) {
		return w.b[w.data:w.at], nil // a string, as nearly all are
	}
	p.elements = 0
	value, err := p.value(message, 0)
	if err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case int64:
		return strconv.AppendInt(nil, v, 10), nil
	case float64:
		return appendNumber(nil, v), nil
	case []any, map[string]any:
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			return nil, nil //nolint:nilerr // a number that JSON does not have: no text, as in the collector
		}
		return bytes.TrimRight(text.Bytes(), "\n"), nil
	default:
		panic(fmt.Sprintf("parse: a value of type %T", v))
	}
}

// value reads AnyValue: string = 1, bool = 2, int = 3, double = 4, array = 5, kvlist = 6, bytes = 7.
// A string is returned as []byte, which stands in Body; bytes as their base64.
func (p *otlpParser) value(message Span, depth int) (any, error) {
	if p.elements++; depth > otlpDepthMax || p.elements > otlpElementsMax {
		return nil, errOTLPValue
	}
	var value any
	w := p.fields(message)
	for w.next() {
		want := wireBytes
		switch w.field {
		case 2, 3:
			want = wireVarint
		case 4:
			want = wireFixed64
		case 1, 5, 6, 7:
		default:
			continue
		}
		if !w.is(uint8(want)) {
			return nil, w.fault()
		}
		var err error
		switch w.field {
		case 1:
			if value = w.b[w.data:w.at]; depth > 0 {
				err = p.payList(w.at - w.data)
			}
		case 2:
			value = w.value != 0
		case 3:
			value = int64(w.value)
		case 4:
			value = math.Float64frombits(binary.LittleEndian.Uint64(w.b[w.at-8:]))
		case 5:
			value, err = p.list(w.span(), depth+1)
		case 6:
			value, err = p.pairs(w.span(), depth+1)
		case 7:
			if err := p.payList(w.at - w.data); err != nil {
				return nil, err
			}
			value = base64.StdEncoding.EncodeToString(w.b[w.data:w.at])
		}
		if err != nil {
			return nil, err
		}
	}
	return value, w.err
}

// payList counts bytes that are copied, and written as JSON or base64. A data point with more of
// them than a key may have is refused in any case.
func (p *otlpParser) payList(bytes int) error {
	if p.listBytes += bytes; p.listBytes > p.keyBytesMax {
		return errOTLPValue
	}
	return nil
}

// list reads ArrayValue: values = 1.
func (p *otlpParser) list(message Span, depth int) (any, error) {
	values := []any{}
	err := p.each(message, 1, func(s Span) error {
		v, err := p.value(s, depth)
		if text, ok := v.([]byte); ok {
			v = string(text)
		}
		values = append(values, v)
		return err
	})
	return values, err
}

// pairs reads KeyValueList: values = 1.
func (p *otlpParser) pairs(message Span, depth int) (any, error) {
	values := map[string]any{}
	err := p.each(message, 1, func(s Span) error {
		key, value, err := p.keyValue(s)
		if err != nil {
			return err
		}
		if err := p.payList(key.Len()); err != nil {
			return err
		}
		v, err := p.value(value, depth)
		if text, ok := v.([]byte); ok {
			v = string(text)
		}
		values[p.text(key)] = v
		return err
	})
	return values, err
}

// appendNumber appends a number as JavaScript writes it, which is how JSON does where it can.
func appendNumber(dst []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	text, _ := json.Marshal(v) // a finite number can always be encoded
	return append(dst, text...)
}

// makeLabels turns the attributes into labels, with job and instance. Keys that become the same
// label join their values in the order of the keys. It reports whether the data point was refused.
func (p *otlpParser) makeLabels(point Span) (refused bool) {
	p.labels = p.labels[:0]
	if len(p.attributes) > otlpAttributesMax {
		p.refuse(point, KindLimit, "more than "+strconv.Itoa(otlpAttributesMax)+" attributes")
		return true
	}
	for _, a := range p.attributes {
		if string(a.key) == metricLabel {
			continue
		}
		if len(a.key) > p.keyBytesMax {
			p.refuse(point, KindLimit, "an attribute's name of "+strconv.Itoa(len(a.key))+" bytes, more than "+strconv.Itoa(p.keyBytesMax))
			return true
		}
		name, fault := p.labelName(a.key)
		if fault == nil {
			fault = a.fault
		}
		if fault != nil {
			p.refuse(point, KindSyntax, "attribute "+strconv.Quote(string(a.key))+": "+fault.Error())
			return true
		}
		p.setLabel(name, a.value, true)
	}
	p.setLabel(labelJob, p.job, false)
	p.setLabel(labelInstance, p.instance, false)
	total := 0
	for _, l := range p.labels {
		total += len(l.name) + len(l.value)
	}
	if total > p.keyBytesMax {
		p.refuse(point, KindLimit, "labels of "+strconv.Itoa(total)+" bytes, more than "+strconv.Itoa(p.keyBytesMax))
		return true
	}
	return false
}

// setLabel sets a label. A label that is there gets the value instead, or with join behind it.
func (p *otlpParser) setLabel(name string, value []byte, join bool) {
	i := slices.IndexFunc(p.labels, func(l label) bool { return l.name == name })
	switch {
	case i < 0 && len(value) > 0:
		p.labels = append(p.labels, label{name, value})
	case i >= 0 && join && len(p.labels[i].value) <= p.keyBytesMax: // beyond, all is refused
		p.labels[i].value = slices.Concat(p.labels[i].value, []byte{';'}, value)
	case i >= 0 && !join && len(value) > 0:
		p.labels[i].value = value
	}
}

// labelName returns the name of the label that an attribute becomes.
func (p *otlpParser) labelName(key []byte) (string, error) {
	if name, ok := p.names[string(key)]; ok {
		return name, nil
	}
	namer := otlptranslator.LabelNamer{}
	name, err := namer.Build(string(key))
	if err == nil && len(p.names) < otlpNamesMax && len(key) <= otlpNameBytesMax {
		p.names[string(key)] = name
	}
	return name, err
}
