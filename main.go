// Command tickmesh is a time-series database: `tickmesh standalone` runs all of
// it in one process. The subcommands only wire the roles together.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // small images have no time zones, which queries may name

	"github.com/spf13/cobra"

	authcommand "github.com/tickmesh/tickmesh/api/auth/command"
	certscommand "github.com/tickmesh/tickmesh/api/certificate/command"
	"github.com/tickmesh/tickmesh/api/cli"
	"github.com/tickmesh/tickmesh/api/cli/rescue"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/settings"
	etcdcommand "github.com/tickmesh/tickmesh/api/shardmap/etcdserver/command"
	"github.com/tickmesh/tickmesh/api/transport"
	nodecommand "github.com/tickmesh/tickmesh/node/command"
	draincommand "github.com/tickmesh/tickmesh/operator/drain/command"
	routercommand "github.com/tickmesh/tickmesh/router/command"
)

func main() {
	net.DefaultResolver = transport.NewResolver() // for all that resolves names, before it begins
	processor.Prepare()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		const name = "tickmesh: "
		indent := "\n" + strings.Repeat(" ", len(name))
		fmt.Fprintln(os.Stderr, name+strings.ReplaceAll(err.Error(), "\n", indent))
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:     "tickmesh",
		Version: process.Version,
		Short:   "A time-series database that speaks OpenTSDB, InfluxDB line protocol and Prometheus remote write",
		Long: `TickMesh stores time series. It takes points by the protocols that collectors
already send and answers PromQL, InfluxQL and OpenTSDB queries.

Start with:  tickmesh standalone --data-dir ./data`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return settings.WithHelp(cmd, settings.FlagError(err))
	})
	root.AddCommand(
		newStandaloneCommand(),
		nodecommand.New(),
		routercommand.New(),
		etcdcommand.New(),
		certscommand.New(),
		rescue.New(),
		authcommand.New(),
		cli.NewTokensCommand(),
		draincommand.New(),
		process.NewVersionCommand(),
		nodecommand.NewFailpointsCommand(),
	)
	root.AddCommand(cli.Commands(startVerificationServer, time.Now)...) // the clients of the public API
	for _, c := range root.Commands() {
		tellArguments(c)
	}
	return root
}

// tellArguments has a command, and those below it, say which arguments it takes when it gets others.
func tellArguments(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case strings.HasPrefix(err.Error(), "unknown command "): // it takes none, and the error says so
				return settings.WithHelp(cmd, err)
			}
			return settings.WithHelp(cmd, fmt.Errorf("%w: %s", err, cmd.UseLine()))
		}
	}
	for _, below := range c.Commands() {
		tellArguments(below)
	}
}

// knownCommand refuses the name of a command that there is not, and says what it may have meant.
func knownCommand(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		err = fmt.Errorf("%w, did you mean %s?", err, strings.Join(like, " or "))
	}
	return settings.WithHelp(cmd, err)
}
