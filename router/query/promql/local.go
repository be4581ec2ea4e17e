package promql

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// dialectRules is the language of queries that rules make, as metrics and admission control name it.
const dialectRules = "rules"

// errNoVector is how Prometheus refuses what a rule cannot be made of.
var errNoVector = errors.New("rule result is not a vector or scalar")

// Evaluate returns what an expression of a rule is at a time. It passes admission control as clients' queries
// do, beside at most Options.RulesRunningMax others of rules. Errors: those of clients' queries.
func (a *API) Evaluate(ctx context.Context, database, text string, at time.Time) (result promql.Vector, err error) {
	ctx, leave, err := a.enterRule(ctx, database, text)
	if err != nil {
		return nil, err
	}
	defer func() { leave(err) }()
	x := &exchange{ctx: ctx, entry: admission.Of(ctx), database: database, form: url.Values{"query": {text}}, reader: a.shell.Reader(scan.Consistency{})}
	expr, err := a.expression(x, func(err error) error { return err })
	if err != nil {
		return nil, err
	}
	s := span{start: at, end: at}
	steps, err := a.takeSubqueries(x, text, expr, s)
	if err != nil {
		return nil, err
	}
	q, err := a.newQuery(x, question{expr: expr, lookback: a.options.LookbackDelta, span: s, subquerySteps: steps})
	if err != nil {
		return nil, err
	}
	defer q.Close()
	evaluated := q.Exec(ctx)
	if evaluated.Err != nil {
		return nil, evaluated.Err
	}
	switch v := evaluated.Value.(type) {
	case promql.Vector:
		return v, nil
	case promql.Scalar:
		return promql.Vector{{T: v.T, F: v.V}}, nil
	}
	return nil, errNoVector
}

// enterRule waits for a place among the queries of rules, and then for one among all.
func (a *API) enterRule(ctx context.Context, database, text string) (inside context.Context, leave func(error), err error) {
	select {
	case a.rulePlaces <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	inside, entry, err := a.shell.Admission.Begin(ctx, admission.Query{Dialect: dialectRules, Database: database, Text: text})
	if err != nil {
		<-a.rulePlaces
		return nil, nil, err
	}
	return inside, func(err error) {
		entry.End(err)
		<-a.rulePlaces
	}, nil
}

// Queryable returns the series of a database to those who read what rules have written. Each selection passes
// admission control, as in Evaluate, and counts until the next one or the end of its querier.
func (a *API) Queryable(database string) storage.Queryable {
	return storage.QueryableFunc(func(fromMs, toMs int64) (storage.Querier, error) {
		all, err := (&queryable{source: a.shell.Source, database: database, parallel: 1, deduplicateMs: a.deduplicateMs()}).Querier(fromMs, toMs)
		return &ruleQuerier{Querier: all, api: a, database: database}, err
	})
}

// ruleQuerier is a querier whose selections pass admission control one by one.
type ruleQuerier struct {
	storage.Querier
	api      *API
	database string
	leave    func(error) // of the last selection; nil: there is none
}

// Select implements storage.Querier.
func (q *ruleQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	q.end()
	text := ""
	for _, m := range matchers {
		text += " " + m.String()
	}
	ctx, leave, err := q.api.enterRule(ctx, q.database, "select"+text)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	q.leave = leave
	return q.Querier.Select(ctx, sorted, hints, matchers...)
}

// Close implements storage.Querier.
func (q *ruleQuerier) Close() error {
	q.end()
	return q.Querier.Close()
}

func (q *ruleQuerier) end() {
	if q.leave != nil {
		q.leave(nil)
		q.leave = nil
	}
}
