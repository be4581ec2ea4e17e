package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/operator/drain"
	"github.com/tickmesh/tickmesh/operator/envoy"
)

// drainEnvoySettings are the flags of `tickmesh drain-envoy`.
type drainEnvoySettings struct {
	admin               address
	accept, timeout     span
	logFormat, logLevel oneOf
	config              string
}

func (s *drainEnvoySettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.admin = "127.0.0.1:9901"
	f.Var(&s.admin, "admin-addr", "`address` of Envoy's admin interface")
	s.accept, s.timeout = span(5*time.Second), span(30*time.Second)
	f.Var(&s.accept, "accept", "how long new connections are still taken")
	f.Var(&s.timeout, "timeout", "how long the whole drain may take")
	f.StringVar(&s.config, flagConfig, "", "YAML `file` with settings")
	s.logFormat = oneOf{value: "text", words: []string{"text", "json"}}
	f.Var(&s.logFormat, "log-format", "form of the log on standard error")
	s.logLevel = oneOf{value: "info", words: []string{"debug", "info", "warn", "error"}}
	f.Var(&s.logLevel, "log-level", "least important kind of log line")
	group(f, headingOperation, "admin-addr", "accept", "timeout", flagConfig, "log-format", "log-level")
}

func (s *drainEnvoySettings) validate() error {
	var v validation
	v.notZero("timeout", s.timeout)
	return v.err()
}

func (s *drainEnvoySettings) log() (format, level string) { return s.logFormat.value, s.logLevel.value }

// newDrainEnvoyCommand is for the pods of Envoy only: people have no use for it.
func newDrainEnvoyCommand() *cobra.Command {
	s := &drainEnvoySettings{}
	cmd := &cobra.Command{
		Use: "drain-envoy", Short: "Wait for the signal to end, then drain the Envoy beside this process", Args: cobra.NoArgs, Hidden: true,
	}
	runWith(cmd, s, []string{headingOperation}, func(ctx context.Context, logger *slog.Logger, _ io.Writer) error {
		<-ctx.Done()
		left, err := drain.Envoy(context.WithoutCancel(ctx), drain.Options{
			Address: string(s.admin), Listeners: envoy.ClientListeners(), Accept: time.Duration(s.accept), Timeout: time.Duration(s.timeout),
		})
		if err == nil {
			logger.Info("drained", "connections_left", left)
		}
		return err
	})
	return cmd
}
