package auditor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// beyondMs is how far before and after what was written a check looks for more.
const beyondMs int64 = 24 * 3600 * 1000

// checkPause is between attempts of a check to get an answer.
const checkPause = 100 * time.Millisecond

// Check stops the clients, reads everything through every router that runs, and
// compares; then the clients go on. It waits for routers to answer until ctx ends.
// Errors: ErrBroken, ErrRefused, ErrStalled.
func (a *Audit) Check(ctx context.Context) error {
	a.pause.Lock()
	defer a.pause.Unlock()
	defer func() { a.tally.resume(time.Now()) }()
	if err := a.Err(); err != nil {
		return err
	}
	routers := a.target.Routers()
	if len(routers) == 0 {
		return errNoRouter
	}
	for _, address := range routers {
		compared, err := a.checkThrough(ctx, address)
		if err != nil {
			err = fmt.Errorf("check through %s: %w", address, err)
			if errors.Is(err, ErrBroken) || errors.Is(err, ErrRefused) {
				a.tally.find(err)
			}
			return err
		}
		a.tally.checked(compared)
	}
	return nil
}

// checkThrough reads all clients' series through one router.
func (a *Audit) checkThrough(ctx context.Context, address string) (int64, error) {
	totals := make([]int64, len(a.writers))
	failures := make([]error, len(a.writers))
	var group sync.WaitGroup
	for i, w := range a.writers {
		group.Go(func() {
			answer, err := a.askPatiently(ctx, address, w)
			if err != nil {
				failures[i] = err
				return
			}
			totals[i], failures[i] = compareAll(a.config.Metric, w, answer)
		})
	}
	group.Wait()
	var total int64
	for _, n := range totals {
		total += n
	}
	return total, errors.Join(failures...)
}

// askPatiently asks for all samples of a client until there is an answer.
func (a *Audit) askPatiently(ctx context.Context, address string, w *modelWriter) ([]answerSeries, error) {
	fromMs, toMs := w.span()
	for {
		answer, err := a.ask(ctx, address, w.number, fromMs, toMs)
		if err == nil || errors.Is(err, ErrBroken) || errors.Is(err, ErrRefused) {
			return answer, err
		}
		if !wait(ctx, checkPause) {
			return nil, fmt.Errorf("%w: %w (last: %w)", ErrStalled, ctx.Err(), err)
		}
	}
}

// span reaches beyond what was written, so that made-up samples are seen too.
func (w *modelWriter) span() (fromMs, toMs int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fromMs = math.MaxInt64
	for _, s := range w.mu.series {
		fromMs = min(fromMs, s.firstMs-beyondMs)
		toMs = max(toMs, s.timeMs(len(s.points))+beyondMs)
	}
	return fromMs, toMs
}
