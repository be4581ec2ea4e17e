package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/secret"
)

// startForOTLP starts a server that serves HTTP and OTLP only, and returns where.
func startForOTLP(t *testing.T, arguments ...string) (http, otlp string) {
	t.Helper()
	s := startProcess(t, 0, append([]string{"standalone", "--data-dir", t.TempDir(), "--http-addr", "127.0.0.1:0", "--put-addr", "", "--line-addr", "",
		"--grpc-addr", "", "--otlp-grpc-addr", "127.0.0.1:0"}, arguments...)...)
	address := func(port string) string {
		return fmt.Sprint(s.waitLog("listening", func(line map[string]any) bool { return line["port"] == port })["address"])
	}
	t.Cleanup(func() {
		s.signal(syscall.SIGTERM)
		if code := s.wait().ExitCode(); code != 0 {
			t.Errorf("the server ended with code %d", code)
		}
	})
	return address("http"), address("otlp")
}

// asked returns the values of an expression's series, by their labels as JSON has them.
func asked(t *testing.T, address, expression string) map[string]string {
	t.Helper()
	response, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(expression))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range answer.Data.Result {
		labels, _ := json.Marshal(r.Metric)
		all[string(labels)] = fmt.Sprint(r.Value[1])
	}
	return all
}

// exported are a counter and a histogram of a temporality, as the SDK hands them to its exporter.
func exported(temporality metricdata.Temporality) *metricdata.ResourceMetrics {
	begin, now, of := time.Now().Add(-time.Minute), time.Now(), attribute.NewSet(attribute.String("path", "/"))
	return &metricdata.ResourceMetrics{
		Resource: resource.NewSchemaless(attribute.String("service.name", "shop")),
		ScopeMetrics: []metricdata.ScopeMetrics{{Metrics: []metricdata.Metrics{
			{Name: "http.requests", Unit: "1", Data: metricdata.Sum[int64]{
				Temporality: temporality, IsMonotonic: true,
				DataPoints: []metricdata.DataPoint[int64]{{Attributes: of, StartTime: begin, Time: now, Value: 42}},
			}},
			{Name: "room.temperature", Unit: "Cel", Data: metricdata.Gauge[float64]{
				DataPoints: []metricdata.DataPoint[float64]{{Attributes: of, Time: now, Value: 21.5}},
			}},
			{Name: "latency", Unit: "s", Data: metricdata.Histogram[float64]{
				Temporality: temporality,
				DataPoints: []metricdata.HistogramDataPoint[float64]{{
					Attributes: of, StartTime: begin, Time: now, Count: 3, Sum: 1.5, Bounds: []float64{0.5}, BucketCounts: []uint64{2, 1},
				}},
			}},
		}}},
	}
}

// OpenTelemetry's own exporter writes over gRPC, plain and compressed, to the database that its header names.
func TestOTLPExporter(t *testing.T) {
	web, otlp := startForOTLP(t)
	for database, options := range map[string][]otlpmetricgrpc.Option{
		"":      nil,
		"other": {otlpmetricgrpc.WithCompressor("gzip"), otlpmetricgrpc.WithHeaders(map[string]string{"X-Scope-OrgID": "other"})},
	} {
		exporter, err := otlpmetricgrpc.New(t.Context(), append(options, otlpmetricgrpc.WithEndpoint(otlp), otlpmetricgrpc.WithInsecure())...)
		if err != nil {
			t.Fatal(err)
		}
		var _ sdk.Exporter = exporter
		if err := exporter.Export(t.Context(), exported(metricdata.CumulativeTemporality)); err != nil {
			t.Fatal(err)
		}
		err = exporter.Export(t.Context(), exported(metricdata.DeltaTemporality))
		if err == nil || !strings.Contains(err.Error(), "deltatocumulative") || !strings.Contains(err.Error(), "2 metric data points rejected") {
			t.Errorf("delta temporality: %v", err)
		}
		if err := exporter.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		path := web
		if database != "" {
			path = web + "/db/" + database
		}
		for expression, want := range map[string]string{
			"http_requests_total": "42", "room_temperature_celsius": "21.5", "latency_seconds_count": "3", `latency_seconds_bucket{le="0.5"}`: "2",
		} {
			got := asked(t, path, expression)
			for labels, value := range got {
				if !strings.Contains(labels, `"job":"shop"`) || !strings.Contains(labels, `"path":"/"`) || value != want {
					t.Errorf("%s in %q: %s = %s", expression, database, labels, value)
				}
			}
			if len(got) != 1 {
				t.Errorf("%s in %q: %v", expression, database, got)
			}
		}
	}
}

// Those who may not write are told by the status of the call, and nothing of theirs is stored.
func TestOTLPSignIn(t *testing.T) {
	text := "users:\n"
	for name, right := range map[string]string{"writer": "write", "reader": "read"} {
		text += fmt.Sprintf("  - {name: %s, tokens: [%s], rights: {default: %s}}\n", name, secret.DigestOf(name).String(), right)
	}
	_, otlp := startForOTLP(t, "--auth-file", writeText(t, text))
	for token, want := range map[string]codes.Code{"": codes.Unauthenticated, "wrong": codes.Unauthenticated, "reader": codes.PermissionDenied, "writer": codes.OK} {
		options := []otlpmetricgrpc.Option{otlpmetricgrpc.WithEndpoint(otlp), otlpmetricgrpc.WithInsecure()}
		if token != "" {
			options = append(options, otlpmetricgrpc.WithHeaders(map[string]string{"Authorization": "Bearer " + token}))
		}
		exporter, err := otlpmetricgrpc.New(t.Context(), options...)
		if err != nil {
			t.Fatal(err)
		}
		if err := exporter.Export(t.Context(), exported(metricdata.CumulativeTemporality)); status.Code(errors.Unwrap(err)) != want && status.Code(err) != want {
			t.Errorf("%q: %v, want %v", token, err, want)
		}
		_ = exporter.Shutdown(t.Context())
	}
}
