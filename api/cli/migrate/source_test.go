package migrate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/tickmesh/tickmesh/api/client"
)

// fake answers every question by the same text.
func fake(t *testing.T, kind, contentType string, status int, text string) Source {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	o := SourceOptions{Address: server.URL}
	if kind == "influxdb" {
		o.Database = "d"
	}
	s, err := Open(kind, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns what a source reads, as text.
func read(ctx context.Context, s Source, fromMs, toMs int64) (string, LeftOut, error) {
	var all []string
	leftOut, err := s.Read(ctx, "m", fromMs, toMs, func(r Run) error {
		for i, ms := range r.TimesMs {
			all = append(all, fmt.Sprintf("%v@%d=%v", r.Series, ms, r.Values[i]))
		}
		return nil
	})
	return strings.Join(all, " "), leftOut, err
}

// TestAnswers reads answers as the databases document them, and such as they must not be.
func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		kind, text string
		status     int
		want       string
		leftOut    LeftOut
		err        error // a mark; nil with fails: none
		fails      string
	}{
		{kind: "victoriametrics", text: `{"metric":{"__name__":"m","a":"b"},"values":[1,null],"timestamps":[5,6]}` + "\n" + `{"metric":{"__name__":"m"},"values":[2],"timestamps":[5]}` + "\n",
			want: "m{a=b}@5=1 m{a=b}@6=NaN m{}@5=2"},
		{kind: "victoriametrics", text: `{"metric":{"__name__":"m"},"values":[1],"times`, fails: "cannot be read"},
		{kind: "victoriametrics", status: 422, text: "cannot export: exceeded -search.maxExportSeries", err: errTooMuch, fails: "422"},
		{kind: "victoriametrics", status: 503, text: "busy", err: errTemporary, fails: `503: "busy"`},
		{kind: "victoriametrics", status: 401, text: "who?", fails: `401: "who?"`},
		{kind: "opentsdb", text: `[{"metric":"m","tags":{"h":"a"},"aggregateTags":[],"dps":{"4":0,"5":1,"6":2.5,"11":9}},{"dps":{"7":"NaN"},"metric":"m","tags":{}}]`,
			want: "m{h=a}@5=1 m{h=a}@6=2.5 m{}@7=NaN"},
		{kind: "victoriametrics", status: 429, text: "Too Many Requests", err: errTemporary, fails: "429"},
		{kind: "victoriametrics", status: 403, text: "limit of failed sign-ins exceeded", fails: "403"},
		{kind: "opentsdb", text: `[{"metric":"other","tags":{},"dps":{"5":1}}]`, fails: "was asked for"},
		{kind: "influxdb", text: `{"results":[{"series":[{"name":"m","columns":["time","value"],"values":[[5000000,1]],"partial":true}],"partial":true}]}`, err: errTooMuch, fails: "announces more"},
		{kind: "opentsdb", text: `[]`},
		{kind: "opentsdb", text: `[{"metric":"m","tags":{},"dps":{"5":1`, err: errTemporary, fails: "broke off"},
		{kind: "opentsdb", text: `[{"metric":"m","tags":{},"dps":{"5":[]}}]`, fails: "cannot be read"},
		{kind: "opentsdb", text: `{"error":{}}`, fails: "cannot be read"},
		{kind: "opentsdb", text: `[{"metric":"m","tags":{"":"x"},"dps":{"5":1}}]`, leftOut: LeftOut{Series: 1}},
		{kind: "influxdb", text: `{"results":[{"statement_id":0,"series":[{"name":"m","tags":{"h":"a","g":""},"columns":["time","value","x","on","text"],"values":[` +
			`[5000000,1,null,true,"a"],[5999999,2,7,false,null]],"partial":true}],"partial":true}]}` + "\n" +
			`{"results":[{"statement_id":0,"series":[{"name":"m","tags":{"h":"a","g":""},"columns":["time","value","x","on","text"],"values":[[6000000,3,8,null,null]]}]}]}` + "\n",
			want: "m{h=a}@5=2 m{_field=on,h=a}@5=0 m{h=a}@6=3 m{_field=x,h=a}@5=7 m{_field=x,h=a}@6=8", leftOut: LeftOut{Texts: 1, Repeated: 2}},
		{kind: "influxdb", text: `{"results":[{"statement_id":0,"error":"max-select-point limit exceeed: (3/2)"}]}`, err: errTooMuch, fails: "max-select-point"},
		{kind: "influxdb", text: `{"results":[{"series":[{"name":"m","columns":["time","value"],"values":[[1]]}]}]}`, fails: "cannot be read"},
		{kind: "influxdb", text: `{"results":[{"series":[{"name":"m","colu`, err: errTemporary, fails: "broke off"},
	} {
		if test.status == 0 {
			test.status = http.StatusOK
		}
		got, leftOut, err := read(t.Context(), fake(t, test.kind, "application/json", test.status, test.text), 5, 10)
		if test.fails != "" {
			if err == nil || !strings.Contains(err.Error(), test.fails) || test.err != nil && !errors.Is(err, test.err) ||
				test.err == nil && (errors.Is(err, errTemporary) || errors.Is(err, errTooMuch)) {
				t.Errorf("%s %q: %v, want %q", test.kind, test.text, err, test.fails)
			}
			continue
		}
		if err != nil || sorted(got) != sorted(test.want) || leftOut != test.leftOut {
			t.Errorf("%s %q: %v\n got %s %+v\nwant %s %+v", test.kind, test.text, err, got, leftOut, test.want, test.leftOut)
		}
	}
}

// sorted sorts samples: fields of a row come in any order.
func sorted(text string) string {
	fields := strings.Fields(text)
	for i := range fields {
		for j := i; j > 0 && fields[j] < fields[j-1]; j-- {
			fields[j], fields[j-1] = fields[j-1], fields[j]
		}
	}
	return strings.Join(fields, " ")
}

// streamed returns frames of remote read, each with the chunks of one series.
func streamed(t interface{ Fatal(...any) }, list ...*prompb.ChunkedSeries) []byte {
	var out []byte
	for _, s := range list {
		message, err := (&prompb.ChunkedReadResponse{ChunkedSeries: []*prompb.ChunkedSeries{s}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out = binary.AppendUvarint(out, uint64(len(message)))
		out = binary.BigEndian.AppendUint32(out, crc32.Checksum(message, crc32.MakeTable(crc32.Castagnoli)))
		out = append(out, message...)
	}
	return out
}

func xorChunk(t interface{ Fatal(...any) }, fromMs int64, values ...float64) prompb.Chunk {
	chunk := chunkenc.NewXORChunk()
	a, err := chunk.Appender()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		a.Append(0, fromMs+int64(i), v)
	}
	return prompb.Chunk{MinTimeMs: fromMs, MaxTimeMs: fromMs + int64(len(values)) - 1, Type: prompb.Chunk_XOR, Data: chunk.Bytes()}
}

func labelsOf(pairs ...string) (all []prompb.Label) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, prompb.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	return all
}

// TestRemoteRead reads both kinds of answers; chunks reach beyond the range.
func TestRemoteRead(t *testing.T) {
	text := streamed(t,
		&prompb.ChunkedSeries{Labels: labelsOf("__name__", "m", "a", "b"), Chunks: []prompb.Chunk{xorChunk(t, 3, 1, 2, 3), xorChunk(t, 6, 4)}},
		&prompb.ChunkedSeries{Labels: labelsOf("__name__", "m", "a", "b"), Chunks: []prompb.Chunk{xorChunk(t, 9, 5, math.Inf(1), 6)}},
		&prompb.ChunkedSeries{Labels: labelsOf("__name__", "m", "empty", ""), Chunks: []prompb.Chunk{xorChunk(t, 100, 1), xorChunk(t, 7, 0.5)}})
	const contentStreamed = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
	got, leftOut, err := read(t.Context(), fake(t, "prometheus", contentStreamed, 200, string(text)), 5, 10)
	if want := "m{a=b}@5=3 m{a=b}@6=4 m{a=b}@9=5 m{a=b}@10=+Inf m{}@7=0.5"; err != nil || got != want || leftOut != (LeftOut{}) {
		t.Errorf("%v %s %+v", err, got, leftOut)
	}
	for _, bad := range []string{string(text[:len(text)-1]), "x", string(bytes.Replace(text, []byte("__name__"), []byte("__nope__"), 1))} {
		if _, _, err := read(t.Context(), fake(t, "prometheus", contentStreamed, 200, bad), 5, 10); !errors.Is(err, errTemporary) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	message, err := (&prompb.ReadResponse{Results: []*prompb.QueryResult{{Timeseries: []*prompb.TimeSeries{
		{Labels: labelsOf("__name__", "m"), Samples: []prompb.Sample{{Timestamp: 4, Value: 1}, {Timestamp: 5, Value: 2}}, Histograms: make([]prompb.Histogram, 3)},
	}}}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, leftOut, err = read(t.Context(), fake(t, "prometheus", "application/x-protobuf", 200, string(snappy.Encode(nil, message))), 5, 10)
	if err != nil || got != "m{}@5=2" || leftOut != (LeftOut{Histograms: 3}) {
		t.Errorf("%v %s %+v", err, got, leftOut)
	}
}

// A password goes to nobody who could be listened to, and only where it was allowed.
func TestCredentials(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:9090": true, "localhost:9090": true, "https://far:9090": true, "http://far:9090": false, "far:9090": false,
	} {
		if _, err := Open("prometheus", SourceOptions{Address: address, User: "u", Password: "p"}); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, bad := range []string{"", "ftp://x", "http://u:p@far", "http://", "http://x?y=z"} {
		if _, err := Open("prometheus", SourceOptions{Address: bad}); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestOnce(t *testing.T) {
	a, b := client.MustSeries("a"), client.MustSeries("b")
	var got []string
	o := once{visit: func(r Run) error {
		for i, ms := range r.TimesMs {
			got = append(got, fmt.Sprintf("%v@%d=%v", r.Series, ms, r.Values[i]))
		}
		return nil
	}}
	for _, r := range []Run{{a, []int64{1, 1, 2}, []float64{1, 2, 3}}, {client.MustSeries("a"), []int64{2, 3}, []float64{4, 5}}, {b, []int64{3}, []float64{6}}} {
		if err := o.Visit(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.End(); err != nil {
		t.Fatal(err)
	}
	if want := "a{}@1=2 a{}@2=4 a{}@3=5 b{}@3=6"; strings.Join(got, " ") != want || o.repeated != 2 {
		t.Errorf("%q, %d", got, o.repeated)
	}
}

// FuzzAnswers reads anything as the answer of each kind.
func FuzzAnswers(f *testing.F) {
	f.Add(streamed(f, &prompb.ChunkedSeries{Labels: labelsOf("__name__", "m"), Chunks: []prompb.Chunk{xorChunk(f, 5, 1, 2)}}))
	f.Add([]byte(`[{"metric":"m","tags":{"h":"a"},"dps":{"5":1}}]`))
	f.Add([]byte(`{"results":[{"series":[{"name":"m","tags":{"h":"a"},"columns":["time","value"],"values":[[5000000,1]]}]}]}`))
	f.Add([]byte(`{"metric":{"__name__":"m"},"values":[1],"timestamps":[5]}`))
	kinds := map[string]http.Header{
		"prometheus": {"Content-Type": {"application/x-streamed-protobuf"}}, "": {"Content-Type": {"application/x-protobuf"}}, "victoriametrics": {}, "influxdb": {}, "opentsdb": {},
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for kind, header := range kinds {
			if kind == "" {
				kind = "prometheus"
			}
			s, err := Open(kind, SourceOptions{Address: "localhost", Database: map[string]string{"influxdb": "d"}[kind]})
			if err != nil {
				t.Fatal(err)
			}
			webOf(s).client.Transport = answered{text, header}
			_, _ = s.Read(t.Context(), "m", 0, 10, func(r Run) error {
				if len(r.TimesMs) == 0 || len(r.TimesMs) != len(r.Values) || r.Series == nil {
					t.Fatalf("%+v", r)
				}
				return nil
			})
		}
	})
}

func webOf(s Source) *web {
	switch s := s.(type) {
	case prometheus:
		return s.web
	case victoriaMetrics:
		return s.web
	case influxDB:
		return s.web
	case openTSDB:
		return s.web
	}
	return nil
}

// answered answers without a connection.
type answered struct {
	text   []byte
	header http.Header
}

// RoundTrip implements http.RoundTripper.
func (a answered) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.text))}, nil
}

// Credentials and the body of a question stay with the host that was named.
func TestRedirects(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for _, kind := range []string{"prometheus", "victoriametrics"} {
			server := httptest.NewServer(http.RedirectHandler(other.URL, status))
			s, err := Open(kind, SourceOptions{Address: server.URL, Token: "secret"})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = read(t.Context(), s, 5, 10)
			server.Close()
			if err == nil || !strings.Contains(err.Error(), "redirects are not followed") || errors.Is(err, errTemporary) || reached {
				t.Errorf("%s %d: %v, reached %v", kind, status, err, reached)
			}
		}
	}
}

// What no connection was made to may answer another time; what is somebody else never becomes trusted.
func TestConnections(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	for _, want := range []bool{false, true} {
		s, err := Open("prometheus", SourceOptions{Address: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(t.Context(), s, 5, 10); err == nil || errors.Is(err, errTemporary) != want {
			t.Errorf("temporary is not %v: %v", want, err)
		}
		server.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := read(ctx, fake(t, "prometheus", "", 200, ""), 5, 10); err == nil || errors.Is(err, errTemporary) {
		t.Errorf("given up, but temporary: %v", err)
	}
}

// An address that has a password in it is not shown, whatever is wrong with it.
func TestAddressIsNotShown(t *testing.T) {
	for _, bad := range []string{"ftp://u:secret@far", "http://u:se%zzcret@far", "http://u:secret@far?x", "u:secret@far", "http://u:secret@far"} {
		if _, err := Open("prometheus", SourceOptions{Address: bad}); !errors.Is(err, ErrOptions) || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A list that is no success, or not whole, is no list: what it lacks would be missed without a word.
func TestNames(t *testing.T) {
	many := `{"status":"success","data":["m"` + strings.Repeat(`,"m"`, victoriaNamesMax-1) + `]}`
	for text, fails := range map[string]string{
		`{"status":"success","data":["b","a"]}`: "",
		`{}`:                                    "status",
		`{"status":"error","error":"x"}`:        "status",
		`{"status":"success","data":["a"],"warnings":["cut off"]}`: "not whole",
		`{"status":"success","data":["a"],"isPartial":true}`:       "not whole",
		many: "maxTagValues",
	} {
		names, err := fake(t, "victoriametrics", "application/json", 200, text).Names(t.Context(), 0, 1)
		if fails == "" && (err != nil || strings.Join(names, " ") != "a b") || fails != "" && (err == nil || !strings.Contains(err.Error(), fails)) {
			t.Errorf("%.80s: %v %v", text, names, err)
		}
	}
}

// Chunks of histograms are counted without their buckets, of which few bytes may name any number; those that reach
// beyond the range count by their share.
func TestHistogramChunks(t *testing.T) {
	const contentStreamed = "application/x-streamed-protobuf"
	for _, test := range []struct {
		chunk prompb.Chunk
		want  int64
	}{
		{prompb.Chunk{MinTimeMs: 5, MaxTimeMs: 10, Type: prompb.Chunk_HISTOGRAM, Data: []byte{0, 120}}, 120},
		{prompb.Chunk{MinTimeMs: 0, MaxTimeMs: 10, Type: prompb.Chunk_FLOAT_HISTOGRAM, Data: []byte{0, 120, 255, 255}}, 60},
		{prompb.Chunk{MinTimeMs: 7, MaxTimeMs: 7, Type: prompb.Chunk_HISTOGRAM_ST, Data: []byte{0, 1}}, 1},
		{prompb.Chunk{MinTimeMs: math.MinInt64, MaxTimeMs: math.MaxInt64, Type: prompb.Chunk_HISTOGRAM, Data: []byte{0, 9}}, 1},
	} {
		text := streamed(t, &prompb.ChunkedSeries{Labels: labelsOf("__name__", "m"), Chunks: []prompb.Chunk{test.chunk}})
		if _, leftOut, err := read(t.Context(), fake(t, "prometheus", contentStreamed, 200, string(text)), 5, 10); err != nil || leftOut.Histograms != test.want {
			t.Errorf("%+v: %v %+v", test.chunk, err, leftOut)
		}
	}
}

// FuzzChunk reads anything as a chunk of any kind: checksums keep FuzzAnswers from there.
func FuzzChunk(f *testing.F) {
	for kind := range int32(8) {
		f.Add(kind, xorChunk(f, 5, 1, 2).Data)
		f.Add(kind, []byte{255, 255})
	}
	f.Fuzz(func(_ *testing.T, kind int32, data []byte) {
		r := remoteReading{toMs: 10, visit: func(Run) error { return nil }}
		_ = r.chunkedSeries(&prompb.ChunkedSeries{Labels: labelsOf("__name__", "m"), Chunks: []prompb.Chunk{{MaxTimeMs: 10, Type: prompb.Chunk_Encoding(kind), Data: data}}})
	})
}

// endless answers with a text, and then another for as long as somebody reads.
type endless struct{ first, text string }

// RoundTrip implements http.RoundTripper.
func (e endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader(e.first), &repeated{e.text}))}, nil
}

type repeated struct{ text string }

// Read implements io.Reader.
func (r *repeated) Read(to []byte) (int, error) {
	n := copy(to, r.text)
	for n >= len(r.text) && n < len(to)/len(r.text)*len(r.text) {
		n += copy(to[n:len(to)/len(r.text)*len(r.text)], to[:n])
	}
	return n, nil
}

// TestEndless: nobody holds an answer that does not end, nor a piece of it.
func TestEndless(t *testing.T) {
	for _, test := range []struct{ kind, first, text string }{
		{"victoriametrics", "", "1"}, {"influxdb", "", " "}, {"influxdb", `{"results":"`, "x"}, {"opentsdb", "", " "}, {"opentsdb", `[{"metric":"`, "x"},
		{"opentsdb", `[{"other":[0`, ",1"}, {"opentsdb", `[{"tags":{"a":"`, "x"}, {"opentsdb", `[{"dps":{"5":1`, " "},
	} {
		s, err := Open(test.kind, SourceOptions{Address: "localhost", Database: map[string]string{"influxdb": "d"}[test.kind]})
		if err != nil {
			t.Fatal(err)
		}
		webOf(s).pieceBytesMax = 1 << 20
		webOf(s).client.Transport = endless{test.first, test.text}
		if _, _, err := read(t.Context(), s, 5, 10); !errors.Is(err, errTooMuch) {
			t.Errorf("%s %s%s…: %v", test.kind, test.first, test.text, err)
		}
	}
}

// TestBrokenOff cuts the connection in the middle of a line.
func TestBrokenOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"metric":{"__name__":"m"},"values":[1],"timestamps":[5]}`+"\n"+`{"metric":{"__na`)
	}))
	defer server.Close()
	s, err := Open("victoriametrics", SourceOptions{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := read(t.Context(), s, 5, 10); !errors.Is(err, errTemporary) || got != "m{}@5=1" {
		t.Errorf("%s %v", got, err)
	}
}

// TestRangeOfOneMillisecond has an OpenTSDB that refuses, as the real one does, a range whose end is its start, which the
// last step of an import is when its end is a whole number of steps.
func TestRangeOfOneMillisecond(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, startErr := strconv.ParseInt(r.FormValue("start"), 10, 64)
		end, endErr := strconv.ParseInt(r.FormValue("end"), 10, 64)
		if startErr != nil || endErr != nil || end <= start {
			http.Error(w, `{"error":{"code":400,"message":"End time must be greater than the start time"}}`, http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `[{"metric":"m","tags":{"h":"a"},"aggregateTags":[],"dps":{"5":1,"6":2}}]`)
	}))
	defer server.Close()
	s, err := Open("opentsdb", SourceOptions{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := read(t.Context(), s, 5, 5); err != nil || got != "m{h=a}@5=1" {
		t.Errorf("%s %v", got, err)
	}
}
