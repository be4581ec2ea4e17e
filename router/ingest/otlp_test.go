package ingest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// otlpMetrics returns a gauge "up" of 1.5 with the tag host=a, and another that has no value.
func otlpMetrics(refused int) *metricspb.MetricsData {
	const timeNano = 1_700_000_000_000_000_000
	points := []*metricspb.NumberDataPoint{{
		TimeUnixNano: timeNano, Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: 1.5},
		Attributes: []*commonpb.KeyValue{{Key: "host", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "a"}}}},
	}}
	for range refused {
		points = append(points, &metricspb.NumberDataPoint{TimeUnixNano: timeNano})
	}
	return &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{ScopeMetrics: []*metricspb.ScopeMetrics{{
		Metrics: []*metricspb.Metric{{Name: "up", Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: points}}}},
	}}}}}
}

func TestOTLP(t *testing.T) {
	inProto := func(m proto.Message) string {
		body, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	inJSON := func(m proto.Message) string {
		body, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	const (
		path     = "/v1/metrics"
		protobuf = "Content-Type: application/x-protobuf"
		asJSON   = "Content-Type: application/json; charset=utf-8"
		one      = "up{host=a} 1700000000000 1.5"
	)
	for _, c := range []struct {
		name, raw string
		status    int
		stored    []string
		message   string // contained in the answer's message
		rejected  int
	}{
		{"protobuf", request(path, inProto(otlpMetrics(0)), protobuf), 200, []string{one}, "", 0},
		{"path of Prometheus", request("/api/v1/otlp/v1/metrics", inProto(otlpMetrics(0)), protobuf), 200, []string{one}, "", 0},
		{"gzip", request(path, gzipped(inProto(otlpMetrics(0))), protobuf, "Content-Encoding: gzip"), 200, []string{one}, "", 0},
		{"database", request(path, inProto(otlpMetrics(0)), protobuf, "X-Scope-OrgID: shop"), 200, []string{"shop/" + one}, "", 0},
		{"JSON", request(path, inJSON(otlpMetrics(0)), asJSON), 200, []string{one}, "", 0},
		{"JSON with strings for integers and unknown fields", request(path, `{"resourceMetrics":[{"x":[1],"scopeMetrics":[{"metrics":[{"name":"up","gauge":{"dataPoints":[`+
			`{"timeUnixNano":"1700000000000000000","asInt":"2","exemplars":[{"traceId":"5b8efff798038103d269b633813fc60c"}]}]}}]}]}]}`, asJSON), 200,
			[]string{"up{} 1700000000000 2"}, "", 0},
		{"partial", request(path, inProto(otlpMetrics(2)), protobuf), 200, []string{one}, "series 2: up: a data point without a value; series 3: ", 2},
		{"partial in JSON", request(path, inJSON(otlpMetrics(12)), asJSON), 200, []string{one}, "; and 2 more", 12},
		{"empty", request(path, "", protobuf), 200, nil, "", 0},
		{"not protobuf", request(path, "xxxxxxx", protobuf), 400, nil, "malformed body", 0},
		{"not JSON", request(path, "{", asJSON), 400, nil, "malformed body", 0},
		{"deep JSON", request(path, strings.Repeat(`{"resourceMetrics":[`, 100_000), asJSON), 400, nil, "malformed body", 0},
		{"long JSON", request(path, strings.Repeat(" ", otlpJSONBytesMax+1), asJSON), 413, nil, "protobuf may be longer", 0},
		{"text", request(path, "x", "Content-Type: text/plain"), 415, nil, "unknown Content-Type", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, nil)
			response, body := r.post(t, c.raw)
			if response.StatusCode != c.status {
				t.Fatalf("%d %q, want %d", response.StatusCode, body, c.status)
			}
			message, rejected := otlpAnswer(t, response, body)
			if !strings.Contains(message, c.message) || (c.message == "") != (message == "") || rejected != c.rejected {
				t.Errorf("answered %d %q, want %d %q", rejected, message, c.rejected, c.message)
			}
			equalLines(t, "stored", r.stored(), c.stored)
		})
	}
}

// otlpAnswer reads an answer with the official messages' field numbers: the message, and how many data points
// were rejected.
func otlpAnswer(t *testing.T, response *http.Response, body string) (message string, rejected int) {
	t.Helper()
	if response.Header.Get("Content-Type") == contentOTLPJSON {
		var answer struct {
			Code           int
			Message        string
			PartialSuccess struct {
				RejectedDataPoints int `json:",string"`
				ErrorMessage       string
			}
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		return answer.Message + answer.PartialSuccess.ErrorMessage, answer.PartialSuccess.RejectedDataPoints
	}
	fields := func(b []byte) (first uint64, message []byte, second string) {
		for len(b) > 0 {
			number, kind, n := protowire.ConsumeTag(b)
			value := b[max(n, 0):]
			n = protowire.ConsumeFieldValue(number, kind, value)
			if n < 0 {
				t.Fatalf("no protobuf: %q", body)
			}
			switch {
			case number == 1 && kind == protowire.VarintType:
				first, _ = protowire.ConsumeVarint(value)
			case number == 1:
				message, _ = protowire.ConsumeBytes(value)
			case number == 2:
				second, _ = protowire.ConsumeString(value)
			}
			b = value[n:]
		}
		return first, message, second
	}
	code, partial, message := fields([]byte(body))
	if response.StatusCode != http.StatusOK {
		if code == 0 {
			t.Errorf("an error without a code: %q", body)
		}
		return message, 0
	}
	n, _, message := fields(partial)
	return message, int(n)
}

// Names that are no UTF-8 are told as texts of protobuf may be: a client could not read the answer else.
func TestOTLPAnswersInUTF8(t *testing.T) {
	m := otlpMetrics(0)
	metric := m.ResourceMetrics[0].ScopeMetrics[0].Metrics[0]
	metric.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: metric.GetGauge().DataPoints}}
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, nil)
	response, text := r.post(t, request("/v1/metrics", strings.Replace(string(body), "up", "\xffp", 1), "Content-Type: application/x-protobuf"))
	if message, rejected := otlpAnswer(t, response, text); rejected != 1 || !strings.Contains(message, "series 1: \uFFFDp: ") {
		t.Errorf("answered %d %q", rejected, message)
	}
}

// payments is a parse.Memory that adds up what is asked of it.
type payments int

func (p *payments) Grow(n int) error { *p += payments(n); return nil }

// A body that is parsed once more, for the ids of its series have been forgotten, holds no more memory than before.
func TestOTLPInJSONPaysOnce(t *testing.T) {
	body, paid := []byte(`{"resourceMetrics":[]}`), payments(0)
	fl := &inFlightWrite{memory: &paid}
	for _, fl.again = range []bool{false, true} {
		if _, err := fl.otlpOfJSON(body); err != nil {
			t.Fatal(err)
		}
	}
	if want := payments(otlpJSONMemory * len(body)); paid != want {
		t.Errorf("%d bytes were paid, want %d", paid, want)
	}
}
