package realinput

import (
	"encoding/csv"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// collectdConfig writes to the put port and, the same values, to files.
const collectdConfig = `Hostname "probe"
FQDNLookup false
Interval 1
BaseDir "%[1]s"
PIDFile "%[1]s/pid"
LoadPlugin cpu
LoadPlugin memory
LoadPlugin load
LoadPlugin df
LoadPlugin csv
LoadPlugin write_tsdb
<Plugin csv>
  DataDir "%[1]s/csv"
  StoreRates false
</Plugin>
<Plugin write_tsdb>
  <Node>
    Host "%[2]s"
    Port "%[3]s"
    HostTags "site=test"
    StoreRates false
  </Node>
</Plugin>
`

// The csv plugin writes gauges with six decimals.
const csvTolerance = 0.5000001e-6

// collectdRounds is the number of intervals to wait for.
const collectdRounds = 5

func TestCollectd(t *testing.T) {
	server := startServer(t)
	program, err := harness.Install(t.Context(), "collectd", "collectd-core")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	host, port, err := net.SplitHostPort(server.PutAddr)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "collectd.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, collectdConfig, dir, host, port), 0o644); err != nil {
		t.Fatal(err)
	}
	startMs := time.Now().Add(-time.Minute).UnixMilli()
	collectd, err := harness.StartProcess(harness.ProcessOptions{
		Path: program, Args: []string{"-f", "-C", config}, LogPath: filepath.Join(dir, "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer collectd.Kill()
	eventually(t, time.Minute, func() string {
		want, err := readCSV(filepath.Join(dir, "csv", "probe"))
		if err != nil {
			return err.Error()
		}
		if rounds := len(want["load.load.shortterm"]); rounds < collectdRounds || len(want) < 10 {
			return fmt.Sprintf("collectd has %d metrics with %d samples\n%s", len(want), rounds, collectd.LogTail(2048))
		}
		return ""
	})
	// Its end makes it send what it has gathered.
	if err := collectd.Terminate(time.Minute); err != nil {
		t.Fatalf("collectd: %v\n%s", err, collectd.LogTail(4096))
	}
	want, err := readCSV(filepath.Join(dir, "csv", "probe"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		return compareCollectd(t, server, want, startMs)
	})
	total := 0
	for _, samples := range want {
		total += len(samples)
	}
	t.Logf("%d metrics with %d samples are equal", len(want), total)
}

func compareCollectd(t *testing.T, server *harness.Standalone, want map[string]samples, startMs int64) string {
	for metric, wanted := range want {
		series, err := stored(t.Context(), server, metric, "fqdn=probe", startMs, time.Now().Add(time.Minute).UnixMilli())
		if err != nil {
			return err.Error()
		}
		got, ok := series["{fqdn=probe,site=test}"]
		if !ok || len(series) != 1 {
			return fmt.Sprintf("%s: %d series, and ours is there: %v", metric, len(series), ok)
		}
		if found := difference(wanted, got, csvTolerance); found != "" {
			return metric + " " + found
		}
	}
	return ""
}

// readCSV reads all files of the csv plugin. The keys are the names that the
// write_tsdb plugin gives the same values.
func readCSV(dir string) (map[string]samples, error) {
	want := map[string]samples{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		rows, err := csv.NewReader(file).ReadAll()
		if err != nil || len(rows) == 0 {
			return fmt.Errorf("%s: %d rows, %w", path, len(rows), err)
		}
		for column := 1; column < len(rows[0]); column++ {
			name := metricName(filepath.Base(filepath.Dir(path)), filepath.Base(path), rows[0][column])
			if want[name] == nil {
				want[name] = samples{}
			}
			for _, row := range rows[1:] {
				if err := addRow(want[name], row[0], row[column]); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
		}
		return nil
	})
	return want, err
}

// addRow adds a sample at the second to which write_tsdb rounds its time.
func addRow(to samples, epoch, value string) error {
	seconds, err := strconv.ParseFloat(epoch, 64)
	if err != nil {
		return err
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return err
	}
	to[int64(math.Round(seconds))*1000] = v
	return nil
}

// metricName is what write_tsdb makes of the csv plugin's folder "plugin-instance",
// file "type-instance-2026-01-02" and column.
func metricName(folder, file, column string) string {
	plugin, instance, _ := strings.Cut(folder, "-")
	kind, kindInstance, _ := strings.Cut(file[:max(0, len(file)-len("-2026-01-02"))], "-")
	parts := []string{plugin}
	switch {
	case instance == "" && kindInstance == "":
		parts = append(parts, kind)
	case instance == "":
		parts = append(parts, kindInstance, kind)
	case kindInstance == "":
		parts = append(parts, instance, kind)
	default:
		parts = append(parts, instance, kind, kindInstance)
	}
	if column != "value" {
		parts = append(parts, column)
	}
	return strings.Join(parts, ".")
}

func TestMetricName(t *testing.T) {
	for _, test := range [][4]string{
		{"cpu-0", "cpu-idle-2026-11-21", "value", "cpu.0.cpu.idle"},
		{"memory", "memory-slab_recl-2026-11-21", "value", "memory.slab_recl.memory"},
		{"df-dev-shm", "df_complex-free-2026-11-21", "value", "df.dev-shm.df_complex.free"},
		{"load", "load-2026-11-21", "shortterm", "load.load.shortterm"},
	} {
		if name := metricName(test[0], test[1], test[2]); name != test[3] {
			t.Errorf("%v: %s", test, name)
		}
	}
}
