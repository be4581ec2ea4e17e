package process

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/api/tenancy"
)

// DatabaseRules are the rules of databases of one process: of its file, or none. Its methods
// do nothing on nil.
type DatabaseRules struct {
	file    *tenancy.File
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// Follow reads the file and follows it until Close. It returns nil if none is named.
func (s *DatabaseRuleFlags) Follow(ctx context.Context, logger *slog.Logger) (*DatabaseRules, error) {
	if s.DatabasesFile == "" {
		return nil, nil
	}
	file, err := tenancy.OpenFile(s.DatabasesFile, logger)
	if err != nil {
		return nil, fmt.Errorf("--databases-file: %w", err)
	}
	r := &DatabaseRules{file: file}
	ctx, r.cancel = context.WithCancel(ctx)
	r.running.Go(func() { file.Run(ctx) })
	return r, nil
}

// Current returns the rules of now, or nil if there are none.
func (r *DatabaseRules) Current() *tenancy.Rules {
	if r == nil {
		return nil
	}
	return r.file.Current()
}

// Register adds the file's metrics.
func (r *DatabaseRules) Register(registry prometheus.Registerer) {
	if r != nil {
		registry.MustRegister(r.file)
	}
}

// OnChange calls changed with the rules of now and each time that they change.
func (r *DatabaseRules) OnChange(changed func(*tenancy.Rules)) {
	if r != nil {
		r.file.OnChange(changed)
	}
}

// Close ends following.
func (r *DatabaseRules) Close() {
	if r != nil {
		r.cancel()
		r.running.Wait()
	}
}

// DatabaseRuleFlags are the flags that name the file of rules of databases.
type DatabaseRuleFlags struct{ DatabasesFile string }

// Define defines the flag, below HeadingAccess.
func (s *DatabaseRuleFlags) Define(f *pflag.FlagSet) {
	f.StringVar(&s.DatabasesFile, "databases-file", "", "`file` with what holds for each database: retention, series, rates, queries; the same for all nodes and routers")
	settings.Group(f, settings.HeadingAccess, "databases-file")
}
