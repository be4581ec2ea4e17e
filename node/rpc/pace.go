package rpc

import (
	"context"

	"golang.org/x/time/rate"
)

// Pace bounds the bytes per second of all transfers that share it. A nil Pace bounds
// nothing.
type Pace struct{ limiter *rate.Limiter }

// NewPace returns a Pace of so many bytes per second; 0: no bound.
func NewPace(bytesPerSecond uint64) *Pace {
	if bytesPerSecond == 0 {
		return nil
	}
	return &Pace{rate.NewLimiter(rate.Limit(bytesPerSecond), chunkBytes)}
}

// wait waits until n bytes, a chunk at most, may pass. The error is that of the context,
// or says that its deadline comes before.
func (p *Pace) wait(ctx context.Context, n int) error {
	if p == nil {
		return nil
	}
	return p.limiter.WaitN(ctx, n)
}
