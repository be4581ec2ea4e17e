package interchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

type sample struct {
	key    string
	timeMs int64
	bits   uint64
}

func formats() []Format { return []Format{Line, CSV, JSON} }

func readAll(f Format, text []byte, o ReadOptions) (all []sample, err error) {
	err = Read(f, bytes.NewReader(text), o, func(key series.Key, timeMs int64, value float64) error {
		all = append(all, sample{string(key), timeMs, math.Float64bits(value)})
		return nil
	})
	return all, err
}

// drawName draws what makes trouble: what formats give a meaning to, and any bytes.
func drawName(t *rapid.T, label string) []byte {
	trouble := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "ä", "\\", ",", " ", "=", "\"", "\n", "\r", "\r\n", "\t", "#", "#tickmesh ", "\x00", "\xff", "\xc3", "\u2028", "_field", "value", "{", "}", "0", "\\x41",
	}), 1, 4), func(parts []string) []byte { return []byte(strings.Join(parts, "")) })
	return rapid.OneOf(trouble, rapid.SliceOfN(rapid.Byte(), 1, 12), rapid.SampledFrom([][]byte{[]byte("cpu"), []byte("value"), []byte("_field")})).Draw(t, label)
}

func drawKey(t *rapid.T, database string) series.Key {
	names := map[string]bool{}
	var tags []series.Tag
	for range rapid.IntRange(0, 4).Draw(t, "tags") {
		name := drawName(t, "name")
		if !names[string(name)] {
			names[string(name)] = true
			tags = append(tags, series.Tag{Name: name, Value: drawName(t, "tag value")})
		}
	}
	return series.AppendKey(nil, []byte(database), drawName(t, "metric"), tags)
}

func drawValue(t *rapid.T) float64 {
	special := rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(),
		math.Float64frombits(0x7ff8000000000000), math.Float64frombits(0xfff0000000000001), 5e-324, math.MaxFloat64, 1e21, 0.1, -20.15})
	return rapid.OneOf(special, rapid.Map(rapid.Uint64(), math.Float64frombits)).Draw(t, "value")
}

// TestRoundTrip writes random series and reads them back in another database.
func TestRoundTrip(t *testing.T) {
	for _, f := range formats() {
		t.Run(string(f), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var out bytes.Buffer
				w, err := NewWriter(f, &out)
				if err != nil {
					t.Fatal(err)
				}
				var want []sample
				for range rapid.IntRange(0, 5).Draw(t, "series") {
					key := drawKey(t, rapid.SampledFrom([]string{"", "db"}).Draw(t, "database"))
					_, metric, tags, _ := key.Parts(nil)
					back := series.AppendKey(nil, []byte("other"), metric, tags)
					times := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 2e12), rapid.Int64Range(scan.TimeMsMin, scan.TimeMsMax)), 1, 4).Draw(t, "times")
					var values []float64
					for _, ms := range times {
						v := drawValue(t)
						values = append(values, v)
						want = append(want, sample{string(back), ms, math.Float64bits(v)})
					}
					if err := w.Write(key, times, values); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				got, err := readAll(f, out.Bytes(), ReadOptions{Database: "other"})
				if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%v\ngot  %v\nwant %v\ntext %q", err, got, want, out.Bytes())
				}
				if f == JSON && !json.Valid(out.Bytes()) {
					t.Fatalf("not JSON: %s", out.Bytes())
				}
			})
		})
	}
}

// TestText holds what other programs read to its text.
func TestText(t *testing.T) {
	key := func(metric string, tags ...string) series.Key {
		var list []series.Tag
		for i := 0; i < len(tags); i += 2 {
			list = append(list, series.Tag{Name: []byte(tags[i]), Value: []byte(tags[i+1])})
		}
		return series.AppendKey(nil, nil, []byte(metric), list)
	}
	for f, want := range map[Format]string{
		Line: "cpu,host=a\\ b idle=0.5 1700000000000000000\ncpu,host=a\\ b idle=-0 1700000000001000000\n" +
			"#tickmesh AAFt 1700000000000 7ff8000000000001\nm value=1e+21 1700000000001000000\n",
		CSV: "metric,tags,time_ms,value\ncpu,\"_field=idle,host=a b\",1700000000000,0.5\ncpu,\"_field=idle,host=a b\",1700000000001,-0\n" +
			"m,,1700000000000,NaN\nm,,1700000000001,1e+21\n",
		JSON: "[\n{\"metric\":\"cpu\",\"tags\":{\"_field\":\"idle\",\"host\":\"a b\"},\"timestamp\":1700000000000,\"value\":0.5},\n" +
			"{\"metric\":\"cpu\",\"tags\":{\"_field\":\"idle\",\"host\":\"a b\"},\"timestamp\":1700000000001,\"value\":-0},\n" +
			"{\"key\":\"AAFt\",\"timestamp_ms\":1700000000000,\"bits\":\"7ff8000000000001\"},\n" +
			"{\"metric\":\"m\",\"tags\":{},\"timestamp\":1700000000001,\"value\":1e+21}\n]\n",
	} {
		var out bytes.Buffer
		w, err := NewWriter(f, &out)
		if err != nil {
			t.Fatal(err)
		}
		times := []int64{1700000000000, 1700000000001}
		err = errors.Join(
			w.Write(key("cpu", "host", "a b", "_field", "idle"), times, []float64{0.5, math.Copysign(0, -1)}),
			w.Write(key("m"), times, []float64{math.NaN(), 1e21}), w.Close())
		if err != nil || out.String() != want {
			t.Errorf("%v\n%s\nwant\n%s", err, &out, want)
		}
		private := int64(1)
		if f == CSV {
			private = 0
		}
		if w.Private() != private {
			t.Errorf("%s: %d samples in words of its own", f, w.Private())
		}
	}
}

// TestRead reads what other programs write, and what is wrong.
func TestRead(t *testing.T) {
	for _, test := range []struct {
		format Format
		text   string
		o      ReadOptions
		want   string // keys, times and values, or the error behind !
	}{
		{Line, "cpu,host=a v=1i,w=t,s=\"x\" 5\n# nothing\n\ncpu v=2", ReadOptions{Precision: parse.PrecisionS, NowMs: 7000},
			"cpu{_field=v,host=a}@5000=1 cpu{_field=w,host=a}@5000=1 cpu{_field=v}@7000=2"},
		{Line, "m s=\"\n#tickmesh x\",value=3 1", ReadOptions{Precision: parse.PrecisionS}, "m{}@1000=3"},
		{Line, "m value=1 1\nm value=x 1\n", ReadOptions{}, "!line 2: "},
		{Line, "m value=1 1\n#tickmesh AAFt 1 z\n", ReadOptions{}, "!line 2: "},
		{Line, "#tickmesh AAFt 1\n", ReadOptions{}, "!line 1: "},
		{CSV, "host,value,time,metric\na,1.5,1970-01-01T00:00:01Z,cpu\n,2,1970-01-01T00:00:02.5+00:00,cpu\n", ReadOptions{}, "cpu{host=a}@1000=1.5 cpu{}@2500=2"},
		{CSV, "", ReadOptions{}, ""},
		{CSV, "metric,value\n", ReadOptions{}, "!line 1: "},
		{CSV, "metric,time_ms,value\nm,1\n", ReadOptions{}, "!line 2: "},
		{CSV, "metric,tags,time_ms,value\nm,a,1,1\n", ReadOptions{}, "!line 2: "},
		{CSV, "metric,tags,time_ms,value\nm,\"a=b,\",1,1\n", ReadOptions{}, "!line 2: "},
		{CSV, "metric,tags,time_ms,value\nm,a=b,1,\n", ReadOptions{}, "!line 2: "},
		{CSV, "metric,time_ms,value\nm\\q,1,1\n", ReadOptions{}, "!line 2: "},
		{JSON, `[{"metric":"m","timestamp":1700000000,"value":"1.5","tags":{"a":1,"b":"c"}},{"metric":"m","timestamp":1700000000.25,"value":2}]`, ReadOptions{},
			"m{a=1,b=c}@1700000000000=1.5 m{}@1700000000250=2"},
		{JSON, " {\"metric\":\"m\",\"timestamp\":\"1700000000001\",\"value\":1}\n{\"metric\":\"n\",\"timestamp\":1,\"value\":2}\n", ReadOptions{},
			"m{}@1700000000001=1 n{}@1000=2"},
		{JSON, "", ReadOptions{}, ""},
		{JSON, "[]", ReadOptions{}, ""},
		{JSON, "[{}", ReadOptions{}, "!datapoint 1: "},
		{JSON, `[{"metric":"m","timestamp":1,"value":1}`, ReadOptions{}, "!datapoint 2: "},
		{JSON, `[] x`, ReadOptions{}, "!datapoint 1: "},
		{JSON, `{"metric":"m","timestamp":1,"value":null}`, ReadOptions{}, "!datapoint 1: "},
		{JSON, `{"metric":"m","timestamp":"soon","value":1}`, ReadOptions{}, "!datapoint 1: "},
		{"xml", "", ReadOptions{}, "!"},
	} {
		all, err := readAll(test.format, []byte(test.text), test.o)
		var got []string
		for _, s := range all {
			got = append(got, fmt.Sprintf("%v@%d=%v", series.Key(s.key), s.timeMs, math.Float64frombits(s.bits)))
		}
		if start, wrong := strings.CutPrefix(test.want, "!"); wrong {
			if !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), start) {
				t.Errorf("%s %q: %v, want %q", test.format, test.text, err, start)
			}
		} else if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%s %q: %v %q, want %q", test.format, test.text, err, got, test.want)
		}
	}
}

// TestOpenLine holds the ends of lines to what the parser says.
func TestOpenLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", " ", "=", ",", "\"", "\\", "\n", "\n", "m a=\"", "\r"})).Draw(t, "text"), "")
		var o openLine
		for at, line := range strings.SplitAfter(text, "\n") {
			before := strings.Join(strings.SplitAfter(text, "\n")[:at+1], "")
			if got, want := o.ends([]byte(line)), parse.LinesEnd([]byte(before)); strings.HasSuffix(line, "\n") && got != want {
				t.Fatalf("%q: %v, want %v", before, got, want)
			}
		}
	})
}

// TestLongText reads more lines than a block holds, with samples in comments between,
// and refuses a line, and a string of many lines, that is too long.
func TestLongText(t *testing.T) {
	var text strings.Builder
	const lines = 100_000
	for i := range lines {
		if i%1000 == 999 {
			fmt.Fprintf(&text, "#tickmesh AAFt %d 3ff0000000000000\n", i)
		} else {
			fmt.Fprintf(&text, "m,host=a s=\"a\n#tickmesh b\",value=1 %d\n", i)
		}
	}
	all, err := readAll(Line, []byte(text.String()), ReadOptions{Precision: parse.PrecisionMs})
	if err != nil || len(all) != lines {
		t.Fatalf("%d samples, %v", len(all), err)
	}
	for i, s := range all {
		if s.timeMs != int64(i) || s.bits != math.Float64bits(1) {
			t.Fatalf("sample %d is %+v", i, s)
		}
	}
	for _, long := range []string{strings.Repeat("x", 300<<10), strings.Repeat("#tickmesh x\n", 30<<10)} {
		_, err := readAll(Line, []byte("m value=1 1\nm s=\""+long), ReadOptions{})
		if !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("a line of %d bytes: %v", len(long), err)
		}
	}
}

// FuzzRead reads any text. What can be read is written and read again the same.
func FuzzRead(f *testing.F) {
	f.Add(uint8(0), "cpu,host=a v=1 5\n#tickmesh AAFt 1700000000000 7ff8000000000001\nm s=\"\n#\"")
	f.Add(uint8(1), "metric,tags,time_ms,value\ncpu,\"a=b,c=\\x00\",5,0x7ff8000000000002\n")
	f.Add(uint8(2), `[{"metric":"m","timestamp":1700000000001,"value":1,"tags":{"a":"b"}},{"key":"AAFt","timestamp_ms":1,"bits":"7ff8000000000001"}]`)
	f.Fuzz(func(t *testing.T, format uint8, text string) {
		from := formats()[format%3]
		all, err := readAll(from, []byte(text), ReadOptions{})
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for _, to := range formats() {
			var out bytes.Buffer
			w, _ := NewWriter(to, &out)
			for _, s := range all {
				if err := w.Write(series.Key(s.key), []int64{s.timeMs}, []float64{math.Float64frombits(s.bits)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := readAll(to, out.Bytes(), ReadOptions{})
			if err != nil || fmt.Sprint(again) != fmt.Sprint(all) {
				t.Fatalf("%s by %s: %v\n%v\n%v\n%q", from, to, err, all, again, out.Bytes())
			}
		}
	})
}
