// Command scale prints how far a cluster goes, as tables of Markdown. See package e2e/scale.
//
//	go run ./e2e/cmd/scale > tables.md
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/scale"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	short := flag.Bool("short", false, "small sizes only")
	planner := flag.Bool("planner", true, "place and move, and compute what follows")
	servers := flag.Bool("servers", true, "start the real program with empty shards")
	flag.Parse()
	if err := run(ctx, *short, *planner, *servers, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, short, planner, servers bool, out, progress io.Writer) error {
	var cases []scale.Case
	if planner {
		cases = scale.Cases(short)
	}
	rows, beats, err := scale.Measure(cases, func(c scale.Case) { fmt.Fprintf(progress, "%+v\n", c) })
	if err != nil {
		return err
	}
	var empty []scale.Empty
	if servers {
		if empty, err = measureServers(ctx, short, progress); err != nil {
			return err
		}
	}
	return scale.WriteTables(out, rows, beats, empty)
}

func measureServers(ctx context.Context, short bool, progress io.Writer) (empty []scale.Empty, err error) {
	dir, err := os.MkdirTemp("", "scale-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary, err := harness.Build(ctx, dir, "-trimpath")
	if err != nil {
		return nil, err
	}
	sizes := [][2]int{{1, settings.ShardsDefault}, {1, 1024}, {1, settings.ShardsMax}, {4, 128}, {8, 128}, {16, 128}, {4, shardmap.ShardsMax}}
	if short {
		sizes = sizes[:1]
	}
	for _, s := range sizes {
		fmt.Fprintf(progress, "%d nodes, %d empty shards\n", s[0], s[1])
		e, err := scale.MeasureEmpty(ctx, binary, dir, s[0], s[1])
		if err != nil {
			return nil, err
		}
		empty = append(empty, e)
	}
	return empty, nil
}
