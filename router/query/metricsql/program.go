package metricsql

import (
	"context"
	"errors"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
)

// Steps are the times of a query: FirstMs, FirstMs+StepMs, … up to LastMs.
type Steps struct{ FirstMs, LastMs, StepMs int64 }

// Count returns how many there are.
func (s Steps) Count() int { return int((s.LastMs-s.FirstMs)/s.StepMs) + 1 }

// Row is a series with its values at the steps; NaN: there is none.
type Row struct {
	Metric labels.Labels
	Values []float64
}

// Samples are those of one series, without staleness markers. They belong to who asked for them.
type Samples struct {
	Metric labels.Labels
	Times  []int64
	Values []float64
}

// Engine evaluates PromQL.
type Engine interface {
	// Rows returns what an expression is at the steps. A selector of Placeholder with number i, which no client can write, stands for
	// computed[i]. Scalar: the rows are one, without labels.
	Rows(ctx context.Context, expr string, computed [][]Row) (rows []Row, scalar bool, err error)
	// Samples returns the samples in [fromMs, toMs] of the series that a selector picks.
	Samples(ctx context.Context, selector string, fromMs, toMs int64) ([]Samples, error)
	// Take charges memory to the query.
	Take(bytes int64) error
}

// PlaceholderLabel is the label of selectors that stand for what was computed. Compile refuses it in what clients send.
const PlaceholderLabel = "__metricsql__"

// Placeholder returns the selector of what has a number.
func Placeholder(number int) string {
	return "{" + PlaceholderLabel + "=" + strconv.Quote(strconv.Itoa(number)) + "}"
}

// Program is a compiled expression.
type Program struct {
	// Text is PromQL, in which selectors of placeholders stand for the nodes.
	Text  string
	nodes []node
}

// node is something that PromQL has not. It may use what was computed before it.
type node interface {
	evaluate(ctx context.Context, e *evaluation) ([]Row, error)
}

// evaluation is a program while it is evaluated.
type evaluation struct {
	engine   Engine
	steps    Steps
	computed [][]Row
}

// ErrSameLabels tells of a result with two series of the same labels.
var ErrSameLabels = errors.New("vector cannot contain metrics with the same labelset")

// Evaluate returns what the nodes are at the steps, by their numbers. Errors: ErrSameLabels, and those of the engine and the context.
func (p *Program) Evaluate(ctx context.Context, engine Engine, steps Steps) ([][]Row, error) {
	e := &evaluation{engine: engine, steps: steps}
	for _, n := range p.nodes {
		rows, err := n.evaluate(ctx, e)
		if err != nil {
			return nil, err
		}
		kept, known := rows[:0:0], map[string]bool{}
		for _, row := range rows {
			if isEmpty(row.Values) {
				continue
			}
			key := string(row.Metric.Bytes(nil))
			if known[key] {
				return nil, ErrSameLabels
			}
			known[key] = true
			kept = append(kept, row)
		}
		e.computed = append(e.computed, kept)
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	return e.computed, nil
}

// rowBytes is what a row takes beside its values.
const rowBytes = 64

// newValues returns the values of a row, none at any step.
func (e *evaluation) newValues() ([]float64, error) {
	const valueBytes = 8
	n := e.steps.Count()
	if err := e.engine.Take(rowBytes + valueBytes*int64(n)); err != nil {
		return nil, err
	}
	values := make([]float64, n)
	for i := range values {
		values[i] = nan()
	}
	return values, nil
}
