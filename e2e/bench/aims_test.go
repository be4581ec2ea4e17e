package bench

import (
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// TestAims: the table has the rows that were measured, with the ratio to the best peer, whatever the order of targets.
func TestAims(t *testing.T) {
	results := &Results{}
	add := func(workload, which, name, of string, lower bool, values ...float64) {
		for _, value := range values {
			results.add(Measure{Workload: workload, Case: which, Name: name, Unit: "u", Lower: lower, Target: of}, value)
		}
	}
	add("ingest", "HTTP line", "server CPU", "tickmesh", true, 0.1, 0.3, 0.2)
	add("ingest", "HTTP line", "server CPU", "victoria-metrics", true, 1)
	add("ingest", "HTTP line", "server CPU", "ticktock", true, 0.8)
	add("ingest", "HTTP line", "server CPU", target.SinkName, true, 0.01)
	add("ingest", "TCP put", "server CPU", "tickmesh", true, 0.1)
	add("ingest", "TCP put", "server CPU", "ticktock", true, 0.39)
	add("ingest", "TCP line", "server CPU", "tickmesh", true, 0.1)
	add("ingest", "TCP line", "write P99.9", "tickmesh", true, 201)
	add("always", "HTTP line", alwaysShare, "tickmesh", false, 0.9)
	add("query", "1 h by minute over 10 series", "rate, 8 clients", "tickmesh", false, 1000)
	add("query", "1 h by minute over 10 series", "rate, 8 clients", "ticktock", false, 100)
	add("query", "1 h by minute over 10 series", "rate, 8 clients", "victoria-metrics", false, 500)
	report := Report{Results: results, Config: Config{Targets: []target.Target{
		target.TickTock{}, target.Sink{}, target.TickMesh{}, target.VictoriaMetrics{},
	}}}
	var page strings.Builder
	report.writeAims(&page)
	const want = `
## Aims

| figure | unit | tickmesh | ticktock | victoria-metrics | to the best peer | aim | met |
|---|---|---|---|---|---|---|---|
| HTTP line | server CPU, u | 0.200 (0.100–0.300) | 0.800 | 1.00 | 4.00 × | ≥ 4 × | yes |
| TCP put | server CPU, u | 0.100 | 0.390 | – | 3.90 × | ≥ 4 × | no |
| TCP line | server CPU, u | 0.100 | – | – | – | ≥ 4 × | no peer |
| TCP line, P99.9 of write(2) | write P99.9, u | 201 | – | – | – | ≤ 200 | no |
| HTTP line, ` + "`always`" + ` | points a second in ` + "`always`, of those in `interval`" + `, u | 0.900 | – | – | – | ≥ 0.9 | yes |
| 10 series by minute, 8 clients | rate, 8 clients, u | 1000 | 100 | 500 | 2.00 × | ≥ 4 × | no |
`
	if got := page.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestAimsAreMeasured: each aim names a workload that there is.
func TestAimsAreMeasured(t *testing.T) {
	for _, a := range aims {
		if find(a.workload).run == nil {
			t.Errorf("%s: no workload %q", a.name, a.workload)
		}
		if (a.factor > 0) == (a.most > 0 || a.least > 0) {
			t.Errorf("%s: %+v", a.name, a)
		}
	}
}

// TestFleetReplaces: devices that end send no more, as many begin with numbers of their own, and the others go on.
func TestFleetReplaces(t *testing.T) {
	const devices, share, rounds = 400, 20, 30
	f, got := newFleet(0, devices), receiver{}
	for round := range rounds {
		f.replace(share)
		sent := 0
		for _, feed := range f.round(fakeServer(), target.HTTPLine, round, false) {
			for item, ok := feed(); ok; item, ok = feed() {
				got.take(t, item)
				sent += item.Points
			}
		}
		if sent != devices*workload.SensorCount {
			t.Fatalf("%d points in round %d", sent, round)
		}
	}
	lived := map[int]int{} // rounds: devices
	for series, values := range got {
		if strings.HasSuffix(series, "/s_0") {
			lived[len(values)]++
		}
	}
	total, ended := 0, devices/share
	for rounds, count := range lived {
		total += rounds * count
		if rounds > share {
			t.Errorf("%d devices lived %d rounds", count, rounds)
		}
	}
	if total != rounds*devices || len(got) != (devices+(rounds-1)*ended)*workload.SensorCount {
		t.Errorf("%d device rounds, %d series", total, len(got))
	}
}
