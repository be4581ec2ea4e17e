package ingest

import (
	"math"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/scan"
)

// Messages by hand: https://prometheus.io/docs/specs/prw/

type sample struct {
	value  float64
	timeMs int64
}

// field appends a field of bytes.
func field(dst []byte, number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), content)
}

func samplesOf(dst []byte, samples []sample) []byte {
	for _, s := range samples {
		one := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(s.value))
		one = protowire.AppendVarint(protowire.AppendTag(one, 2, protowire.VarintType), uint64(s.timeMs))
		dst = field(dst, 2, one)
	}
	return dst
}

// series1 is a TimeSeries of 1.0 as a field of its WriteRequest.
func series1(labels []string, samples ...sample) []byte {
	var b []byte
	for i := 0; i < len(labels); i += 2 {
		b = field(b, 1, field(field(nil, 1, []byte(labels[i])), 2, []byte(labels[i+1])))
	}
	return field(nil, 1, samplesOf(b, samples))
}

func block(messages ...[]byte) string {
	var b []byte
	for _, m := range messages {
		b = append(b, m...)
	}
	return string(snappy.Encode(nil, b))
}

// Native histograms are refused in words that say what to do, and counted; the samples beside them are written.
func TestNativeHistograms(t *testing.T) {
	histogram := protowire.AppendFixed64(protowire.AppendTag(nil, 3, protowire.Fixed64Type), math.Float64bits(2))
	one := field(field(nil, 1, field(field(nil, 1, []byte("__name__")), 2, []byte("h"))), 4, histogram)
	v1 := block(field(nil, 1, field(one, 4, histogram)), series1([]string{"__name__", "up"}, sample{1, 1000}))
	var symbols []byte
	for _, symbol := range []string{"", "__name__", "h"} {
		symbols = field(symbols, 4, []byte(symbol))
	}
	v2 := block(field(symbols, 5, field(field(nil, 1, []byte{1, 2}), 3, histogram)))
	for _, c := range []struct {
		raw     string
		refused float64
		stored  []string
	}{
		{request("/api/v1/write", v1), 2, []string{"up{} 1000 1"}},
		{request("/api/v1/write", v2, "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request"), 1, nil},
	} {
		r := start(t, nil)
		response, body := r.post(t, c.raw)
		if response.StatusCode != 400 || !strings.Contains(body, "native histograms are not stored") || !strings.Contains(body, "always_scrape_classic_histograms: true") {
			t.Errorf("%d %s", response.StatusCode, body)
		}
		equalLines(t, "stored", r.stored(), c.stored)
		if n := r.metric(t, "tickmesh_ingest_native_histograms_refused_total"); n != c.refused {
			t.Errorf("%v are counted, not %v", n, c.refused)
		}
	}
}

func TestRemoteWrite(t *testing.T) {
	stale := math.Float64frombits(0x7ff0000000000002)
	v1 := block(
		series1([]string{"__name__", "up", "job", "a"}, sample{1, 1000}, sample{stale, 2000}),
		series1([]string{"__name__", "x", "job", "b"}, sample{2.5, 1000}))
	nameless := block(
		series1([]string{"job", "a"}, sample{1, 1000}),
		series1([]string{"__name__", "x"}, sample{2, 1000}))
	const timeMsMax = scan.TimeMsMax
	unreachable := series1([]string{"__name__", "up", "job", "a"}, sample{1, 1000}, sample{2, timeMsMax + 1}, sample{3, timeMsMax})
	var message2 []byte
	for _, symbol := range []string{"", "__name__", "up", "job", "a"} {
		message2 = field(message2, 4, []byte(symbol))
	}
	v2 := block(field(message2, 5, samplesOf(field(nil, 1, []byte{1, 2, 3, 4}), []sample{{7, 3000}})))
	const (
		type1   = "Content-Type: application/x-protobuf"
		type2   = "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request"
		encoded = "Content-Encoding: snappy"
	)
	for _, c := range []struct {
		name, raw, written, body string
		status, points           int
	}{
		{"1.0", request("/api/v1/write", v1, type1, encoded, "X-Prometheus-Remote-Write-Version: 0.1.0"), "3", "", 204, 3},
		{"1.0 named", request("/api/v1/write", v1, type1+"; proto=prometheus.WriteRequest", encoded), "3", "", 204, 3},
		{"1.0 bare", request("/api/v1/write", v1), "3", "", 204, 3},
		{"2.0", request("/api/v1/write", v2, type2, encoded, "X-Prometheus-Remote-Write-Version: 2.0.0"), "1", "", 204, 1},
		{"no name", request("/api/v1/write", nameless, type1, encoded), "1", "series 1: ", 400, 1},
		{"times that no query reaches", request("/api/v1/write", block(unreachable), type1, encoded), "2", "series 1: out of bounds: 1 refused, the first of them sample 2 at 23", 400, 2},
		{"not snappy", request("/api/v1/write", "xxxxxxx", type1, encoded), "0", "the request's body cannot be decompressed", 400, 0},
		{"not protobuf", request("/api/v1/write", string(snappy.Encode(nil, []byte("xxxxxxx"))), type1, encoded), "0", "malformed body", 400, 0},
		{"zstd", request("/api/v1/write", v1, type1, "Content-Encoding: zstd"), "0", "unknown Content-Encoding", 415, 0},
		{"JSON", request("/api/v1/write", v1, "Content-Type: application/json", encoded), "0", "unknown Content-Type", 415, 0},
		{"3.0", request("/api/v1/write", v1, type1+";proto=io.prometheus.write.v3.Request", encoded), "0", "unknown Content-Type", 415, 0},
		{"a snappy bomb", request("/api/v1/write", "\xff\xff\xff\xff\x0f\x00", type1, encoded), "0", "the request's body", 413, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, nil)
			response, body := r.post(t, c.raw)
			if response.StatusCode != c.status || !strings.HasPrefix(body, c.body) || (c.body == "") != (body == "") {
				t.Errorf("%d %q, want %d %q", response.StatusCode, body, c.status, c.body)
			}
			for name, want := range map[string]string{headerSamplesWritten: c.written, headerHistogramsWritten: "0", headerExemplarsWritten: "0"} {
				if got := response.Header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if got := r.total(); got != c.points {
				t.Errorf("%d points stored, want %d", got, c.points)
			}
			if c.points == 3 && math.Float64bits(r.value("up{job=a}", 2000)) != math.Float64bits(stale) {
				t.Errorf("the stale marker became %x", math.Float64bits(r.value("up{job=a}", 2000)))
			}
		})
	}
}

// TestReplicaLabel: what both of a pair send is one series; other dialects keep the label.
func TestReplicaLabel(t *testing.T) {
	r := start(t, func(o *Options) { o.ReplicaLabel = "replica" })
	pair := block(
		series1([]string{"__name__", "up", "job", "a", "replica", "0"}, sample{1, 1000}),
		series1([]string{"__name__", "up", "job", "a", "replica", "1"}, sample{2, 2000}),
		series1([]string{"__name__", "x", "job", "b"}, sample{3, 1000}))
	for target, sent := range map[string]string{"/api/v1/write": pair, "/api/v1/write?extra_label=dc=b": pair, "/write?precision=ms": "up,job=a,replica=2 value=4 1000\n"} {
		if response, body := r.post(t, request(target, sent)); response.StatusCode != 204 {
			t.Fatalf("%s: %d %s", target, response.StatusCode, body)
		}
	}
	for _, want := range []struct {
		key    string
		timeMs int64
		value  float64
	}{
		{"up{job=a}", 1000, 1}, {"up{job=a}", 2000, 2}, {"x{job=b}", 1000, 3}, {"up{dc=b,job=a}", 1000, 1}, {"up{dc=b,job=a}", 2000, 2}, {"up{job=a,replica=2}", 1000, 4},
	} {
		if got := r.value(want.key, want.timeMs); got != want.value {
			t.Errorf("%s is %v at %d ms, want %v", want.key, got, want.timeMs, want.value)
		}
	}
	if got := r.total(); got != 7 {
		t.Errorf("%d points, want 7", got)
	}
	extra, err := parse.NewExtraLabels([]string{"replica=kept"})
	if err != nil {
		t.Fatal(err)
	}
	if same := extra.Without("replica"); string(same.Text()) != string(extra.Text()) {
		t.Error("a label that the request gives is taken away")
	}
}
