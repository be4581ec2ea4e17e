package fanout

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// stepEvaluator makes values at steps of the samples of one series after the other, where
// nodes have sent samples.
type stepEvaluator struct {
	*steps.Evaluator
	bytesMax int64
	holds    scan.Holding
	open     bool // samples of the series have come
	lastMs   int64
	chunk    scan.Chunk
}

func newStepEvaluator(ctx context.Context, request *scan.Request) *stepEvaluator {
	return &stepEvaluator{Evaluator: steps.NewEvaluator(ctx, request.Steps), bytesMax: request.Limits.BytesMax, holds: scan.Holding{Account: request.Limits.Account}}
}

func (e *stepEvaluator) begin() {
	e.Begin()
	e.open, e.lastMs = true, scan.TimeMsMin-1
}

// add takes the columns of the next chunk.
func (e *stepEvaluator) add(m *tickmeshv1.Columns) error {
	if err := wire.SetChunk(&e.chunk, m); err != nil {
		return fmt.Errorf("%w: %w", wire.ErrInternal, err)
	}
	n := len(e.chunk.Times)
	if len(e.chunk.Values) != n {
		return fmt.Errorf("%w: %d values of %d samples", wire.ErrInternal, len(e.chunk.Values), n)
	}
	if n == 0 {
		return nil
	}
	if e.chunk.Times[0] <= e.lastMs {
		return fmt.Errorf("%w: samples of a series out of order", wire.ErrInternal)
	}
	e.lastMs = e.chunk.Times[n-1]
	if err := e.Add(e.chunk.Times, e.chunk.Values); err != nil {
		return err
	}
	if limited(int64(e.Bytes()), e.bytesMax) {
		return &scan.LimitError{What: "bytes", Limit: e.bytesMax}
	}
	return e.holds.Hold(int64(e.Bytes()))
}

// end returns a copy of the steps, in memory that is given, and their values, which are used again.
func (e *stepEvaluator) end(times []int64) ([]int64, []float64, error) {
	e.open = false
	at, values, err := e.End()
	return append(times[:0], at...), values, err
}
