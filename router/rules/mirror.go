package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
	promrules "github.com/prometheus/prometheus/rules"
	"golang.org/x/sync/errgroup"

	"github.com/tickmesh/tickmesh/api/series"
)

// mirrorKept is how long what a mirror has made is answered.
const mirrorKept = 10 * time.Second

// errIdle answers before the service runs, and after.
var errIdle = fmt.Errorf("%w: rules are not evaluated now: try again", series.ErrUnavailable)

// mirror answers what the rules of a database are like where another process evaluates them. It evaluates alerting
// rules when it is asked, restores their state from ALERTS_FOR_STATE as Prometheus does at a start, and writes and
// sends nothing. So every router answers the same, without knowing the address of another. What is in no series is not
// known: when recording rules were evaluated, and alerts that their keep_firing_for alone keeps.
type mirror struct {
	service  *Service
	database string

	mu struct {
		sync.Mutex
		last    *evaluation // nil: none yet
		running *evaluation // nil: none
	}
}

// evaluation is one of all rules of a set. Its results are there when done is closed.
type evaluation struct {
	of     *ruleSet
	done   chan struct{}
	at     time.Time // when it ended
	groups []*promrules.Group
	err    error
}

// groups returns the groups of a set, made at most mirrorKept ago. Those who come meanwhile get the same, and an
// evaluation goes on when they leave: one that takes longer than anybody waits is there for who asks next. Errors: the
// context's; errIdle; those of rules are theirs.
func (m *mirror) groups(ctx context.Context, set *ruleSet) ([]*promrules.Group, error) {
	m.mu.Lock()
	if last := m.mu.last; last != nil && last.of == set && time.Since(last.at) < mirrorKept {
		m.mu.Unlock()
		return last.groups, nil
	}
	e := m.mu.running
	if e == nil {
		e = &evaluation{of: set, done: make(chan struct{})}
		if !m.service.goOn(func(ctx context.Context, engine Engine) { m.run(ctx, engine, e) }) {
			m.mu.Unlock()
			return nil, errIdle
		}
		m.mu.running = e
	}
	m.mu.Unlock()
	select {
	case <-e.done:
		return e.groups, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run evaluates until ctx ends, which is the service's.
func (m *mirror) run(ctx context.Context, engine Engine, e *evaluation) {
	e.groups = m.evaluate(ctx, engine, e.of, time.Now())
	e.at = time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.running = nil
	if ctx.Err() != nil {
		e.groups, e.err = nil, errIdle
	} else {
		m.mu.last = e
	}
	close(e.done)
}

// Bounds of the work of a mirror.
const (
	mirrorParallel = 4               // groups at once
	mirrorBehind   = 2 * time.Second // after which what was evaluated elsewhere is likely to be written
)

func (m *mirror) evaluate(ctx context.Context, engine Engine, set *ruleSet, now time.Time) []*promrules.Group {
	s := m.service
	o := s.managerOptions(ctx, m.database, engine, &loader{s.parser, set})
	o.Logger = slog.New(slog.DiscardHandler) // the answer tells
	o.Metrics = promrules.NewGroupMetrics(nil)
	byKey, errs := promrules.NewManager(&o).LoadGroups(s.options.Interval, s.options.ExternalLabels, s.options.ExternalURL.String(), nil, false, set.files...)
	if len(errs) > 0 {
		s.options.Logger.Error("BUG: rules that were checked are not loaded", "error", errors.Join(errs...))
		return nil
	}
	groups := slices.SortedFunc(maps.Values(byKey), func(a, b *promrules.Group) int {
		return cmp.Or(cmp.Compare(a.File(), b.File()), cmp.Compare(a.Name(), b.Name()))
	})
	var running errgroup.Group
	running.SetLimit(mirrorParallel)
	for _, g := range groups {
		running.Go(func() error {
			evaluateAlerts(ctx, g, g.EvalTimestamp(now.Add(-mirrorBehind).UnixNano()), &o)
			return nil
		})
	}
	_ = running.Wait()
	return groups
}

// evaluateAlerts brings the alerts of a group that was just loaded to what they are at a time: those that are active
// now, and since when they are, which series tell.
func evaluateAlerts(ctx context.Context, g *promrules.Group, at time.Time, o *promrules.ManagerOptions) {
	alerting := g.AlertingRules()
	query := onceFor(o.QueryFunc)
	for range 2 { // pending, then firing if they have been active for long enough
		for _, r := range alerting {
			begun := time.Now()
			_, err := r.Eval(ctx, g.QueryOffset(), at, query, o.ExternalURL, g.Limit())
			if r.SetLastError(err); err != nil {
				r.SetHealth(promrules.HealthBad)
			} else {
				r.SetHealth(promrules.HealthGood)
			}
			r.SetEvaluationDuration(time.Since(begun))
			r.SetEvaluationTimestamp(at)
		}
		if len(alerting) > 0 && !alerting[0].Restored() {
			g.RestoreForState(at)
		}
	}
}

// onceFor returns a function that asks each query once and answers it from then on.
func onceFor(query promrules.QueryFunc) promrules.QueryFunc {
	type question struct {
		expr string
		atMs int64
	}
	known := map[question]promql.Vector{}
	return func(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
		q := question{expr, at.UnixMilli()}
		if v, ok := known[q]; ok {
			return v, nil
		}
		v, err := query(ctx, expr, at)
		if err == nil {
			known[q] = v
		}
		return v, err
	}
}
