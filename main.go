// Command tickmesh is a time-series database: `tickmesh standalone` runs all of
// it in one process. The subcommands only wire the roles together.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRootCommand()
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "tickmesh: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tickmesh",
		Short: "A time-series database that speaks OpenTSDB, InfluxDB line protocol and Prometheus remote write",
		Long: `TickMesh stores time series. It takes points by the protocols that collectors
already send and answers OpenTSDB queries.

Start with:  tickmesh standalone --data-dir ./data`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w\nsee `%s --help`", err, cmd.CommandPath())
	})
	root.AddCommand(newStandaloneCommand(), newVersionCommand(), newFailpointsCommand())
	return root
}
