package parse

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// referenceJSON reads a body with encoding/json.
func referenceJSON(body string) (r result, ok bool) {
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	var v any
	if !json.Valid([]byte(body)) || decoder.Decode(&v) != nil {
		return r, false
	}
	all, isArray := v.([]any)
	if object, isObject := v.(map[string]any); isObject {
		all = []any{object}
	} else if !isArray {
		return r, false
	}
	for i, v := range all {
		if v == nil {
			r.errors = append(r.errors, i+1)
			continue
		}
		object, isObject := v.(map[string]any)
		if !isObject {
			return result{}, false
		}
		if p, ok := refDatapoint(object); ok {
			p.number = i + 1
			r.points = append(r.points, p)
		} else {
			r.errors = append(r.errors, i+1)
		}
	}
	return r, true
}

func refDatapoint(object map[string]any) (p resultPoint, ok bool) {
	metric, ok := refScalar(object["metric"])
	if !ok || !refLegal(metric) {
		return p, false
	}
	tags := map[string]string{}
	switch v := object["tags"].(type) {
	case nil:
	case map[string]any:
		for name, v := range v {
			value, ok := refScalar(v)
			if !ok || !refLegal(name) || !refLegal(value) {
				return p, false
			}
			tags[name] = value
		}
	default:
		return p, false
	}
	text, ok := refNumberText(object["value"])
	if !ok {
		return p, false
	}
	value, ok := refFloat(text)
	if !ok {
		return p, false
	}
	text, ok = refNumberText(object["timestamp"])
	if !ok {
		return p, false
	}
	timeMs, ok := refTime(text)
	if !ok {
		var seconds float64
		if seconds, ok = refFloat(text); !ok || seconds < 1 || seconds >= 1e13 {
			return p, false
		}
		if seconds < 1e10 {
			seconds *= 1000
		}
		timeMs = int64(seconds)
	}
	return resultPoint{0, keyOf("db", metric, tags), timeMs, math.Float64bits(value)}, true
}

func refScalar(v any) (string, bool) {
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

func refNumberText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

func checkJSON(t interface{ Fatalf(string, ...any) }, body string) {
	if strings.Count(body, "[")+strings.Count(body, "{") > jsonDepthMax-4 {
		return // encoding/json nests deeper
	}
	want, ok := referenceJSON(body)
	for _, memory := range []func(string) []byte{withRoom, exact} {
		var b Batch
		err := JSON(&b, memory(body), Limits{})
		if (err == nil) != ok || err != nil && (!errors.Is(err, ErrMalformed) || len(b.Lines)+len(b.Points)+len(b.Errors) > 0) {
			t.Fatalf("%q: %v, want ok %v", body, err, ok)
		}
		if d := difference(resultOf(&b, "db", Limits{}), want); d != "" {
			t.Fatalf("%q: %s (errors %v)", body, d, messages(&b))
		}
		for i := range b.Lines {
			if text := b.Body[b.Lines[i].Text.Start:b.Lines[i].Text.End]; !json.Valid(text) {
				t.Fatalf("%q: datapoint %q", body, text)
			}
		}
	}
}

var jsonSeeds = []string{
	`{"metric":"m","timestamp":1700000000,"value":20.15,"tags":{"device":"d_17","sensor":"s_3"}}`,
	`[{"metric":"m","timestamp":1700000000123,"value":"-5","tags":{}},` + "\n" + ` {"tags":{"a":1,"b":true,"c":1.50},"value":1e5,"timestamp":"1700000000","metric":"n"} ]`,
	`[null,{},{"metric":""},{"metric":"m","timestamp":0,"value":1},{"metric":"m","timestamp":1},{"metric":"m","timestamp":1,"value":""},{"metric":"m","timestamp":1,"value":"x"}]`,
	`{"\u006detric":"\u00e9\ud834\udd1e\/","timestamp":1,"value":"\u0031","tags":{"\u0061":"b","a":"c"}}`,
	`{"metric":"a","metric":"b","timestamp":1,"value":1,"value":2,"tags":{"x":"y"},"tags":{"z":"w","z":"v"}}`,
	`[]`, `[1]`, `"x"`, ``, ` `, `{`, `[{]`, `[{},]`, `{"a":}`, `{"a" 1}`, `{"a":1,}`, `[{}] x`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":tru}`, `{"a":"` + "\n" + `"}`, `{"a":"\x"}`, `{"a":"\u12"}`,
	`{"metric":{"a":[1,2,{"b":null}]},"timestamp":1,"value":1}`, `{"metric":"m","timestamp":1,"value":1,"tags":[]}`, `{"metric":"m","timestamp":1,"value":1,"tags":{"a":null}}`,
	`{"metric":"m","timestamp":1.7e9,"value":-0.0,"tags":{"a":"b"},"aggregator":"x","unknown":[[[]]]}`,
	`{"metric":"m","timestamp":1700000000123.75,"value":1e999}`, `{"metric":"m","timestamp":"","value":1}`, `{"metric":"m","timestamp":1,"value":1,"tags":{"":"x"}}`, `{"metric":"m","timestamp":1,"value":1,"tags":{"x":""}}`,
	"{\"metric\":\"\xff\",\"timestamp\":1,\"value\":1}", `{"metric":"\ud834","timestamp":1,"value":1}`,
}

func FuzzJSON(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) { checkJSON(t, body) })
}

func TestJSONAgainstReference(t *testing.T) {
	text := rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune("abcé_./-1")), 1, 12, -1), rapid.StringN(0, 6, -1))
	scalar := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) any { return text.Draw(t, "text") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Float64().Draw(t, "float") }),
		rapid.Custom(func(t *rapid.T) any { return float64(rapid.Int32().Draw(t, "int")) / 100 }),
		rapid.Custom(func(t *rapid.T) any { return strconv.Itoa(rapid.Int().Draw(t, "digits")) }),
		rapid.SampledFrom([]any{nil, true, false, []any{1.0, "x"}, map[string]any{"y": nil}}),
	)
	datapoint := rapid.Custom(func(t *rapid.T) map[string]any {
		d := map[string]any{
			"metric":    text.Draw(t, "metric"),
			"timestamp": rapid.Int64Range(1, 1e13).Draw(t, "time"),
			"value":     float64(rapid.Int32().Draw(t, "value")) / 1000,
			"tags":      rapid.MapOfN(text, scalar, 0, 3).Draw(t, "tags"),
		}
		if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			d[rapid.SampledFrom([]string{"metric", "timestamp", "value", "tags", "other"}).Draw(t, "name")] = scalar.Draw(t, "scalar")
		}
		return d
	})
	rapid.Check(t, func(t *rapid.T) {
		body, err := json.Marshal(rapid.SliceOfN(datapoint, 0, 5).Draw(t, "datapoints"))
		if err != nil {
			t.Skip(err)
		}
		if rapid.Bool().Draw(t, "indent") {
			var b bytes.Buffer
			_ = json.Indent(&b, body, "", "\t")
			body = b.Bytes()
		}
		checkJSON(t, string(body))
	})
}

func TestJSONErrors(t *testing.T) {
	const rest = `,"timestamp":1,"value":1}`
	for body, want := range map[string]string{
		`null`:                                      "Unexpected null datapoint encountered in set.",
		`{"timestamp":1,"value":1}`:                 "Metric name was empty",
		`{"metric":""` + rest:                       "Metric name was empty",
		`{"metric":[]` + rest:                       "Metric name must be a string",
		`{"metric":"m","value":1}`:                  "Invalid timestamp",
		`{"metric":"m","timestamp":-1,"value":1}`:   "Invalid timestamp",
		`{"metric":"m","timestamp":1}`:              "Empty value",
		`{"metric":"m","timestamp":1,"value":""}`:   "Empty value",
		`{"metric":"m","timestamp":1,"value":"x"}`:  "Unable to parse value to a number",
		`{"metric":"m","timestamp":1,"value":true}`: "Unable to parse value to a number",
		`{"metric":"m","tags":[]` + rest:            "Tags must be an object",
	} {
		var b Batch
		if err := JSON(&b, []byte("["+body+"]"), Limits{}); err != nil {
			t.Fatal(body, err)
		}
		if len(b.Errors) != 1 || b.Errors[0].Error() != want || string(b.Errors[0].Text) != body || len(b.Lines) > 0 {
			t.Errorf("%s: %q, want %q", body, messages(&b), want)
		}
	}
}

func TestJSONDepth(t *testing.T) {
	var b Batch
	deep := `{"x":` + strings.Repeat("[", 100_000)
	if err := JSON(&b, []byte(deep), Limits{}); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "too deeply") {
		t.Fatal(err)
	}
}
