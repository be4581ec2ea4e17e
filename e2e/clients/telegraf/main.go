// Command telegraf is Telegraf's agent with the few plugins that the tests next door
// need. The agent, its buffers and its plugins are those of the release that go.mod
// names, unchanged; only the list of plugins is shorter, which is what makes it quick to
// compile.
//
//	telegraf --config FILE
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/logger"
	_ "github.com/influxdata/telegraf/plugins/inputs/cpu"
	_ "github.com/influxdata/telegraf/plugins/inputs/mem"
	_ "github.com/influxdata/telegraf/plugins/inputs/system"
	_ "github.com/influxdata/telegraf/plugins/inputs/tail"
	_ "github.com/influxdata/telegraf/plugins/outputs/http"
	_ "github.com/influxdata/telegraf/plugins/outputs/influxdb"
	_ "github.com/influxdata/telegraf/plugins/outputs/influxdb_v2"
	_ "github.com/influxdata/telegraf/plugins/outputs/opentsdb"
	_ "github.com/influxdata/telegraf/plugins/parsers/influx"
	_ "github.com/influxdata/telegraf/plugins/serializers/prometheusremotewrite"
)

func main() {
	file := flag.String("config", "", "the `file` of the configuration")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *file); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "telegraf:", err)
		os.Exit(1)
	}
}

// run is what Telegraf's own command does with a configuration file, without its checks
// of the system.
func run(ctx context.Context, path string) error {
	c := config.NewConfig()
	if err := c.LoadConfig(path); err != nil {
		return err
	}
	if err := logger.SetupLogging(&logger.Config{Debug: c.Agent.Debug, Quiet: c.Agent.Quiet, LogTarget: "stderr"}); err != nil {
		return err
	}
	return agent.NewAgent(c).Run(ctx)
}
