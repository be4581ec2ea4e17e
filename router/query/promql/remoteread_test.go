package promql

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// readAll picks every series of a metric for all of time.
func readAll(metric string) *prompb.Query {
	return &prompb.Query{StartTimestampMs: math.MinInt64, EndTimestampMs: math.MaxInt64,
		Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: nameLabel, Value: metric}}}
}

// readFrom posts a remote read.
func readFrom(t testing.TB, o Options, request *prompb.ReadRequest) answered {
	t.Helper()
	text, err := request.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return do(New(o), httptest.NewRequest("POST", pathPrefix+"read", bytes.NewReader(snappy.Encode(nil, text))))
}

// rendered writes labels and samples, with the bits of the values.
func rendered(l []prompb.Label, samples []prompb.Sample) string {
	var b strings.Builder
	for _, label := range l {
		fmt.Fprintf(&b, "%s=%s,", label.Name, label.Value)
	}
	for _, s := range samples {
		fmt.Fprintf(&b, " %d:%x", s.Timestamp, math.Float64bits(s.Value))
	}
	return b.String()
}

func samplesOf(t *testing.T, got answered) (results [][]string) {
	t.Helper()
	if got.status != 200 || got.header.Get("Content-Type") != contentProtobuf || got.header.Get("Content-Encoding") != "snappy" {
		t.Fatal(got.status, got.header)
	}
	text, err := snappy.Decode(nil, []byte(got.body))
	if err != nil {
		t.Fatal(err)
	}
	var response prompb.ReadResponse
	if err := response.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	for _, result := range response.Results {
		var list []string
		for _, series := range result.Timeseries {
			list = append(list, rendered(series.Labels, series.Samples))
		}
		results = append(results, list)
	}
	return results
}

// chunksOf reads the frames of a stream, as storage/remote/chunked.go of Prometheus does.
func chunksOf(t *testing.T, got answered, queries int) [][]string {
	t.Helper()
	if got.status != 200 || got.header.Get("Content-Type") != contentStreamed {
		t.Fatal(got.status, got.header)
	}
	results := make([][]string, queries)
	for rest := []byte(got.body); len(rest) > 0; {
		size, used := binary.Uvarint(rest)
		if used <= 0 || len(rest) < used+4+int(size) {
			t.Fatalf("a frame of %d bytes in %d", size, len(rest))
		}
		sum := binary.BigEndian.Uint32(rest[used:])
		text := rest[used+4 : used+4+int(size)]
		rest = rest[used+4+int(size):]
		if crc32.Checksum(text, castagnoli) != sum {
			t.Fatal("checksum")
		}
		var frame prompb.ChunkedReadResponse
		if err := frame.Unmarshal(text); err != nil {
			t.Fatal(err)
		}
		for _, series := range frame.ChunkedSeries {
			var samples []prompb.Sample
			for _, c := range series.Chunks {
				chunk, err := chunkenc.FromData(chunkenc.EncXOR, c.Data)
				if err != nil || c.Type != prompb.Chunk_XOR {
					t.Fatal(err, c.Type)
				}
				it := chunk.Iterator(nil)
				for it.Next() == chunkenc.ValFloat {
					at, v := it.At()
					if at < c.MinTimeMs || at > c.MaxTimeMs {
						t.Fatalf("%d is not in %d to %d", at, c.MinTimeMs, c.MaxTimeMs)
					}
					samples = append(samples, prompb.Sample{Timestamp: at, Value: v})
				}
			}
			line := rendered(series.Labels, samples)
			list := &results[frame.QueryIndex]
			if name := rendered(series.Labels, nil); len(*list) > 0 && strings.HasPrefix((*list)[len(*list)-1], name) {
				(*list)[len(*list)-1] += line[len(name):] // the series goes on
				continue
			}
			*list = append(*list, line)
		}
	}
	return results
}

// TestRemoteRead: both forms give the same, bit for bit, staleness markers included.
func TestRemoteRead(t *testing.T) {
	o := labOptions(t)
	long := make([]float64, 1000)
	for i := range long {
		long[i] = float64(i) / 7
	}
	put(t, o.Source.(*scantest.Memory), "", "long", long, "a", "b")
	request := &prompb.ReadRequest{Queries: []*prompb.Query{readAll("up"), readAll("long"), readAll("nothing"), {
		StartTimestampMs: labMs - 60_000, EndTimestampMs: labMs - 1,
		Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "job", Value: "no.e"}, {Type: prompb.LabelMatcher_NRE, Name: "instance", Value: "a.*"}, {Type: prompb.LabelMatcher_NEQ, Name: "job", Value: ""}},
	}}}
	samples := samplesOf(t, readFrom(t, o, request))
	request.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{99, prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES}
	chunks := chunksOf(t, readFrom(t, o, request), len(request.Queries))
	if fmt.Sprint(samples) != fmt.Sprint(chunks) {
		t.Fatalf("samples %s\nchunks %s", samples, chunks)
	}
	if len(samples[0]) != 2 || !strings.HasSuffix(samples[0][1], fmt.Sprintf(" %d:%x", int64(labMs), value.StaleNaN)) ||
		strings.Count(samples[1][0], ":") != len(long) || len(samples[2]) != 0 ||
		fmt.Sprint(samples[3]) != fmt.Sprintf("[__name__=up,instance=b:9100,job=node, %d:%x]", int64(labMs-60_000), math.Float64bits(1)) {
		t.Error(samples[0], samples[2:])
	}
	for _, c := range []struct {
		request *prompb.ReadRequest
		text    string
	}{
		{&prompb.ReadRequest{AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{99}}, "response types"},
		{&prompb.ReadRequest{Queries: []*prompb.Query{{Matchers: []*prompb.LabelMatcher{{Type: 99}}}}}, "invalid matcher type"},
		{&prompb.ReadRequest{Queries: []*prompb.Query{{Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Value: "("}}}}}, "missing closing"},
	} {
		if got := readFrom(t, o, c.request); got.status != 400 || !strings.Contains(got.body, c.text) {
			t.Error(got)
		}
	}
}

// FuzzRemoteRead: no body makes the handler fail otherwise than by an answer.
func FuzzRemoteRead(f *testing.F) {
	for _, request := range []*prompb.ReadRequest{
		{}, {Queries: []*prompb.Query{readAll("up")}},
		{Queries: []*prompb.Query{readAll("up")}, AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}},
	} {
		text, err := request.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(snappy.Encode(nil, text))
		f.Add(text)
	}
	o := labOptions(f)
	h := New(o)
	f.Fuzz(func(t *testing.T, body []byte) {
		got := do(h, httptest.NewRequest("POST", pathPrefix+"read", bytes.NewReader(body)))
		if got.status != 200 && got.status != 400 && got.status != 413 {
			t.Fatalf("%x: %v", body, got)
		}
	})
}

// FuzzParameters: no parameters make the handler fail otherwise than by an answer.
func FuzzParameters(f *testing.F) {
	for _, s := range []string{"query=up", "query=rate(up[5m])&start=1&end=2&step=1", "query=up&time=1e300&timeout=1y&limit=99999999999999999999",
		"match[]=up&start=-inf&end=nan", "query=up%00&lookback_delta=-1", "%zz", "start=-9223372036854775.808&end=0&step=1e9&query=up", "query=up[1y:1ms]&limit=1"} {
		f.Add(s)
	}
	o := labOptions(f)
	o.SamplesMax = 1000
	h := New(o)
	f.Fuzz(func(t *testing.T, parameters string) {
		if strings.Count(parameters, ":") > 2 || strings.Count(parameters, "%3A") > 1 {
			return // subqueries in subqueries take long, as they should
		}
		for _, path := range []string{"query", "query_range", "series", "labels", "label/a/values", "parse_query", "format_query", "metadata", "query_exemplars", "status/tsdb", "rules", "alerts", "targets/metadata"} {
			r := httptest.NewRequest("GET", pathPrefix+path, nil)
			r.URL.RawQuery = parameters + "&timeout=100ms"
			got := do(h, r)
			if got.status != 200 && got.status != 400 && got.status != 422 && got.status != 503 {
				t.Fatalf("%s?%s: %v", path, parameters, got)
			}
			if !strings.HasPrefix(got.body, `{"status":`) || !strings.HasSuffix(got.body, "}") {
				t.Fatalf("%s?%s: %s", path, parameters, got.body)
			}
		}
	})
}

// FuzzRuleFilter: what a request for rules asks for is refused, or within its bounds.
func FuzzRuleFilter(f *testing.F) {
	for _, s := range []string{"type=ALERT&rule_name[]=a&group_limit=2&exclude_alerts=TRUE", "match[]={a=~\"b.*\"}&match[]=up", "group_limit=-1", "group_next_token=x", "match[]=(((", "group_limit=2147483648"} {
		f.Add(s)
	}
	h := newHandler(labOptions(f))
	f.Fuzz(func(t *testing.T, parameters string) {
		form, err := url.ParseQuery(parameters)
		if err != nil {
			return
		}
		got, err := h.ruleFilterOf(form)
		if err == nil && (got.groupsMax < 0 || got.groupsMax > math.MaxInt32 || got.kind != "" && got.kind != "alert" && got.kind != "record") {
			t.Fatalf("%q: %+v", parameters, got)
		}
	})
}
