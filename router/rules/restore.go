package rules

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/tickmesh/tickmesh/api/backoff"
)

// restoreTimeout is how long the state of one group's alerts is asked for, in all.
const restoreTimeout = 20 * time.Second

// retrying asks again what a queryable does not answer. The rule manager restores a group's alerts once, and those whose
// series it could not read begin anew; here a busy moment, or shards that elect a leader, are reasons, which pass.
func retrying(q storage.Queryable) storage.Queryable {
	return storage.QueryableFunc(func(fromMs, toMs int64) (storage.Querier, error) {
		querier, err := q.Querier(fromMs, toMs)
		return &retryingQuerier{Querier: querier}, err
	})
}

type retryingQuerier struct {
	storage.Querier
	until time.Time // zero: nothing has failed yet
}

// Select implements storage.Querier.
func (q *retryingQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	wait := backoff.Exponential{Min: 100 * time.Millisecond, Max: 2 * time.Second}
	for failures := 1; ; failures++ {
		set := q.Querier.Select(ctx, sorted, hints, matchers...)
		if set.Err() == nil {
			return set
		}
		if q.until.IsZero() {
			q.until = time.Now().Add(restoreTimeout)
		}
		delay := wait.Delay(failures)
		if time.Now().Add(delay).After(q.until) {
			return set
		}
		again := time.NewTimer(delay)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return set
		}
	}
}
