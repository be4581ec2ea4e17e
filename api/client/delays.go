package client

import (
	"context"
	"fmt"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
)

// delays are the waits between the attempts of one call, at least what the server asks for, and what the attempts
// failed for.
type delays struct {
	backoff.Exponential
	failures int
	reason   error // of the last attempt that failed for more than that a context ended
}

func (c *Client) newDelays() *delays {
	return &delays{Exponential: backoff.Exponential{Min: c.options.RetryDelayMin, Max: c.options.RetryDelayMax}}
}

// failed notes the error of an attempt.
func (d *delays) failed(err error) {
	d.failures++
	if text := err.Error(); text != context.DeadlineExceeded.Error() && text != context.Canceled.Error() {
		d.reason = err
	}
}

// ended returns the error of a call that a context ended by cause: the last attempt may have had no answer, and the
// one before tells why.
func (d *delays) ended(cause error) error {
	switch {
	case d.reason == nil:
		return cause
	case d.failures == 1:
		return fmt.Errorf("%w; %w", d.reason, cause)
	}
	return fmt.Errorf("%w (%d attempts); %w", d.reason, d.failures, cause)
}

// next returns the wait after the failures so far, the last of which asked for so long a one.
func (d *delays) next(retryAfter time.Duration) time.Duration {
	return max(d.Delay(d.failures), min(retryAfter, d.Max))
}

// wait waits after an attempt that ended with err. It returns the error of the call when the context
// ends before, or would.
func (d *delays) wait(ctx context.Context, err error) error {
	d.failed(err)
	delay := d.next(retryAfterOf(err))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay {
		return d.ended(context.DeadlineExceeded)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return d.ended(context.Cause(ctx))
	}
}
