package promql

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Selection describes what one expression reads, and how.
type Selection struct {
	Source   scan.Source
	Database string
	// Expr is the expression; nil: it is not known, and all samples are read.
	Expr parser.Expr
	// Lookback is how old a sample may be to count at a step.
	Lookback time.Duration
	Parallel int // visitors of one scan; 0: one
}

// Queryable returns the series of a source to Prometheus' engine, for the evaluation of
// Selection.Expr alone. What a querier selects is read when it is asked for and held until
// the last reference is gone; admission control entry of the context is charged for it.
func (s Selection) Queryable() storage.Queryable {
	q := &queryable{source: s.Source, database: s.Database, parallel: s.Parallel}
	if s.Expr != nil {
		q.plan = planOf(s.Expr, s.Lookback)
	}
	return q
}

// computed is series that were computed before, and the selector that stands for them: that with this very matcher.
type computed struct {
	mark *labels.Matcher
	runs [][]column
}

// computedOf returns what a selector stands for, or nil.
func (q *queryable) computedOf(matchers []*labels.Matcher) *computed {
	for _, c := range q.computed {
		if len(matchers) == 1 && matchers[0] == c.mark {
			return c
		}
	}
	return nil
}
