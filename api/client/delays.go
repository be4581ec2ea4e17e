package client

import (
	"context"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
)

// delays are the waits between the attempts of one call, at least what the server asks for.
type delays struct {
	backoff.Exponential
	failures int
}

func (c *Client) newDelays() *delays {
	return &delays{Exponential: backoff.Exponential{Min: c.options.RetryDelayMin, Max: c.options.RetryDelayMax}}
}

// wait waits after an attempt that ended with err. It returns the context's cause when
// that ends before, or would.
func (d *delays) wait(ctx context.Context, err error) error {
	d.failures++
	delay := max(d.Delay(d.failures), min(retryAfterOf(err), d.Max))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
