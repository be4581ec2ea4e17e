// Command bench measures TickMesh beside VictoriaMetrics, InfluxDB and Prometheus on this
// machine and prints a page of Markdown. See package e2e/bench for the workloads.
//
//	go run ./e2e/cmd/bench -target all -workload ingest,query -scale full -runs 3
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tickmesh/tickmesh/e2e/bench"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// options are the command line.
type options struct {
	targets, workloads, scale             string
	duration                              time.Duration
	runs, serverCPUs                      int
	dir, out                              string
	binary, etcd                          string
	walSync, flags                        string
	victoriaMetrics, tickTock             string // programs,
	victoriaMetricsSource, tickTockSource string // or what they are built from
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.targets, "target", "all", "servers to measure: all, or a list of tickmesh, ticktock, victoria-metrics, influxdb, prometheus; and sink, which reads and stores nothing")
	set.StringVar(&o.workloads, "workload", "all", "workloads: all, or a list of numbers or "+strings.Join(bench.Workloads(), ", "))
	set.StringVar(&o.scale, "scale", "small", "size of the work: small, full or large")
	set.DurationVar(&o.duration, "duration", 0, "of one saturated run (default: by scale)")
	set.IntVar(&o.runs, "runs", 3, "repetitions of the ingest, query and cluster workloads, 1 to 20")
	set.IntVar(&o.serverCPUs, "server-cpus", 0, "cores that the server is pinned to; the client gets the others (default: half of the machine's)")
	set.StringVar(&o.dir, "dir", os.TempDir(), "folder for data folders")
	set.StringVar(&o.out, "out", "", "file for the page (default: standard output)")
	set.StringVar(&o.binary, "binary", "", "the tickmesh binary (default: built from this module)")
	set.StringVar(&o.etcd, "etcd", "", "the program e2e/cmd/etcd, for clusters (default: built from this module)")
	set.StringVar(&o.victoriaMetrics, "victoria-metrics", "", "a victoria-metrics binary that was built from its sources (default: that of Debian's package)")
	set.StringVar(&o.tickTock, "ticktock", "", "the binary bin/tt of TickTock, which target ticktock needs")
	set.StringVar(&o.tickTockSource, "ticktock-source", os.Getenv("TICKTOCK_SOURCE"), "a git repository of TickTock, which is built, unless -ticktock is given (environment: TICKTOCK_SOURCE)")
	set.StringVar(&o.victoriaMetricsSource, "victoria-metrics-source", os.Getenv("VICTORIA_METRICS_SOURCE"), "a git repository of VictoriaMetrics, which is built, unless -victoria-metrics is given (environment: VICTORIA_METRICS_SOURCE)")
	set.StringVar(&o.walSync, "wal-sync", "interval", "tickmesh's --wal-sync")
	set.StringVar(&o.flags, "tickmesh-flags", "", "further flags of tickmesh standalone and node, separated by spaces")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if o.runs < 1 || o.runs > 20 {
		return o, fmt.Errorf("-runs %d: want 1 to 20", o.runs)
	}
	if o.duration < 0 || o.duration > time.Hour {
		return o, fmt.Errorf("-duration %s: want 0 to 1h", o.duration)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	config, err := configure(o, stderr)
	if err != nil {
		return err
	}
	config.Command = "bench " + strings.Join(args, " ")
	if config.Dir, err = os.MkdirTemp(o.dir, "tickmesh-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(config.Dir)
	if config.Targets, err = targets(ctx, o, config.Dir, bench.NeedsCluster(config.Workloads)); err != nil {
		return err
	}
	if err := harness.PinSelf(config.ClientCPUs); err != nil {
		return err
	}
	report, runErr := bench.Run(ctx, config)
	page := stdout
	if o.out != "" {
		file, err := os.Create(o.out)
		if err != nil {
			return err
		}
		defer file.Close()
		page = file
	}
	if err := report.WriteMarkdown(page); err != nil {
		return err
	}
	if runErr != nil {
		return runErr
	}
	if failed := len(report.Results.Failures); failed > 0 {
		return fmt.Errorf("%d runs failed; the page lists them", failed)
	}
	return nil
}

func configure(o options, stderr io.Writer) (bench.Config, error) {
	scale, err := bench.ScaleNamed(o.scale)
	if err != nil {
		return bench.Config{}, err
	}
	if o.duration > 0 {
		scale.Duration = o.duration
	}
	names, err := bench.SelectWorkloads(o.workloads)
	if err != nil {
		return bench.Config{}, err
	}
	available, err := harness.AvailableCPUs()
	if err != nil {
		return bench.Config{}, err
	}
	server, client, shared, err := harness.SplitCPUs(available, cmp.Or(o.serverCPUs, max(1, len(available)/2)))
	return bench.Config{
		Workloads: names, Scale: scale, Runs: o.runs, ServerCPUs: server, ClientCPUs: client,
		Shared: shared, Log: stderr,
	}, err
}

// targets makes the targets of the list; what no binary is given for is built.
func targets(ctx context.Context, o options, dir string, clusters bool) ([]target.Target, error) {
	list := o.targets
	if list == "all" {
		list = "tickmesh,ticktock,victoria-metrics,influxdb,prometheus"
	}
	var found []target.Target
	for _, name := range strings.Split(list, ",") {
		switch name {
		case "tickmesh":
			tickmesh := target.TickMesh{WALSync: o.walSync, Extra: strings.Fields(o.flags)}
			var err error
			build := func(ctx context.Context, dir string) (string, error) { return harness.Build(ctx, dir) }
			if tickmesh.Binary, err = program(ctx, o.binary, dir, build); err != nil {
				return nil, err
			}
			if clusters {
				if tickmesh.Etcd, err = program(ctx, o.etcd, dir, harness.BuildEtcd); err != nil {
					return nil, err
				}
			}
			found = append(found, tickmesh)
		case "victoria-metrics":
			source, err := source(ctx, o.victoriaMetrics, o.victoriaMetricsSource, dir, target.BuildVictoriaMetrics)
			if err != nil {
				return nil, err
			}
			found = append(found, target.VictoriaMetrics{Program: source.Program, Built: source.Version})
		case "ticktock":
			source, err := source(ctx, o.tickTock, o.tickTockSource, dir, target.BuildTickTock)
			if err != nil {
				return nil, err
			}
			found = append(found, target.TickTock{Program: source.Program, Built: source.Version})
		case "sink":
			path, err := harness.BuildProgram(ctx, filepath.Join(dir, "sink"), "./e2e/cmd/sink")
			if err != nil {
				return nil, err
			}
			found = append(found, target.Sink{Program: path})
		case "influxdb":
			found = append(found, target.InfluxDB{})
		case "prometheus":
			found = append(found, target.Prometheus{})
		default:
			return nil, fmt.Errorf("-target %q: want all, tickmesh, ticktock, victoria-metrics, influxdb, prometheus or sink", name)
		}
	}
	return found, nil
}

// source returns a peer's program: the one that is named, whose path is made absolute, as servers are started in folders of
// their own, or else what is built from its repository; none if neither is given.
func source(ctx context.Context, program, repository, dir string, build func(ctx context.Context, repository, dir string) (target.Source, error)) (target.Source, error) {
	switch {
	case program != "":
		path, err := filepath.Abs(program)
		return target.Source{Program: path}, err
	case repository != "":
		fmt.Fprintln(os.Stderr, "building", repository)
		return build(ctx, repository, dir)
	default:
		return target.Source{}, nil
	}
}

// program returns the absolute path of a program, which is built when none is given.
func program(ctx context.Context, path, dir string, build func(ctx context.Context, dir string) (string, error)) (string, error) {
	if path == "" {
		return build(ctx, dir)
	}
	return filepath.Abs(path)
}
