package clients

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// collectorConfig has the exporters of ingest's page, behind a receiver on the loopback, quicker than people have it.
func collectorConfig(t *testing.T, receiver, web, otlp string) string {
	t.Helper()
	page, err := os.ReadFile("../../router/ingest/README.md")
	if err != nil {
		t.Fatal(err)
	}
	exporters := ""
	for _, after := range strings.Split(string(page), "```yaml\nexporters:\n")[1:] {
		exporter, _, _ := strings.Cut(after, "```")
		exporters += exporter + "    retry_on_failure: {initial_interval: 100ms, max_interval: 200ms}\n"
	}
	if !strings.Contains(exporters, "localhost:6182") || !strings.Contains(exporters, "localhost:4317") {
		t.Fatal("ingest's page has no examples of the collector's exporters")
	}
	return fmt.Sprintf(`receivers:
  otlp: {protocols: {http: {endpoint: %q}}}
exporters:
%sservice:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [otlp], exporters: [otlp_http, otlp_grpc]}}
`, receiver, strings.NewReplacer("localhost:6182", web, "localhost:4317", otlp).Replace(exporters))
}

// TestCollector: what OpenTelemetry's Collector is sent is stored, and comes again when it was refused because of
// overload.
func TestCollector(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "collector")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, ".")
	build.Dir = "collector"
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	front := newOverload(s.addresses.HTTP)
	const path = "/v1/metrics"
	front.refuse[path] = 2
	web := httptest.NewServer(front)
	defer web.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	receiver := listener.Addr().String()
	_ = listener.Close()
	config := filepath.Join(dir, "collector.yaml")
	if err := os.WriteFile(config, []byte(collectorConfig(t, receiver, strings.TrimPrefix(web.URL, "http://"), s.addresses.OTLP)), 0o600); err != nil {
		t.Fatal(err)
	}
	collector, err := harness.StartProcess(harness.ProcessOptions{
		Path: program, Args: []string{"--config", config}, LogPath: filepath.Join(dir, "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer collector.Kill()
	defer func() {
		if t.Failed() {
			t.Logf("the collector's log ends with\n%s", collector.LogTail(4096))
		}
	}()
	atMs := time.Now().Add(-time.Minute).Truncate(time.Second).UnixMilli()
	body, err := proto.Marshal(roomMetrics(atMs))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string { // until it listens; the same samples again are no others
		response, err := http.Post("http://"+receiver+path, "application/x-protobuf", bytes.NewReader(body))
		if err != nil {
			return err.Error()
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		return ""
	})
	want := map[string]stock{"room_temperature_celsius": {}, "visitors_total": {}, "target_info": {}}
	tags := map[string]string{"job": "lab", "instance": "7", "n": "1"}
	want["room_temperature_celsius"].add(seriesName("room_temperature_celsius", tags), atMs, 21.5)
	want["visitors_total"].add(seriesName("visitors_total", tags), atMs, 42)
	want["target_info"].add(seriesName("target_info", map[string]string{"job": "lab", "instance": "7", "host_name": "a"}), atMs, 1)
	for language := range readers() {
		for _, database := range []string{"metrics", "telemetry"} { // by HTTP, and by gRPC
			eventually(t, func() string {
				for metric, samples := range want {
					got, err := readers()[language](t.Context(), s, database, metric, atMs-1000, atMs+1000)
					if err != nil {
						return err.Error()
					}
					if found := difference(samples, got); found != "" {
						return fmt.Sprintf("%s, database %s, metric %s: %s", language, database, metric, found)
					}
				}
				return ""
			})
		}
	}
	if left := front.left(); len(left) > 0 {
		t.Errorf("not refused often enough: %v", left)
	}
	if err := collector.Terminate(waitMax); err != nil {
		t.Errorf("the collector: %v", err)
	}
}

// roomMetrics is a gauge and a counter of a program named lab.
func roomMetrics(atMs int64) *metricspb.MetricsData {
	pair := func(key, value string) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
	}
	points := func(value float64) []*metricspb.NumberDataPoint {
		return []*metricspb.NumberDataPoint{{
			TimeUnixNano: uint64(atMs) * 1e6, Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: value},
			Attributes: []*commonpb.KeyValue{pair("n", "1")},
		}}
	}
	return &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{pair("service.name", "lab"), pair("service.instance.id", "7"), pair("host.name", "a")}},
		ScopeMetrics: []*metricspb.ScopeMetrics{{Metrics: []*metricspb.Metric{
			{Name: "room.temperature", Unit: "Cel", Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: points(21.5)}}},
			{Name: "visitors", Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{
				IsMonotonic: true, AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, DataPoints: points(42),
			}}},
		}}},
	}}}
}
