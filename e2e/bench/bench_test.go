package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// receiver is an oracle that stores what requests say, parsed with net/http and
// string functions.
type receiver map[string]map[int64]float64 // by "device/sensor", second

func (r receiver) take(t *testing.T, item load.Item) {
	t.Helper()
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(item.Text)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil || request.Method != http.MethodPost || int(request.ContentLength) != len(body) {
		t.Fatalf("%s of %d bytes: %v", request.Method, len(body), err)
	}
	points := 0
	for line := range strings.Lines(string(body)) {
		parts := strings.Fields(line)
		seconds, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Split(parts[1], ",") {
			name, text, _ := strings.Cut(field, "=")
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			series := strings.TrimPrefix(parts[0], "m,device=") + "/" + name
			if r[series] == nil {
				r[series] = map[int64]float64{}
			}
			r[series][seconds] = value
			points++
		}
	}
	if points != item.Points {
		t.Fatalf("a request says it has %d points and has %d", item.Points, points)
	}
}

func (r receiver) mean(series string, from, to int64) (mean float64, count int) {
	sum := 0.0
	for seconds, value := range r[series] {
		if seconds >= from && seconds < to {
			sum += value
			count++
		}
	}
	return sum / float64(count), count
}

func fakeServer() *target.Server {
	return &target.Server{Target: target.TickMesh{}, Addresses: target.Addresses{HTTP: "h:1"}}
}

func TestRingSendsWhatItExpects(t *testing.T) {
	got, r := receiver{}, newRing(fakeServer(), target.HTTPLine, 7)
	r.read = func(int, int64) []byte { return nil }
	reads := 0
	const calls = 59 // not a whole number of turns
	for range calls {
		item, ok := r.next()
		if !ok {
			t.Fatal("a ring ended")
		}
		if item.Read {
			reads++
			continue
		}
		got.take(t, item)
	}
	if reads != calls/readsEveryRequests {
		t.Fatalf("%d reads of %d requests", reads, calls)
	}
	mean, count := got.mean("d_7/s_0", baseSeconds, r.toS())
	if count != (calls-reads)*rowsPerRequest || len(got) != workload.SensorCount || math.Abs(mean-r.mean()) > 1e-9*math.Abs(mean) {
		t.Fatalf("%d samples of %d series with mean %v; the ring expects %v", count, len(got), mean, r.mean())
	}
}

func TestStreamsSendWhatExpectExpects(t *testing.T) {
	const rows = 3_610 // the last request is short
	got := receiver{}
	for _, feed := range streams(fakeServer(), target.HTTPLine, connectionCount, rows, false)[:3] {
		for item, ok := feed(); ok; item, ok = feed() {
			got.take(t, item)
		}
	}
	if len(got) != 3*workload.SensorCount || len(got["d_1/s_3"]) != rows {
		t.Fatalf("%d series, %d samples", len(got), len(got["d_1/s_3"]))
	}
	for sensor := range workload.SensorCount {
		query := target.Query{Kind: target.Mean, Device: 2, Sensor: sensor, FromS: baseSeconds + 60, ToS: baseSeconds + 3660}
		mean, _ := got.mean("d_2/"+workload.SensorName(sensor), query.FromS, query.ToS)
		query.ToS = min(query.ToS, baseSeconds+rows)
		if want := expect(query, 1, false); math.Abs(want.Value-mean) > 1e-9*math.Abs(mean) {
			t.Errorf("sensor %d: sent a mean of %v, expected is %v", sensor, mean, want.Value)
		}
	}
}

func TestRoundsReachEverySeriesOnce(t *testing.T) {
	const devices = 1_003
	f := newFleet(0, devices)
	for round := range 2 {
		got := receiver{}
		for _, feed := range f.round(fakeServer(), target.HTTPLine, round, true) {
			for item, ok := feed(); ok; item, ok = feed() {
				got.take(t, item)
			}
		}
		if len(got) != devices*workload.SensorCount {
			t.Fatalf("round %d reaches %d series", round, len(got))
		}
		for series, samples := range got {
			if _, ok := samples[baseSeconds+int64(round*cardinalityStepS)]; !ok || len(samples) != 1 {
				t.Fatalf("round %d: %s has %v", round, series, samples)
			}
		}
	}
}

type fixed target.Answer

func (f fixed) Ask(context.Context, target.Query) (target.Answer, error) {
	return target.Answer(f), nil
}

func TestCheckFindsWrongAnswers(t *testing.T) {
	want := target.Answer{Points: 1, Value: 40_000_000}
	if err := check(t.Context(), fixed(want), target.Query{}, want); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []target.Answer{{}, {Points: 1, Value: 39_999_999}, {Points: 2, Value: 40_000_000}, {Points: 1, Value: math.NaN()}} {
		if err := check(t.Context(), fixed(wrong), target.Query{}, want); !errors.Is(err, ErrCheck) {
			t.Errorf("%+v passes (%v)", wrong, err)
		}
	}
}

func TestSelectWorkloads(t *testing.T) {
	for list, want := range map[string][]string{
		"all": Workloads(), "1,3": {"ingest", "query"}, "disk,6,memory": {"disk", "memory"}, "7,C2": nil, "7,11": {"cluster", "rest"}, "12,13": {"queries", "cluster-queries"}, "14,16": {"sustained", "churn"}, "17,18": {"dead", "backfill"}, "19": nil, "": nil, "ingest,": nil,
	} {
		got, err := SelectWorkloads(list)
		if !slices.Equal(got, want) && want != nil || (err != nil) != (want == nil) {
			t.Errorf("%q gives %v, %v", list, got, err)
		}
	}
}

func TestNeedsCluster(t *testing.T) {
	if NeedsCluster([]string{"ingest", "disk"}) || !NeedsCluster([]string{"ingest", "rest"}) {
		t.Error("wrong workloads need clusters")
	}
}

// Each client writes a series of its own, so that it depends on one shard.
func TestSingleSendsOnePointOfOneSeries(t *testing.T) {
	got := receiver{}
	feeds, sent := single(fakeServer())
	for range 3 {
		for _, feed := range feeds {
			item, _ := feed()
			got.take(t, item)
		}
	}
	for i := range feeds {
		if samples := got["d_"+strconv.Itoa(i)+"/s_0"]; len(samples) != 3 || sent[i] != 3 {
			t.Fatalf("client %d has sent %v and counts %d", i, samples, sent[i])
		}
	}
	if len(got) != stallClients {
		t.Fatalf("%d series of %d clients", len(got), stallClients)
	}
}

func TestMarkdown(t *testing.T) {
	results := &Results{Notes: []string{"a note"}, Failures: []string{"a failure"}}
	for _, value := range []float64{10, 12, 11} {
		results.add(Measure{Workload: "ingest", Case: "HTTP line", Name: "ingest", Unit: "M points/s", Target: "tickmesh"}, value)
	}
	results.add(Measure{Workload: "ingest", Case: "HTTP line", Name: "ingest", Unit: "M points/s", Target: "influxdb"}, 1)
	results.add(Measure{Workload: "ingest", Case: "HTTP line", Name: "write P99", Unit: "ms", Lower: true, Target: "tickmesh"}, 20)
	results.add(Measure{Workload: "ingest", Case: "HTTP line", Name: "write P99", Unit: "ms", Lower: true, Target: "influxdb"}, 100)
	results.add(Measure{Workload: "ingest", Case: "TCP line", Name: "ingest", Unit: "M points/s", Target: "tickmesh"}, 24.44)
	report := Report{
		Results: results,
		Config: Config{
			Targets: []target.Target{target.TickMesh{}, target.InfluxDB{}}, Workloads: []string{"ingest", "disk"}, Runs: 3,
			ServerCPUs: harness.CPUSet{0, 1}, ClientCPUs: harness.CPUSet{0, 1}, Shared: true, Command: "bench -runs 3",
		},
		Machine:  Machine{CPU: "a chip", Cores: 2, MemoryBytes: 4 << 30, Kernel: "6.1", Go: "go1 amd64"},
		Date:     time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Versions: map[string]string{"tickmesh": "0.1", "influxdb": "1.6"},
	}
	var page bytes.Buffer
	if err := report.WriteMarkdown(&page); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"# Measurements of 2026-01-02",
		"- Machine: a chip, 2 cores, 4.0 GiB, Linux 6.1, go1 amd64",
		"- Server on cores 0,1, client on cores 0,1 (shared: the client takes time from the server, so rates are too low)",
		"- Command: `bench -runs 3`",
		"- tickmesh: 0.1",
		"| case | figure | unit | tickmesh | influxdb | × influxdb |",
		"| HTTP line | ingest | M points/s | 11.0 (10.0–12.0) | 1.00 | 11.0 |",
		"| HTTP line | write P99 | ms | 20.0 | 100 | 5.00 |",
		"| TCP line | ingest | M points/s | 24.4 | – | – |",
		"- a note",
		"- a failure",
	} {
		if !strings.Contains(page.String(), line+"\n") {
			t.Errorf("missing: %s\n%s", line, page.String())
		}
	}
	if strings.Contains(page.String(), "W6") {
		t.Error("a workload without results has a table")
	}
}
