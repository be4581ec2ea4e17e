package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// InfluxDB is the 1.x server of Debian's package influxdb, asked by InfluxQL.
type InfluxDB struct{}

const (
	influxDBProgram  = "influxd"
	influxDBDatabase = "bench"
)

// Name implements Target.
func (InfluxDB) Name() string { return "influxdb" }

// Version implements Target.
func (InfluxDB) Version(ctx context.Context) (string, error) {
	return packageVersion(ctx, influxDBProgram, "influxdb")
}

// influxDBConfig turns limits on series off, and the index on disk on; the rest
// is the server's default.
const influxDBConfig = `reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
  dir = "%[1]s/meta"
[data]
  dir = "%[1]s/data"
  wal-dir = "%[1]s/wal"
  index-version = "tsi1"
  max-series-per-database = 0
  max-values-per-tag = 0
  query-log-enabled = false
[coordinator]
  write-timeout = "60s"
[http]
  bind-address = "%[2]s"
  log-enabled = false
  max-body-size = 0
[monitor]
  store-enabled = false
[logging]
  level = "warn"
[[opentsdb]]
  enabled = true
  bind-address = "%[3]s"
  database = "` + influxDBDatabase + `"
`

// Command implements Target: it writes a configuration file beside the data.
func (InfluxDB) Command(dir string, addresses Addresses, _ int64) (harness.ProcessOptions, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return harness.ProcessOptions{}, err
	}
	path := filepath.Join(filepath.Dir(dir), "influxdb.conf")
	config := fmt.Sprintf(influxDBConfig, dir, addresses.HTTP, addresses.Put)
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return harness.ProcessOptions{}, err
	}
	return harness.ProcessOptions{Path: influxDBProgram, Args: []string{"run", "-config", path}}, nil
}

// ReadyPath implements Target.
func (InfluxDB) ReadyPath() string { return "/ping" }

// Prepare implements Target: it creates the database.
func (InfluxDB) Prepare(ctx context.Context, server *Server) error {
	response, err := server.client.PostForm("http://"+server.Addresses.HTTP+"/query",
		url.Values{"q": {"CREATE DATABASE " + influxDBDatabase}})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		return fmt.Errorf("create the database: %s", response.Status)
	}
	return nil
}

// Speaks implements Target.
func (InfluxDB) Speaks(protocol Protocol) bool { return protocol != TCPLine }

// Fence implements Target.
func (InfluxDB) Fence(Protocol) string { return "" }

// Applied implements Target: put lines are applied by a batcher behind the
// connection, so it waits until as many points were written.
func (InfluxDB) Applied(ctx context.Context, server *Server, protocol Protocol, points int64) error {
	if protocol == HTTPLine {
		return nil // answered when applied
	}
	return poll(ctx, 2*time.Minute, func() (bool, string, error) {
		body, err := server.Get(ctx, "/debug/vars")
		if err != nil {
			return false, "", err
		}
		var vars map[string]json.RawMessage
		if err := json.Unmarshal(body, &vars); err != nil {
			return false, "", err
		}
		var write struct {
			Values struct {
				PointReq float64
			}
		}
		if err := json.Unmarshal(vars["write"], &write); err != nil {
			return false, "", err
		}
		applied := int64(write.Values.PointReq)
		return applied >= points, fmt.Sprintf("%d of %d points applied", applied, points), nil
	})
}

// Publish implements Target: what is applied is visible.
func (InfluxDB) Publish(context.Context, *Server) error { return nil }

// WritePath implements Target.
func (InfluxDB) WritePath() string { return "/write?precision=s&db=" + influxDBDatabase }

// QueryPath implements Target.
func (InfluxDB) QueryPath(q Query) string {
	column := "/^s_/"
	if q.Sensor != All {
		column = workload.SensorName(q.Sensor)
	}
	if q.Form == workload.Put {
		column = "value"
	}
	where := []string{fmt.Sprintf("time >= %ds", q.FromS), fmt.Sprintf("time < %ds", q.ToS)}
	if q.Kind == Point {
		where = []string{fmt.Sprintf("time = %ds", q.FromS)}
	}
	if q.Device != All {
		where = append(where, "device = '"+workload.DeviceName(q.Device)+"'")
	}
	if q.Form == workload.Put && q.Sensor != All {
		where = append(where, "sensor = '"+workload.SensorName(q.Sensor)+"'")
	}
	switch q.Kind {
	case Mean, Minutes, EachMinutes:
		column = "mean(" + column + ")"
	case Count:
		column = "count(" + column + ")"
	}
	statement := "SELECT " + column + " FROM " + workload.Metric + " WHERE " + strings.Join(where, " AND ")
	switch q.Kind {
	case Minutes:
		statement += " GROUP BY time(1m)"
	case EachMinutes:
		statement += " GROUP BY time(1m), *"
	}
	return "/query?epoch=s&db=" + influxDBDatabase + "&q=" + url.QueryEscape(statement)
}

// Parse implements Target. A row's columns are fields; Mean and Minutes average
// them, because all series have as many samples.
func (InfluxDB) Parse(q Query, body []byte) (Answer, error) {
	var answer struct {
		Error   string
		Results []struct {
			Error  string
			Series []struct{ Values [][]*float64 }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return Answer{}, fmt.Errorf("%w in %.200q", err, body)
	}
	var values []float64
	for _, result := range answer.Results {
		if result.Error != "" {
			return Answer{}, fmt.Errorf("influxdb: %s", result.Error)
		}
		for _, series := range result.Series {
			for _, row := range series.Values {
				values = append(values, reduceRow(q.Kind, row)...)
			}
		}
	}
	return answerOf(q.Kind, values), nil
}

// reduceRow leaves out the time, the first column, and columns without a value.
func reduceRow(kind Kind, row []*float64) []float64 {
	var sum float64
	var each []float64
	count := 0
	for _, value := range row[min(1, len(row)):] {
		if value != nil {
			sum += *value
			each = append(each, *value)
			count++
		}
	}
	if count == 0 {
		return nil
	}
	if kind == EachMinutes {
		return each
	}
	if kind != Count {
		sum /= float64(count)
	}
	return []float64{sum}
}

// Compact implements Target: the server compacts on its own schedule, after hours.
func (InfluxDB) Compact(context.Context, *Server) error { return nil }

// SeriesMax implements Target.
func (InfluxDB) SeriesMax() (int, string) {
	return 500_000, "not run above 500,000 series: creating them takes minutes and gigabytes"
}
