package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
)

// workloads are all workloads; their number is their place.
var workloads = [...]definition{
	{
		"ingest", "W1 saturated ingest",
		"2,000 series, 200 connections, 200 points per request, back to back; the clock stops when the server has applied everything. Over TCP a write's time is only that of write(2).",
		true, false, runIngest,
	},
	{
		"cardinality", "W2 cardinality",
		"One point for each series and round, 10 s apart, six rounds back to back over 20 connections, 200 points per request.",
		false, false, runCardinality,
	},
	{
		"query", "W3 query latency",
		"2,000 series, a sample each second, never-repeating values; random series and hours.",
		true, false, runQuery,
	},
	{
		"memory", "W4 data larger than memory",
		"Incompressible decimals, 2,000 series, until the data folder is 4 × a memory limit (page cache included); the same points without and with the limit.",
		false, false, runMemory,
	},
	{
		"restart", "W5 restart",
		"Two points for each series, SIGKILL right after the last answer and a start, then SIGTERM and a start; until the first correct answer.",
		false, false, runRestart,
	},
	{
		"disk", "W6 bytes on disk",
		"2,000 series, a sample each second, four realistic shapes in turn, never-repeating values.",
		false, false, runDisk,
	},
	{
		"cluster", "C1 cluster beside standalone",
		"As W1, on one standalone server, and on clusters of etcd, 3 nodes and a router on the same cores, with 1, 2 and 3 copies; 128 shards.",
		true, true, runCluster,
	},
	{
		"latency", "C2 latency of writes",
		"200 points per request over HTTP, and over TCP as put lines with a `version` behind them, whose reply comes when all before it is written; against 3 nodes: 20 connections with 100 requests a second in all, then 200 connections back to back, then 95 % of that rate. Except back to back a write's time counts from when it was due.",
		true, true, runLatency,
	},
	{
		"stall", "C3 death of a node",
		"64 clients write one series each, every 10 ms, to 3 nodes with 2 copies; after 2 s one node gets SIGKILL. Each of the three in a cluster of its own. A client's stall is its longest time without an acknowledged write.",
		true, true, runStall,
	},
	{
		"scaling", "C4 from 3 to 5 nodes and back",
		"40 connections send 1,000 requests of 200 points a second over HTTP, with 2 copies: 5 s before, while two nodes join, and while they are drained.",
		true, true, runScaling,
	},
	{
		"rest", "C5 idle groups, witnesses, rebuild",
		"128 shards over 3 nodes that hold 2,000 series and have nothing to do; then W1 for a while, SIGKILL, and a node starts again on an empty disk.",
		true, true, runRest,
	},
	{
		"queries", "W7 queries in PromQL",
		"The same series by remote write and the same questions in PromQL for all servers; random hosts and times. Each question alone, and while half a million points a second are written to the largest set of series; one client for latencies, four for rates. Instants and windows are at times between samples, and answers are compared with the made data.",
		true, false, runQueries,
	},
	{
		"cluster-queries", "C6 queries in PromQL to a cluster",
		"As W7, to a router with 3 nodes behind it on the same cores, with 1 copy; 128 shards. Memory is that of all processes.",
		true, true, runClusterQueries,
	},
	{
		"sustained", "W8 minutes of values that never repeat",
		"As W1 over HTTP, but no value comes again, for 20 s at scale small and five minutes at the others, and all is merged to the end.",
		true, false, runSustained,
	},
	{
		"always", "W9 on the disk before it is answered",
		"As W1, with `--wal-sync interval` and `always`, one after the other.",
		true, false, runAlways,
	},
	{
		"churn", "W10 series that come and go",
		"A point for each live series and round, 10 s apart, back to back over 20 connections: 30 rounds of the same series, then 60, or 300 but at scale small, before each of which one device in twenty ends and another begins.",
		false, false, runChurn,
	},
	{
		"dead", "W11 ten live series among those of two months ago",
		"One point of each of a million series, or ten but at scale small; then, 60 days later, ten series with a point each 10 s for five minutes, about which is asked, and the same of a server that has these ten alone. Then SIGKILL and a start, SIGTERM and a start, each until the ten are answered, and once more when all is merged.",
		false, false, runDead,
	},
	{
		"backfill", "W12 a year that is filled in",
		"2,000 series, a point each hour of a year, 200 connections, 200 points per request, back to back: in the order of time, and by another server in an order that is drawn by each connection for all of its rows.",
		true, false, runBackfill,
	},
}

func title(name string) string { return find(name).title }

func describe(name string) string { return find(name).text }

func find(name string) definition {
	at := slices.IndexFunc(workloads[:], func(d definition) bool { return d.name == name })
	if at < 0 {
		return definition{}
	}
	return workloads[at]
}

// Run measures everything that the configuration asks for. A target that fails
// is noted in the results and does not stop the others; the error is for what
// stops all, such as the context's end.
func Run(ctx context.Context, config Config) (*Report, error) {
	report := &Report{
		Results: &Results{}, Config: config, Machine: ThisMachine(), Date: time.Now(), Versions: map[string]string{},
	}
	var present []target.Target
	for _, target := range config.Targets {
		version, err := target.Version(ctx)
		report.Versions[target.Name()] = version
		if err != nil {
			report.Results.Notes = append(report.Results.Notes, fmt.Sprintf("%s was left out: %v", target.Name(), err))
			report.Versions[target.Name()] = "left out"
			continue
		}
		present = append(present, target)
	}
	for _, name := range config.Workloads {
		runs := 1
		if find(name).repeated {
			runs = config.Runs
		}
		for run := range runs {
			for _, target := range present {
				b := &bench{config: config, results: report.Results, name: name, target: target.Name()}
				b.logf("%s, %s, run %d of %d", title(name), target.Name(), run+1, runs)
				if name != "queries" && name != "cluster-queries" && !takesLines(target) {
					b.note("%s: it takes remote write only, and is asked in workload queries", target.Name())
					continue
				}
				err := find(name).run(ctx, b, target)
				if ctx.Err() != nil {
					return report, ctx.Err()
				}
				if err != nil {
					b.logf("FAILED: %v", err)
					report.Results.Failures = append(report.Results.Failures, fmt.Sprintf("%s, %s: %s", title(name), target.Name(), oneLine(err)))
				}
			}
		}
	}
	return report, nil
}
