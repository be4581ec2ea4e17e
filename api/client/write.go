package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/scan"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Write writes samples and waits for the answer; of equal series and time the last
// one counts. It makes batches that a message can hold, one after the other, each
// repeated with its id until WriteTimeout or the context ends. Errors: what the first
// batch that failed ended with; those before it are written, those behind were not
// sent. *RefusedError for each series that was refused, joined.
func (c *Client) Write(ctx context.Context, samples ...Sample) error {
	return c.writeBatches(ctx, func() (*batch, error) {
		b := newBatch()
		for len(samples) > 0 && b.points() < BatchPointsMax {
			s := &samples[0]
			if s.Series == nil || s.TimeMs < scan.TimeMsMin || s.TimeMs > scan.TimeMsMax {
				return nil, fmt.Errorf("%w: a sample without a series, or at %d ms", ErrInvalid, s.TimeMs)
			}
			if b.points() > 0 && b.bytes+b.cost(s.Series, s.TimeMs) > BatchBytesMax {
				break
			}
			b.add(s.Series, s.TimeMs, s.Value)
			samples = samples[1:]
		}
		return b, nil
	})
}

// writeBatches writes the batches that fill makes, one after the other, until one is empty or fails. Errors: that one's, and
// *RefusedError for each series that was refused, joined.
func (c *Client) writeBatches(ctx context.Context, fill func() (*batch, error)) error {
	var refusals []error
	for {
		b, err := fill()
		if err != nil || b.points() == 0 {
			return errors.Join(append(refusals, err)...)
		}
		refused, err := c.writeBatch(ctx, b)
		for _, r := range refused {
			refusals = append(refusals, r)
		}
		if err != nil {
			return errors.Join(append(refusals, err)...)
		}
	}
}

// writeBatch writes a batch by calls of its own.
func (c *Client) writeBatch(ctx context.Context, b *batch) (refused []*RefusedError, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.WriteTimeout)
	defer cancel()
	delays := c.newDelays()
	for {
		again, errs, why, err := c.writeOnce(ctx, b)
		refused = append(refused, errs...)
		if err != nil || again == nil {
			return refused, err
		}
		if err := delays.wait(ctx, why); err != nil {
			return refused, err
		}
		b = again
	}
}

func (c *Client) writeOnce(ctx context.Context, b *batch) (again *batch, refused []*RefusedError, why, err error) {
	if b.id, err = c.window.take(ctx); err != nil {
		return nil, nil, nil, err
	}
	defer c.window.give(b.id)
	m, of := newHandles().message(b)
	var result *tickmeshv1.WriteResult
	err = c.call(ctx, c.options.AttemptTimeout, func(ctx context.Context, e *endpoint) error {
		if b.hours {
			if err := e.needLevel(ctx, c.options.Name, levelHours); err != nil {
				return err
			}
		}
		response, err := tickmeshv1.NewWriteServiceClient(e.conn).Write(ctx, &tickmeshv1.WriteRequest{Batch: m})
		result = response.GetResult()
		return errorOf(err)
	})
	if err != nil {
		return nil, nil, nil, err
	}
	again, refused, why = b.refusals(result, of)
	return again, refused, why, nil
}
