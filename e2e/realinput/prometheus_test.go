package realinput

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// prometheusConfig scrapes Prometheus itself. The third value adds a line to the
// remote write.
const prometheusConfig = `global:
  scrape_interval: 1s
scrape_configs:
  - job_name: self
    static_configs:
      - targets: ["%[1]s"]
remote_write:
  - url: http://%[2]s/api/v1/write
%[3]s`

// Remote write 2.0 came with Prometheus 2.54.
const (
	writeV2Major, writeV2Minor = 2, 54
	writeV2Line                = "    protobuf_message: io.prometheus.write.v2.Request\n"
)

// prometheusScrapes is the number of scrapes to compare.
const prometheusScrapes = 5

func TestPrometheusRemoteWrite(t *testing.T) {
	server := startServer(t)
	program, err := harness.Install(t.Context(), "prometheus", "prometheus")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("v1", func(t *testing.T) { runPrometheus(t, server, program, "") })
	if major, minor := prometheusVersion(t, program); major < writeV2Major || major == writeV2Major && minor < writeV2Minor {
		t.Logf("Prometheus %d.%d cannot send remote write 2.0, which came with %d.%d; it is covered by the tests of router/ingest",
			major, minor, writeV2Major, writeV2Minor)
		return
	}
	t.Run("v2", func(t *testing.T) { runPrometheus(t, server, program, writeV2Line) })
}

func prometheusVersion(t *testing.T, program string) (major, minor int) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`version (\d+)\.(\d+)`).FindSubmatch(output)
	if match == nil {
		t.Fatalf("no version in %q", output)
	}
	major, _ = strconv.Atoi(string(match[1]))
	minor, _ = strconv.Atoi(string(match[2]))
	return major, minor
}

func runPrometheus(t *testing.T, server *harness.Standalone, program, line string) {
	free, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	address, dir := free[0], t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, prometheusConfig, address, server.HTTPAddr, line), 0o644); err != nil {
		t.Fatal(err)
	}
	prometheus, err := harness.StartProcess(harness.ProcessOptions{
		Path: program, LogPath: filepath.Join(dir, "log"),
		Args: []string{"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer prometheus.Kill()
	var want map[string]map[string]samples
	eventually(t, time.Minute, func() string {
		found, err := prometheusSamples(t, address, `up[10m]`)
		if err != nil {
			return fmt.Sprintf("%v\n%s", err, prometheus.LogTail(2048))
		}
		for _, up := range found["up"] {
			if len(up) >= prometheusScrapes {
				return ""
			}
		}
		return "too few scrapes yet"
	})
	if want, err = prometheusSamples(t, address, `{job="self"}[10m]`); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string { return comparePrometheus(t, server, address, want) })
	series, total := 0, 0
	for _, bySeries := range want {
		series += len(bySeries)
		for _, samples := range bySeries {
			total += len(samples)
		}
	}
	if series < 100 {
		t.Fatalf("Prometheus tells of %d series only", series)
	}
	t.Logf("%d metrics, %d series, %d samples are equal", len(want), series, total)
}

// prometheusSamples asks Prometheus for raw samples, by metric and labels.
func prometheusSamples(t *testing.T, address, expression string) (map[string]map[string]samples, error) {
	body, err := get(t.Context(), "http://"+address+"/api/v1/query?query="+url.QueryEscape(expression))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w in %.300q", err, body)
	}
	found := map[string]map[string]samples{}
	for _, series := range answer.Data.Result {
		metric := series.Metric["__name__"]
		delete(series.Metric, "__name__")
		values := samples{}
		for _, point := range series.Values {
			seconds, _ := point[0].(float64)
			value, err := number(point[1])
			if err != nil {
				return nil, err
			}
			values[int64(seconds*1000+0.5)] = value
		}
		if found[metric] == nil {
			found[metric] = map[string]samples{}
		}
		found[metric][tagsText(series.Metric)] = values
	}
	return found, nil
}

// comparePrometheus compares all series up to each one's last sample in want.
func comparePrometheus(t *testing.T, server *harness.Standalone, address string, want map[string]map[string]samples) string {
	for metric, bySeries := range want {
		fromMs, toMs := int64(1<<62), int64(0)
		for _, values := range bySeries {
			for timeMs := range values {
				fromMs, toMs = min(fromMs, timeMs), max(toMs, timeMs)
			}
		}
		got, err := stored(t.Context(), server, metric, "instance="+address, fromMs, toMs)
		if err != nil {
			return err.Error()
		}
		for name, wanted := range bySeries {
			if found := difference(wanted, got[name], 0); found != "" {
				return fmt.Sprintf("%s%s %s", metric, name, found)
			}
		}
		for name := range got {
			if bySeries[name] == nil {
				return fmt.Sprintf("%s%s was never sent", metric, name)
			}
		}
	}
	return ""
}
