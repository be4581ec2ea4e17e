package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/auth"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// frontAccess is who may do what in a front, and what holds for its databases.
type frontAccess struct {
	authenticator access.Authenticator // nil: everybody may do everything
	users         *auth.Followed
	meter         *tenant.Meter
	rules         *process.DatabaseRules
	directory     *tenant.Directory // nil: databases cannot be made or dropped

	running sync.WaitGroup // what counts series
	cancel  context.CancelFunc
}

// openAccess reads the file of users and follows it until close. From then on b goes by it.
func (s *Settings) openAccess(ctx context.Context, b *Backend, processors *processor.Pool, registry *process.Registry, logger *slog.Logger) (*frontAccess, error) {
	a := &frontAccess{meter: tenant.NewMeter(tenant.MeterOptions{}), rules: b.Rules}
	ctx, a.cancel = context.WithCancel(ctx)
	registry.MustRegister(a.meter)
	authenticator, err := s.Flags.Follow(ctx, b.Tokens, processors, logger)
	if err != nil {
		a.close()
		return nil, err
	}
	if authenticator != nil {
		if _, err := authenticator.Named(s.udpUser); s.udpUser != "" && err != nil {
			authenticator.Close()
			a.close()
			return nil, fmt.Errorf("--udp-user %s: %w", s.udpUser, err)
		}
		a.authenticator, a.users = authenticator, authenticator
		authenticator.Register(registry)
	} else if exposed := s.exposed(); len(exposed) > 0 {
		logger.Warn("everybody who reaches this server may read, write and delete everything: name users by --auth-file, or listen on 127.0.0.1",
			"listeners", strings.Join(exposed, " "))
	}
	a.rules.Register(registry)
	a.rules.OnChange(a.meter.SetRules)
	if b.Marks != nil {
		a.directory = tenant.NewDirectory(tenant.DirectoryOptions{Source: b.Source, Deleter: b.Deleter, Marks: b.Marks, Rules: b.Rules.Current})
	}
	b.access = a
	return a, nil
}

func (a *frontAccess) close() {
	a.users.Close()
	a.cancel()
	a.running.Wait()
}

// queryLimits returns what the rules say of a database's queries.
func (a *frontAccess) queryLimits(database string) admission.Limits {
	if a == nil {
		return admission.Limits{}
	}
	q := a.rules.Current().LimitsOf(database).Query
	bound := func(n int64) int64 { return max(n, 0) } // what is unlimited is bounded by flags only
	return admission.Limits{
		SeriesMax: bound(q.SeriesMax), SamplesMax: bound(q.SamplesMax), BytesMax: bound(q.MemoryBytes), RunningMax: int(bound(q.RunningMax)),
	}
}

// queried notes a query that has ended.
func (a *frontAccess) queried(q admission.Query, took time.Duration) {
	if a == nil {
		return
	}
	account := a.meter.Find([]byte(q.Database))
	if account == nil {
		account = a.meter.Open(q.Database)
	}
	account.Queried(took)
}

// countSeries has the series of databases counted, for metrics.
func (a *frontAccess) countSeries(ctx context.Context, source scan.Source) {
	a.running.Go(func() {
		a.meter.CountSeries(ctx, func(ctx context.Context, database string) (int64, error) {
			const nobody = 1 // of whom the key is told; all are counted
			return source.Series(ctx, &scan.Selector{Database: database, MetricAny: true}, nobody, func(series.Key) error { return nil })
		})
	})
}
