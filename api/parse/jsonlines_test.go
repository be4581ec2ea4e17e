package parse

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// jsonLinesRead returns what a batch holds, for comparison: keys, times and bits.
func jsonLinesRead(t interface{ Fatal(...any) }, b *Batch) (all []string) {
	var keys KeyBuilder
	for i := range b.Lines {
		l := &b.Lines[i]
		if err := keys.Start(b, l, nil, Limits{}); err != nil {
			all = append(all, "! "+err.Error())
			continue
		}
		key, err := keys.Key(nil, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range b.Points[l.First : l.First+l.Count] {
			v := series.Float64(p.Mantissa, p.Scale)
			if math.IsNaN(v) {
				v = math.Float64frombits(uint64(p.Mantissa))
			}
			all = append(all, fmt.Sprintf("%v@%d=%x", key, p.TimeMs, math.Float64bits(v)))
		}
	}
	return all
}

func TestJSONLines(t *testing.T) {
	for _, test := range []struct {
		text string
		want string // samples, and errors behind !
	}{
		{`{"metric":{"__name__":"m","b":"x\u00e9","a":""},"values":[1,-2.5,1e300],"timestamps":[1,2,3]}`,
			"m{b=xé}@1=3ff0000000000000 m{b=xé}@2=c004000000000000 m{b=xé}@3=7e37e43c8800759c"},
		{`{"timestamps":[1,-2,3,4,5,6,7],"values":[null,"Infinity","-Infinity","NaN",+Inf,-Inf,nan],"x":[{}],"metric":{"__name__":"m"}}`,
			"m{}@1=7ff0000000000002 m{}@-2=7ff0000000000000 m{}@3=fff0000000000000 m{}@4=7ff8000000000001 m{}@5=7ff0000000000000 m{}@6=fff0000000000000 m{}@7=7ff8000000000001"},
		{"\n \r\n{\"metric\":{\"__name__\":\"m\"},\"values\":[0],\"timestamps\":[0]}\r\n\n", "m{}@0=0"},
		{`{"metric":{"__name__":"m"},"values":[],"timestamps":[]}`, ""},
		{`{"metric":{"__name__":"m"},"values":[1],"timestamps":[1,2]}` + "\n" + `{"metric":{"__name__":"n"},"values":[1],"timestamps":[1]}`,
			"n{}@1=3ff0000000000000 !series 1: 1 values have 2 timestamps"},
		{`{"metric":{"__name__":"m"},"values":[1,"x"],"timestamps":[1,2]}`, `!series 1: the value "x" is no number`},
		{`{"metric":{"__name__":"m"},"values":[true],"timestamps":[1]}`, `!series 1: the value true is no number`},
		{`{"metric":{"__name__":"m"},"values":[1],"timestamps":[1.5]}`, `!series 1: the timestamp 1.5 is no whole number of milliseconds`},
		{`{"metric":{"__name__":"m"},"values":[1,2],"timestamps":[2305843009213693951,-2305843009213693952]}`,
			"m{}@2305843009213693951=3ff0000000000000 m{}@-2305843009213693952=4000000000000000"},
		{`{"metric":{"__name__":"m"},"values":[1],"timestamps":[2305843009213693952]}`, `!series 1: the timestamp 2305843009213693952 is out of range`},
		{`{"metric":{"__name__":"m"},"values":[1],"timestamps":[-9223372036854775808]}`, `!series 1: the timestamp -9223372036854775808 is out of range`},
		{`{"metric":{"__name__":"m","a":1},"values":[1],"timestamps":[1]}`, `!series 1: the label "a" must be a string`},
		{`{"metric":[],"values":[1],"timestamps":[1]}`, `!series 1: "metric" must be an object of labels`},
		{`{"metric":{},"timestamps":[1]}`, `!series 1: "values" and "timestamps" must be arrays`},
		{`{"metric":{"a":"b"},"values":[1],"timestamps":[1]}`, "! invalid metric name or labels: no __name__"},
		{`[]`, `!series 1: malformed body: JSON: a line must be an object at byte 0`},
		{`{} x`, `!series 1: malformed body: JSON: something follows the object at byte 3`},
		{`{"metric":{"__name__":"m"},"values":[1,],"timestamps":[1]}`, `!series 1: malformed body: JSON: a value is missing at byte 39`},
	} {
		var b Batch
		if _, err := JSONLines(&b, []byte(test.text), LineOptions{}); err != nil {
			t.Fatal(err)
		}
		got := jsonLinesRead(t, &b)
		for i := range b.Errors {
			got = append(got, "!"+b.Errors[i].Error())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.text, strings.Join(got, " "), test.want)
		}
	}
}

// TestJSONLinesInPieces cuts lines anywhere, and has some that are too long.
func TestJSONLinesInPieces(t *testing.T) {
	long := `{"metric":{"__name__":"long"},"values":[` + strings.Repeat("1,", 200) + `1],"timestamps":[]}` + "\n"
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var want []string
		refused := 0
		for i := range rapid.IntRange(0, 8).Draw(t, "lines") {
			if rapid.IntRange(0, 3).Draw(t, "long") == 0 {
				text.WriteString(long)
				refused++
				continue
			}
			fmt.Fprintf(&text, "{\"metric\":{\"__name__\":\"m\"},\"values\":[%d],\"timestamps\":[%d]}\n", i, i)
			want = append(want, fmt.Sprintf("m{}@%d=%x", i, math.Float64bits(float64(i))))
		}
		body := text.String()
		var got []string
		errorsTotal, rest, held := 0, Rest{}, ""
		for {
			n := min(rapid.IntRange(1, 300).Draw(t, "piece"), len(body))
			held, body = held+body[:n], body[n:]
			var b Batch
			var err error
			rest, err = JSONLines(&b, []byte(held), LineOptions{Limits: Limits{LineBytesMax: 200}, Partial: body != "", InsideLine: rest.InsideLine})
			if err != nil {
				t.Fatal(err)
			}
			got, errorsTotal, held = append(got, jsonLinesRead(t, &b)...), errorsTotal+b.ErrorsTotal, held[rest.Consumed:]
			if body == "" {
				break
			}
		}
		if !slices.Equal(got, want) || errorsTotal != refused {
			t.Fatalf("%d errors, want %d\n got %q\nwant %q", errorsTotal, refused, got, want)
		}
	})
}

// jsonLineModel is a line as encoding/json reads it.
type jsonLineModel struct {
	Metric     map[string]string `json:"metric"`
	Values     []*float64        `json:"values"`
	Timestamps []int64           `json:"timestamps"`
}

// checkJSONLines compares with encoding/json, where that can read a line.
func checkJSONLines(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, text string) {
	var b Batch
	if _, err := JSONLines(&b, []byte(text), LineOptions{}); err != nil {
		if errors.Is(err, ErrTooLarge) {
			return
		}
		t.Fatal(err)
	}
	if strings.ContainsAny(text, "\n") {
		return
	}
	for _, p := range b.Points {
		if p.Scale > series.ScaleFloat {
			t.Fatalf("scale %d", p.Scale)
		}
		if p.TimeMs < scan.TimeMsMin || p.TimeMs > scan.TimeMsMax {
			t.Fatalf("%q: %d ms, which no query reaches", text, p.TimeMs)
		}
	}
	var model jsonLineModel
	if len(b.Errors) == 0 || json.Unmarshal([]byte(text), &model) != nil {
		return
	}
	if slices.ContainsFunc(model.Timestamps, func(ms int64) bool { return ms < scan.TimeMsMin || ms > scan.TimeMsMax }) {
		return // refused, and rightly
	}
	_, named := model.Metric["__name__"]
	if named && len(model.Values) == len(model.Timestamps) && len(model.Values) > 0 && strings.Count(text, `"metric"`) == 1 &&
		strings.Count(text, `"values"`) == 1 && strings.Count(text, `"timestamps"`) == 1 && !strings.Contains(text, "null") && !strings.Contains(text, `\u`) {
		t.Fatalf("%q: %v", text, &b.Errors[0])
	}
}

func FuzzJSONLines(f *testing.F) {
	for _, s := range []string{
		`{"metric":{"__name__":"m","a":"b"},"values":[1,2.5,null,"Infinity",-Inf],"timestamps":[1,2,3,4,5]}`, `{"metric":{"__name__":"m"},"values":[01],"timestamps":[1]}`,
		`{"metric":{"__name__":"\ud834"},"values":[1e999],"timestamps":[9223372036854775808]}`, `{"metric":{"__name__":"m"},"values":[1],"timestamps":[2305843009213693952]}`, "{}\n[]\n\"\"\n", `{"metric":{"a":{}},"values":[[]],"timestamps":[{}]}`, "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkJSONLines(t, text) })
}
