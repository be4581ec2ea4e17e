package rules

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/promql"
)

// busy is an Engine that answers selections only after some.
type busy struct {
	*promql.API
	refusals *atomic.Int64 // that are left
}

// Queryable implements Engine.
func (b busy) Queryable(database string) storage.Queryable {
	return storage.QueryableFunc(func(fromMs, toMs int64) (storage.Querier, error) {
		q, err := b.API.Queryable(database).Querier(fromMs, toMs)
		return busyQuerier{q, b.refusals}, err
	})
}

type busyQuerier struct {
	storage.Querier
	refusals *atomic.Int64
}

// Select implements storage.Querier.
func (q busyQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if q.refusals.Add(-1) >= 0 {
		return storage.ErrSeriesSet(series.ErrOverloaded)
	}
	return q.Querier.Select(ctx, sorted, hints, matchers...)
}

// Since when alerts are active is asked for again where it is not answered, for a while, and then rules are evaluated
// without.
func TestRestoreAgain(t *testing.T) {
	path := rulesFile(t, "groups:\n- {name: g, interval: 30s, rules: [{alert: A, expr: vector(1), for: 1h}]}\n")
	for refusals, restored := range map[int64]bool{0: true, 5: true, 1 << 40: false} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t)
			begun := time.Now()
			stop := run(t, open(t, l.options(Pattern{"", path})), l, "")
			time.Sleep(15 * time.Minute)
			stop()
			engine := busy{l.api, new(atomic.Int64)}
			engine.refusals.Store(refusals)
			s := open(t, l.options(Pattern{"", path}))
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { s.Run(ctx, engine, labWriter{l, ""}) })
			time.Sleep(3 * time.Minute)
			groups, err := s.Groups(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			alerts := groups[0].AlertingRules()[0].ActiveAlerts()
			if len(alerts) != 1 || (alerts[0].ActiveAt.Sub(begun) < 5*time.Minute) != restored {
				t.Errorf("after %d refusals: %+v", refusals, alerts)
			}
			cancel()
			running.Wait()
		})
	}
}
