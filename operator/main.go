// Command tickmesh-operator runs clusters of TickMesh on Kubernetes: it makes what each
// TickMeshCluster asks for, and keeps it so.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // the image has no time zones, which schedules may name

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/controller"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/ownership"
	"github.com/tickmesh/tickmesh/operator/pki"
	"github.com/tickmesh/tickmesh/operator/reconcile"
	"github.com/tickmesh/tickmesh/operator/silence"
	"github.com/tickmesh/tickmesh/operator/upgrade"
)

func main() {
	net.DefaultResolver = transport.NewResolver() // for all that resolves names, before it begins
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := newCommand(os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tickmesh-operator:", err)
		os.Exit(1)
	}
}

// Which operator acts is a lease in the namespace that they run in. A right to create cannot name what.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=tickmesh-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=tickmesh-system,resources=leases,resourceNames=tickmesh-operator,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=tickmesh-system,resources=events,verbs=create;patch

// settings are the flags.
type settings struct {
	image, envoyImage       string
	namespace               string // of the operator
	watched                 []string
	metricsAddr, healthAddr string
	leaderElection          bool
	concurrency             int
	upgradePause            time.Duration
	logFormat, logLevel     string
}

func (s *settings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.image, "image", "", "`image` of TickMesh for clusters that name none")
	f.StringVar(&s.envoyImage, "envoy-image", "", "`image` of Envoy for clusters that name none")
	f.StringVar(&s.namespace, "operator-namespace", os.Getenv("POD_NAMESPACE"), "`namespace` that the operator runs in (default: the environment's POD_NAMESPACE)")
	f.StringSliceVar(&s.watched, "namespaces", nil, "`namespaces` to look after, with commas between; empty: all")
	f.StringVar(&s.metricsAddr, "metrics-addr", ":8080", "where metrics are served; 0: nowhere")
	f.StringVar(&s.healthAddr, "health-addr", ":8081", "where /healthz and /readyz are served; 0: nowhere")
	f.BoolVar(&s.leaderElection, "leader-election", true, "act only when elected, so that several can run")
	f.IntVar(&s.concurrency, "concurrency", 2, "clusters that are looked at at the same time")
	f.DurationVar(&s.upgradePause, "upgrade-pause", upgrade.PauseDefault, "time between the clusters that a new operator changes")
	f.StringVar(&s.logFormat, "log-format", "json", "form of the log on standard error: text or json")
	f.StringVar(&s.logLevel, "log-level", "info", "least important kind of log line: debug, info, warn or error")
}

// Bounds of settings.
const (
	concurrencyMax  = 64
	upgradePauseMax = 24 * time.Hour
)

func (s *settings) validate() error {
	var problems []error
	refuse := func(flag, expected string) {
		problems = append(problems, fmt.Errorf("--%s: expected %s", flag, expected))
	}
	if s.image == "" {
		refuse("image", "the image of TickMesh")
	}
	if s.envoyImage == "" {
		refuse("envoy-image", "the image of Envoy")
	}
	if s.namespace == "" {
		refuse("operator-namespace", "the namespace that the operator runs in")
	}
	if s.concurrency < 1 || s.concurrency > concurrencyMax {
		refuse("concurrency", fmt.Sprintf("1 to %d", concurrencyMax))
	}
	if s.upgradePause < 0 || s.upgradePause > upgradePauseMax {
		refuse("upgrade-pause", fmt.Sprintf("0s to %s", upgradePauseMax))
	}
	if s.logFormat != "text" && s.logFormat != "json" {
		refuse("log-format", "text or json")
	}
	if new(slog.Level).UnmarshalText([]byte(s.logLevel)) != nil {
		refuse("log-level", "debug, info, warn or error")
	}
	return errors.Join(problems...)
}

func newCommand(log io.Writer) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use: "tickmesh-operator", Short: "Run clusters of TickMesh on Kubernetes", Args: cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.validate(); err != nil {
				return err
			}
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("find Kubernetes: %w", err)
			}
			logger := s.logger(log)
			setLibraryLogger(logger)
			return s.run(cmd.Context(), config, logger)
		},
	}
	s.define(cmd.Flags())
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newDefinitionsCommand())
	return cmd
}

func (s *settings) logger(w io.Writer) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(s.logLevel)) // it was validated
	options := &slog.HandlerOptions{Level: least}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// setLibraryLogger has the libraries write their lines as the operator does. They keep it
// for the whole process, and nothing of them may run yet.
func setLibraryLogger(log *slog.Logger) {
	logger := logr.FromSlogHandler(log.Handler())
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}

// run runs the operator until ctx ends, or until another one was elected.
func (s *settings) run(ctx context.Context, config *rest.Config, log *slog.Logger) error {
	logger := logr.FromSlogHandler(log.Handler())
	scheme, err := controller.Scheme()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: logger, Cache: controller.CacheOptions(s.watched),
		Metrics:        metricsserver.Options{BindAddress: s.metricsAddr},
		LeaderElection: s.leaderElection, LeaderElectionID: ownership.LeaseName, LeaderElectionNamespace: s.namespace,
		LeaderElectionReleaseOnCancel: true, HealthProbeBindAddress: s.healthAddr,
		Client: client.Options{},
	})
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	told, err := reconcile.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	meshes := mesh.NewPool(mesh.Connect)
	scope := &reconcile.Scope{
		Client: manager.GetClient(), Reader: manager.GetAPIReader(), Events: manager.GetEventRecorder(objects.FieldOwner),
		Now: time.Now, PKI: pki.Defaults(), Meshes: meshes, Metrics: told, OpenEtcd: etcd.Connect,
		Release: strings.Join([]string{process.Version, s.image, s.envoyImage}, " "), Turns: upgrade.NewTurns(s.upgradePause, time.Now()),
		Defaults: build.Facts{Image: s.image, EnvoyImage: s.envoyImage, OperatorNamespace: s.namespace},
	}
	if err := controller.NewCluster(scope).SetUp(manager, s.concurrency); err != nil {
		return fmt.Errorf("set up the controller of clusters: %w", err)
	}
	err = errors.Join(controller.NewBackup(scope).SetUp(manager, s.concurrency),
		controller.NewRestore(scope).SetUp(manager, s.concurrency), controller.NewSchedule(scope).SetUp(manager, s.concurrency))
	if err != nil {
		return fmt.Errorf("set up the controllers of backups: %w", err)
	}
	takenOut, err := silence.NewTakenOut(metrics.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := manager.Add(&silence.Watch{Client: manager.GetClient(), Ask: silence.Dial, TakenOut: takenOut, Log: log}); err != nil {
		return fmt.Errorf("watch for machines that are silent: %w", err)
	}
	if err := errors.Join(manager.AddHealthzCheck("ping", healthz.Ping), manager.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return err
	}
	err = manager.Start(ctx)
	return errors.Join(err, meshes.Close())
}
