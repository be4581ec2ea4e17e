package auditor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// failurePause keeps a client from asking a router that refuses at full speed.
const failurePause = 50 * time.Millisecond

// write is a client that writes until ctx ends or something is wrong.
func (a *Audit) write(ctx context.Context, w *writer) {
	for wait(ctx, a.config.WriteEvery) {
		var err error
		if len(w.kept) > 0 && w.random.IntN(100) < repeatPercent {
			err = a.repeatOnce(ctx, w)
		} else {
			err = a.writeOnce(ctx, w)
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, ErrRefused):
			a.tally.find(err)
			return
		default:
			// What was sent stays in doubt.
			a.tally.failed(w.place, false, err)
			wait(ctx, failurePause)
		}
	}
}

func (a *Audit) writeOnce(ctx context.Context, w *writer) error {
	a.pause.RLock()
	defer a.pause.RUnlock()
	if _, err := a.router(w.random); err != nil {
		return err
	}
	owned := a.model().Writers[w.place]
	op := owned.Draw(w.random)
	if op.Empty() {
		return nil
	}
	speaks := a.dialectOf(w.place)
	key := ""
	if speaks == lineHTTP {
		key = w.nextKey(a.config.Seed, &op)
	}
	r, err := requestFor(owned, &op, speaks)
	if err != nil {
		return err
	}
	r.key = key
	if err := a.sendUntilAnswered(ctx, w, r); err != nil {
		return err
	}
	owned.Acknowledge(&op)
	if !op.Aged() { // a retention may refuse those by then
		w.keep(key, r.body)
	}
	a.tally.acknowledged(w.place, &op, time.Now())
	return nil
}

// Turn returns how long it is until it is the turn of one of several that each have one in every stretch of time. Those that
// only pause between requests fall into step when something holds all of them up, and then nobody notices what happens
// between two steps.
func Turn(now time.Time, every time.Duration, place, of int) time.Duration {
	since := time.Duration(now.UnixNano()) - every*time.Duration(place)/time.Duration(of)
	return every - since%every
}

// read is the client with the place that queries until ctx ends.
func (a *Audit) read(ctx context.Context, place int, random *rand.Rand) {
	for wait(ctx, Turn(time.Now(), a.config.ReadEvery, place-a.config.Writers, a.config.Readers)) {
		compared, err := a.readOnce(ctx, random)
		switch {
		case err == nil:
			a.tally.answeredQuery(place, compared, time.Now())
		case ctx.Err() != nil:
		case errors.Is(err, ErrBroken) || errors.Is(err, ErrRefused):
			a.tally.find(err)
			return
		default:
			a.tally.failed(place, true, err)
			wait(ctx, failurePause)
		}
	}
}

// readOnce asks for a stretch of a client's series, mostly the newest, and compares
// it with what may be there.
func (a *Audit) readOnce(ctx context.Context, random *rand.Rand) (compared int64, err error) {
	a.pause.RLock()
	defer a.pause.RUnlock()
	address, err := a.router(random)
	if err != nil {
		return 0, err
	}
	m := a.model()
	w := m.Writers[random.IntN(len(m.Writers))]
	fromMs, toMs := w.Stretch(random)
	begin := w.View(fromMs, toMs)
	asked := time.Now()
	answer, err := a.ask(ctx, address, m.Config.Metric, w.Number, fromMs, toMs)
	a.tally.took(true, time.Since(asked))
	if err != nil {
		return 0, err
	}
	return w.CompareRead(begin, w.View(fromMs, toMs), answer)
}

// router chooses one that runs.
func (a *Audit) router(random *rand.Rand) (string, error) {
	routers := a.target.Routers()
	if len(routers) == 0 {
		return "", errNoRouter
	}
	return routers[random.IntN(len(routers))], nil
}

// wait returns false when ctx has ended.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
