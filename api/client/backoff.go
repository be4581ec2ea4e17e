package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff gives the waits between attempts: twice as long each time, drawn from the
// upper half, and at least what the server asks for.
type backoff struct{ next, most time.Duration }

func (c *Client) newBackoff() *backoff {
	return &backoff{next: c.options.RetryDelayMin, most: c.options.RetryDelayMax}
}

// wait waits after an attempt that ended with err. It gives the context's cause when
// that ends before, or would.
func (b *backoff) wait(ctx context.Context, err error) error {
	delay := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, b.most)
	delay = max(delay, min(retryAfterOf(err), b.most))
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
