package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// TickMesh is `tickmesh standalone`, asked through OpenTSDB's query language.
type TickMesh struct {
	Binary  string
	WALSync string   // "" leaves the server's default
	Extra   []string // further flags
	Etcd    string   // the program e2e/cmd/etcd, for clusters; "" where none is started
}

// Name implements Target.
func (t TickMesh) Name() string { return "tickmesh" }

// Version implements Target.
func (t TickMesh) Version(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, t.Binary, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrNotInstalled, t.Binary, err)
	}
	version := strings.TrimSpace(string(output))
	if t.WALSync != "" {
		version += " --wal-sync " + t.WALSync
	}
	return version, nil
}

// Command implements Target.
func (t TickMesh) Command(dir string, addresses Addresses, _ int64) (harness.ProcessOptions, error) {
	args := []string{
		"standalone", "--data-dir", dir, "--http-addr", addresses.HTTP,
		"--put-addr", addresses.Put, "--line-addr", addresses.Line, "--grpc-addr", "", "--admin", "--query-series-max", "0",
	}
	if t.WALSync != "" {
		args = append(args, "--wal-sync", t.WALSync)
	}
	return harness.ProcessOptions{Path: t.Binary, Args: append(args, t.Extra...)}, nil
}

// ReadyPath implements Target.
func (t TickMesh) ReadyPath() string { return "/readyz" }

// Prepare implements Target: there is nothing to prepare.
func (t TickMesh) Prepare(context.Context, *Server) error { return nil }

// Speaks implements Target.
func (t TickMesh) Speaks(Protocol) bool { return true }

// Fence implements Target.
func (t TickMesh) Fence(protocol Protocol) string {
	if protocol == TCPPut {
		return "version\n"
	}
	return ""
}

// Applied implements Target: the fences are exact.
func (t TickMesh) Applied(context.Context, *Server, Protocol, int64) error { return nil }

// Publish implements Target: what is answered is visible.
func (t TickMesh) Publish(context.Context, *Server) error { return nil }

// WritePath implements Target.
func (t TickMesh) WritePath() string { return "/api/write?precision=s" }

// QueryPath implements Target.
func (t TickMesh) QueryPath(q Query) string {
	function := map[Kind]string{Point: "none", Raw: "none", Mean: "avg:0all-avg", Minutes: "avg:1m-avg", EachMinutes: "none:1m-avg", Count: "sum:0all-count"}[q.Kind]
	to := q.ToS - 1 // OpenTSDB's end is inclusive
	switch q.Kind {
	case Point:
		to = q.FromS
	case Mean, Count:
		to = q.ToS // but a window over all of the range ends before it
	case Raw, Minutes, EachMinutes:
	}
	return fmt.Sprintf("/api/query?start=%d&end=%d&arrays=true&m=%s", q.FromS, to, openTSDBSelector(q, function))
}

// openTSDBSelector returns the parameter m that asks for the series of a query. Fields of line protocol are a tag.
func openTSDBSelector(q Query, function string) string {
	var tags []string
	if q.Device != All {
		tags = append(tags, "device="+workload.DeviceName(q.Device))
	}
	if q.Sensor != All {
		name := "_field="
		if q.Form == workload.Put {
			name = "sensor="
		}
		tags = append(tags, name+workload.SensorName(q.Sensor))
	}
	m := function + ":" + workload.Metric
	if len(tags) > 0 {
		m += "{" + strings.Join(tags, ",") + "}"
	}
	return url.QueryEscape(m)
}

// Parse implements Target.
func (t TickMesh) Parse(q Query, body []byte) (Answer, error) {
	var results []struct {
		DPS [][2]float64 `json:"dps"`
	}
	if err := json.Unmarshal(body, &results); err != nil {
		return Answer{}, fmt.Errorf("%w in %.200q", err, body)
	}
	var values []float64
	for _, result := range results {
		for _, point := range result.DPS {
			values = append(values, point[1])
		}
	}
	return answerOf(q.Kind, values), nil
}

// Compact implements Target: it seals, sorts and merges everything.
func (t TickMesh) Compact(ctx context.Context, server *Server) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server.Addresses.HTTP+"/admin/settle", nil)
	if err != nil {
		return err
	}
	response, err := server.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("settle answers %s", response.Status)
	}
	return nil
}

// SeriesMax implements Target.
func (t TickMesh) SeriesMax() (int, string) { return 0, "" }

// Preallocated implements Preallocating: the log's files and the page log's present
// one hold nothing that counts after a clean stop.
func (t TickMesh) Preallocated(dataDir string) (int64, error) {
	var bytes int64
	for _, folder := range []string{"log", "pages"} {
		n, err := harness.DiskBytes(filepath.Join(dataDir, folder))
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}
