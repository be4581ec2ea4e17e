package promql

import (
	"encoding/json"
	"io"
	"math"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	jsoniter "github.com/json-iterator/go"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/prometheus/util/jsonutil"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// TestPoints: times and values are written as Prometheus' own functions write them.
func TestPoints(t *testing.T) {
	e := encoder{} // times come after others, as in an answer
	check := func(timeMs int64, value float64) {
		t.Helper()
		stream := jsoniter.NewStream(jsoniter.ConfigDefault, nil, 64)
		stream.WriteArrayStart()
		jsonutil.MarshalTimestamp(timeMs, stream)
		stream.WriteMore()
		jsonutil.MarshalFloat(value, stream)
		stream.WriteArrayEnd()
		e.buf = e.buf[:0]
		e.point(timeMs, value)
		if string(e.buf) != string(stream.Buffer()) {
			t.Errorf("%d %v (%x): %s, want %s", timeMs, value, math.Float64bits(value), e.buf, stream.Buffer())
		}
	}
	for _, value := range []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.9e-7, 1e20, 1e21, 1 << 53, 1<<53 - 1, -(1 << 53), 123456789.125, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64, math.MaxFloat64} {
		check(1_750_000_000_123, value)
	}
	for _, ms := range []int64{0, 1, -1, -1001, 10, 100, 999, 1000, 1010, 1e7 - 1, 1e7, 1e7 + 1, 1e10 - 1, 1e10, 1_700_000_000_000, 1_700_009_999_999, 1_700_010_000_000, 2e13} {
		check(ms, 1)
	}
	rapid.Check(t, func(r *rapid.T) {
		check(rapid.Int64Range(-1e15, 1e15).Draw(r, "ms"), math.Float64frombits(rapid.Uint64().Draw(r, "bits")))
		check(0, float64(rapid.Int64().Draw(r, "whole")))
		decimals := math.Pow(10, float64(rapid.IntRange(1, 6).Draw(r, "decimals")))
		decimal := float64(rapid.Int64Range(-1e17, 1e17).Draw(r, "mantissa")) / decimals
		check(0, decimal)
		check(0, math.Nextafter(decimal, 0))
		check(0, float64(rapid.Int64Range(-100_000, 100_000).Draw(r, "small"))/decimals)
	})
}

// FuzzText: any string becomes JSON that means it, with U+FFFD for what is no UTF-8.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "ä\"\\\n\r\t\x00\x1f", "\xff\xfe", "<script>", "\u2028", "a\xc3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := encoder{}
		e.text(s)
		var got string
		if err := json.Unmarshal(e.buf, &got); err != nil {
			t.Fatalf("%q: %v: %s", s, err, e.buf)
		}
		want := s
		if !utf8.ValidString(s) {
			want = string([]rune(s))
		}
		if got != want {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

// TestStreamed: a long answer goes out in parts, and is whole.
func TestStreamed(t *testing.T) {
	w := httptest.NewRecorder()
	e := newEncoder(w)
	list := make([]string, 50_000)
	for i := range list {
		list[i] = strings.Repeat("x", i%7)
	}
	e.begin()
	e.texts(list)
	if !e.sent || len(e.buf) > 2*encoderBytesFlush {
		t.Errorf("%d bytes wait", len(e.buf))
	}
	e.end(nil, []string{"told"})
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Data, Infos []string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Data) != len(list) || len(got.Infos) != 1 {
		t.Fatal(err, len(got.Data), got.Infos)
	}
}

// TestCompressed: long answers are compressed for those who take it, and mean the same.
func TestCompressed(t *testing.T) {
	o := labOptions(t)
	memory := o.Source.(*scantest.Memory)
	for i := range 3000 {
		put(t, memory, "", "many", []float64{float64(i)}, "n", strconv.Itoa(i))
	}
	h := New(o)
	for _, c := range []struct {
		accept, query string
		zipped        bool
	}{
		{"", "many", false}, {"deflate, gzip;q=1.0", "many", true}, {"gzip", "many", true}, {"gzip;q=0", "many", false}, {"gzip;q=0.000", "many", false}, {"br;q=0.5", "many", false}, {"br, GZIP;q=0.5", "many", true},
		{"gzip", "up", false}, {"gzip", "up(", false},
	} {
		target := "query?query=sort(" + c.query + ")"
		r := httptest.NewRequest("GET", pathPrefix+target, nil)
		r.Header.Set("Accept-Encoding", c.accept)
		got := do(h, r)
		if (got.header.Get("Content-Encoding") == "gzip") != c.zipped {
			t.Errorf("%q %s: %v", c.accept, c.query, got.header)
		}
		if c.zipped {
			reader, err := gzip.NewReader(strings.NewReader(got.body))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(reader)
			if err != nil || got.header.Get("Vary") != "Accept-Encoding" {
				t.Fatal(err, got.header)
			}
			got.body = string(body)
		}
		if want := get(h, target); got.body != want.body || got.status != want.status {
			t.Errorf("%q %s: %d %.200s", c.accept, c.query, got.status, got.body)
		}
	}
}
