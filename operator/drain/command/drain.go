package command

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/operator/drain"
	"github.com/tickmesh/tickmesh/operator/envoy"
)

// drainEnvoySettings are the flags of `tickmesh drain-envoy`.
type drainEnvoySettings struct {
	admin           settings.Address
	accept, timeout settings.Duration
	settings.Log
}

func (s *drainEnvoySettings) Define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.admin = "127.0.0.1:9901"
	f.Var(&s.admin, "admin-addr", "`address` of Envoy's admin interface")
	s.accept, s.timeout = settings.Duration(5*time.Second), settings.Duration(30*time.Second)
	f.Var(&s.accept, "accept", "how long new connections are still taken")
	f.Var(&s.timeout, "timeout", "how long the whole drain may take")
	s.Log.Define(f)
	settings.Group(f, settings.HeadingOperation, "admin-addr", "accept", "timeout")
}

func (s *drainEnvoySettings) Validate() error {
	var v settings.Validation
	v.NotZero("timeout", s.timeout)
	return v.Err()
}

// New returns `tickmesh drain-envoy`, for the pods of Envoy only: people have no use for it.
func New() *cobra.Command {
	s := &drainEnvoySettings{}
	cmd := &cobra.Command{
		Use: "drain-envoy", Short: "Wait for the signal to end, then drain the Envoy beside this process", Args: cobra.NoArgs, Hidden: true,
	}
	settings.Bind(cmd, s, []string{settings.HeadingOperation}, func(ctx context.Context, logger *slog.Logger, _ io.Writer) error {
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
