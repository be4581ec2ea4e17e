package auditor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/e2e/model"
)

// checkPause is between attempts of a check to get an answer.
const checkPause = 100 * time.Millisecond

// Check holds the clients, reads everything through every router that runs, and
// compares; then the clients go on. It waits standstillMax for each answer.
// Errors: ErrBroken, ErrRefused, ErrStalled.
func (a *Audit) Check(ctx context.Context) error {
	a.Hold()
	defer a.Release()
	return a.CheckHeld(ctx)
}

// CheckHeld is Check while the clients are held.
func (a *Audit) CheckHeld(ctx context.Context) error { return a.checkModels(ctx, a.model()) }

// CheckAll is CheckHeld of all that was ever written.
func (a *Audit) CheckAll(ctx context.Context) error { return a.checkModels(ctx, a.models...) }

func (a *Audit) checkModels(ctx context.Context, models ...*model.Model) error {
	if err := a.Err(); err != nil {
		return err
	}
	routers := a.target.Routers()
	if len(routers) == 0 {
		return errNoRouter
	}
	for _, address := range routers {
		for _, m := range models {
			compared, err := a.checkThrough(ctx, address, m)
			if err != nil {
				err = fmt.Errorf("check through %s: %w", address, err)
				if errors.Is(err, ErrBroken) || errors.Is(err, ErrRefused) {
					a.tally.find(err)
				}
				return err
			}
			a.tally.checked(compared)
		}
	}
	return nil
}

// checkThrough reads all clients' series of a model through one router.
func (a *Audit) checkThrough(ctx context.Context, address string, m *model.Model) (int64, error) {
	totals := make([]int64, len(m.Writers))
	failures := make([]error, len(m.Writers))
	var group sync.WaitGroup
	for i, w := range m.Writers {
		group.Go(func() {
			answer, err := a.askPatiently(ctx, address, m.Config.Metric, w)
			if err != nil {
				failures[i] = err
				return
			}
			totals[i], failures[i] = w.CompareAll(answer)
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
func (a *Audit) askPatiently(ctx context.Context, address, metric string, w *model.Writer) ([]model.AnswerSeries, error) {
	ctx, cancel := context.WithTimeout(ctx, standstillMax)
	defer cancel()
	fromMs, toMs := w.Span()
	for {
		answer, err := a.ask(ctx, address, metric, w.Number, fromMs, toMs)
		if err == nil || errors.Is(err, ErrBroken) || errors.Is(err, ErrRefused) {
			return answer, err
		}
		if !wait(ctx, checkPause) {
			return nil, fmt.Errorf("%w: %w (last: %w)", ErrStalled, ctx.Err(), err)
		}
	}
}
