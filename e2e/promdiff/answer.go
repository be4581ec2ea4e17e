package promdiff

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Answer is what a query was answered with.
type Answer struct {
	Status int
	Type   string             // of the result; of an error the errorType
	Text   string             // the error
	Points map[string][]Point // by the labels
	Notes  []string           // warnings and infos, in order; another version has others
}

// Point is a time in milliseconds and a value.
type Point struct {
	TimeMs int64
	Value  float64
}

// ParseAnswer reads the body of an answer of Prometheus' API.
func ParseAnswer(status int, body []byte) (*Answer, error) {
	type pair [2]any
	var parsed struct {
		Status, ErrorType, Error string
		Warnings, Infos          []string
		Data                     struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &parsed); err != nil {
		return nil, fmt.Errorf("%w in %.300q", err, body)
	}
	a := &Answer{Status: status, Type: parsed.ErrorType, Text: parsed.Error, Points: map[string][]Point{}, Notes: append(parsed.Warnings, parsed.Infos...)}
	slices.Sort(a.Notes)
	if parsed.Status != "success" {
		return a, nil
	}
	a.Type = parsed.Data.ResultType
	if a.Type == "scalar" || a.Type == "string" {
		var value pair
		if err := json.Unmarshal(parsed.Data.Result, &value); err != nil {
			return nil, err
		}
		return a, a.add("", value)
	}
	var list []struct {
		Metric map[string]string
		Value  *pair
		Values []pair
	}
	if err := json.Unmarshal(parsed.Data.Result, &list); err != nil {
		return nil, fmt.Errorf("%w in %.300q", err, parsed.Data.Result)
	}
	for _, series := range list {
		name := labelsText(series.Metric)
		if a.Points[name] != nil {
			return nil, fmt.Errorf("%s comes twice", name)
		}
		if series.Value != nil {
			series.Values = []pair{*series.Value}
		}
		for _, value := range series.Values {
			if err := a.add(name, value); err != nil {
				return nil, err
			}
		}
	}
	return a, nil
}

func (a *Answer) add(name string, pair [2]any) error {
	seconds, ok := pair[0].(float64)
	text, isText := pair[1].(string)
	if !ok || !isText {
		return fmt.Errorf("%v is no point", pair)
	}
	v, err := strconv.ParseFloat(text, 64)
	a.Points[name] = append(a.Points[name], Point{int64(math.Round(seconds * 1000)), v})
	return err
}

func labelsText(metric map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(metric)) {
		fmt.Fprintf(&b, "%s=%q,", name, metric[name])
	}
	return b.String()
}

// Difference returns where two answers differ; empty: nowhere. Values agree when their
// difference is at most tolerance of the greater. Of errors only the status and type count:
// texts are other ones in each version.
func Difference(want, got *Answer, tolerance float64) string {
	if want.Status != got.Status || want.Type != got.Type {
		return fmt.Sprintf("status %d %s %s, want %d %s %s", got.Status, got.Type, got.Text, want.Status, want.Type, want.Text)
	}
	for name := range got.Points {
		if want.Points[name] == nil {
			return fmt.Sprintf("{%s} %v is too much", name, got.Points[name])
		}
	}
	for name, wanted := range want.Points {
		found := got.Points[name]
		if len(found) != len(wanted) {
			return fmt.Sprintf("{%s} %v, want %v", name, found, wanted)
		}
		for i, w := range wanted {
			if f := found[i]; f.TimeMs != w.TimeMs || !agree(w.Value, f.Value, tolerance) {
				return fmt.Sprintf("{%s} at %d: %v at %d, want %v", name, w.TimeMs, f.Value, f.TimeMs, w.Value)
			}
		}
	}
	return ""
}

func agree(a, b, tolerance float64) bool {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return true
	}
	return math.Abs(a-b) <= tolerance*max(math.Abs(a), math.Abs(b))
}
