// Command crash kills `tickmesh standalone` again and again while it is written
// to, and checks that nothing acknowledged is lost and nothing is made up. See
// package e2e/crash.
//
//	go run ./e2e/cmd/crash -kills 500 -seed 7
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tickmesh/tickmesh/e2e/crash"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	config := crash.DefaultConfig()
	config.Log = os.Stderr
	set := flag.NewFlagSet("crash", flag.ContinueOnError)
	set.IntVar(&config.Kills, "kills", 500, "how often to kill")
	set.Uint64Var(&config.Seed, "seed", 1, "what is written and when it is killed")
	set.IntVar(&config.Writers, "writers", config.Writers, "connections")
	set.DurationVar(&config.CycleMax, "cycle-max", config.CycleMax, "longest time from a start to a kill")
	walSync := set.String("wal-sync", "interval", "the server's --wal-sync")
	binary := set.String("binary", "", "the tickmesh binary (default: built from this module)")
	names := set.String("failpoints", "", "failpoints to kill at, separated by commas, or none (default: all)")
	flags := set.String("tickmesh-flags", strings.Join(crash.SmallFlags(), " "), "further flags of the server")
	dir := set.String("dir", os.TempDir(), "folder for the data folder")
	if err := set.Parse(args); err != nil {
		return err
	}
	if config.Kills < 1 || config.Writers < 1 || config.CycleMax <= 0 {
		return fmt.Errorf("-kills, -writers and -cycle-max have to be positive")
	}
	folder, err := os.MkdirTemp(*dir, "tickmesh-crash-")
	if err != nil {
		return err
	}
	if *binary == "" {
		if *binary, err = harness.Build(ctx, folder, "-tags=invariants"); err != nil {
			return err
		}
	}
	switch *names {
	default:
		config.Failpoints = strings.Split(*names, ",")
	case "none":
	case "":
		if config.Failpoints, err = crash.Failpoints(ctx, *binary); err != nil {
			return err
		}
	}
	report, err := crash.Run(ctx, config, crash.NewStandalone(harness.StandaloneOptions{
		Binary: *binary, DataDir: filepath.Join(folder, "data"), WALSync: *walSync, Extra: strings.Fields(*flags),
	}))
	fmt.Println(report)
	if err != nil {
		return fmt.Errorf("%w\nthe data folder is kept: %s", err, folder)
	}
	return os.RemoveAll(folder)
}
