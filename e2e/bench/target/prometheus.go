package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// PromQL is a Target that takes Prometheus' remote write at RemoteWritePath and answers
// its HTTP API below /api/v1.
type PromQL interface {
	Target
	// APIParameters is appended to the parameters of each request, to have the server
	// compute its answers anew; "" or "name=value".
	APIParameters() string
}

// RemoteWritePath is where targets take remote write.
const RemoteWritePath = "/api/v1/write"

// APIParameters implements PromQL.
func (TickMesh) APIParameters() string { return "" }

// APIParameters implements PromQL.
func (VictoriaMetrics) APIParameters() string { return "nocache=1" }

// Prometheus is the server of Debian's package prometheus. It takes no protocol of
// this package but remote write.
type Prometheus struct{}

const prometheusProgram = "prometheus"

// Name implements Target.
func (Prometheus) Name() string { return "prometheus" }

// Version implements Target.
func (Prometheus) Version(ctx context.Context) (string, error) {
	return packageVersion(ctx, prometheusProgram, "prometheus")
}

// Command implements Target: it writes a configuration that scrapes nothing. Retention
// is long because the data has fixed times.
func (Prometheus) Command(dir string, addresses Addresses, _ int64) (harness.ProcessOptions, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return harness.ProcessOptions{}, err
	}
	path := filepath.Join(filepath.Dir(dir), "prometheus.yml")
	if err := os.WriteFile(path, []byte("scrape_configs: []\n"), 0o644); err != nil {
		return harness.ProcessOptions{}, err
	}
	return harness.ProcessOptions{Path: prometheusProgram, Args: []string{
		"--config.file=" + path, "--storage.tsdb.path=" + dir, "--web.listen-address=" + addresses.HTTP,
		"--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=100y", "--log.level=warn",
	}}, nil
}

// ReadyPath implements Target.
func (Prometheus) ReadyPath() string { return "/-/ready" }

// Prepare implements Target: there is nothing to prepare.
func (Prometheus) Prepare(context.Context, *Server) error { return nil }

// Speaks implements Target.
func (Prometheus) Speaks(Protocol) bool { return false }

// Fence implements Target.
func (Prometheus) Fence(Protocol) string { return "" }

// Applied implements Target: remote write is answered when it is applied.
func (Prometheus) Applied(context.Context, *Server, Protocol, int64) error { return nil }

// Publish implements Target: what is applied is visible.
func (Prometheus) Publish(context.Context, *Server) error { return nil }

// WritePath implements Target: there is none for line protocol.
func (Prometheus) WritePath() string { return "" }

// QueryPath implements Target, in the same words as for VictoriaMetrics.
func (Prometheus) QueryPath(q Query) string { return VictoriaMetrics{}.QueryPath(q) }

// Parse implements Target.
func (Prometheus) Parse(q Query, body []byte) (Answer, error) { return parsePrometheus(q.Kind, body) }

// Compact implements Target: the server compacts on its own schedule.
func (Prometheus) Compact(context.Context, *Server) error { return nil }

// SeriesMax implements Target.
func (Prometheus) SeriesMax() (int, string) { return 0, "" }

// APIParameters implements PromQL.
func (Prometheus) APIParameters() string { return "" }

var errNoData = errors.New("the answer has no data")

// ParseAPI reads an answer of Prometheus' HTTP API: samples of a query, or the names of a
// list, which count as points without a value.
func ParseAPI(body []byte) (Answer, error) {
	var list struct {
		Data json.RawMessage
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return Answer{}, fmt.Errorf("%w in %.200q", err, body)
	}
	if len(list.Data) == 0 {
		return Answer{}, fmt.Errorf("%w: %.200q", errNoData, body)
	}
	if list.Data[0] != '[' {
		return parsePrometheus(Raw, body)
	}
	var names []string
	if err := json.Unmarshal(list.Data, &names); err != nil {
		return Answer{}, fmt.Errorf("%w in %.200q", err, body)
	}
	return Answer{Points: len(names)}, nil
}

// CountAPI counts the samples or names of an answer that ParseAPI would read, by its bytes,
// so that large answers cost the client little: names are between quotes and have none in
// them, and a sample's value in quotes comes behind a time, which ends with a digit.
func CountAPI(body []byte) (int, error) {
	_, data, found := bytes.Cut(body, []byte(`"data":`))
	if !found || len(data) == 0 {
		return 0, fmt.Errorf("%w: %.200q", errNoData, body)
	}
	if data[0] == '[' {
		list, _, _ := bytes.Cut(data, []byte("]"))
		return bytes.Count(list, []byte(`"`)) / 2, nil
	}
	count := 0
	for {
		at := bytes.Index(data, []byte(`,"`))
		if at < 0 {
			return count, nil
		}
		if at > 0 && data[at-1] >= '0' && data[at-1] <= '9' {
			count++
		}
		data = data[at+2:]
	}
}

// parsePrometheus reads the answer to a query: a vector or a matrix.
func parsePrometheus(kind Kind, body []byte) (Answer, error) {
	var answer struct {
		Data struct {
			Result []struct {
				Value  [2]any
				Values [][2]any
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return Answer{}, fmt.Errorf("%w in %.200q", err, body)
	}
	var values []float64
	for _, result := range answer.Data.Result {
		points := result.Values
		if result.Value[1] != nil {
			points = append(points, result.Value)
		}
		for _, point := range points {
			text, _ := point[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return Answer{}, err
			}
			values = append(values, value)
		}
	}
	return answerOf(kind, values), nil
}
