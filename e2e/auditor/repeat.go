package auditor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tickmesh/tickmesh/e2e/model"
)

// Writes with a key are repeated: when there was no answer, until there is one, and now
// and then after they were acknowledged, when they must not have any effect, whatever
// was written or deleted meanwhile.
const (
	keyedPercent  = 60 // of writes
	repeatPercent = 15 // of requests, once something was acknowledged
	keptMax       = 12 // acknowledged writes, of which one is repeated
	triesMax      = 3  // of one write
)

// kept is an acknowledged write that may be repeated.
type kept struct {
	key  string
	body []byte
}

// writer is one client's own state; one goroutine uses it.
type writer struct {
	place  int
	random *rand.Rand
	keys   int    // that were given out
	kept   []kept // oldest first
}

// nextKey returns a key for the operation, or none.
func (w *writer) nextKey(seed uint64, o *model.Operation) string {
	if o.Deletes() || w.random.IntN(100) >= keyedPercent {
		return ""
	}
	w.keys++
	return fmt.Sprintf("audit %d client %d write %d", seed, w.place, w.keys)
}

// keep remembers an acknowledged write.
func (w *writer) keep(key string, body []byte) {
	if key == "" {
		return
	}
	if len(w.kept) == keptMax {
		w.kept = append(w.kept[:0], w.kept[1:]...)
	}
	w.kept = append(w.kept, kept{key, body})
}

// repeatOnce sends an acknowledged write again, through any router. The model does not
// change: were it applied again, a check or a reader would find an old value.
func (a *Audit) repeatOnce(ctx context.Context, w *writer) error {
	a.pause.RLock()
	defer a.pause.RUnlock()
	address, err := a.router(w.random)
	if err != nil {
		return err
	}
	again := w.kept[w.random.IntN(len(w.kept))]
	begin := time.Now()
	_, _, err = a.do(ctx, requestOf{method: http.MethodPost, address: address, path: writePath, body: again.body, key: again.key})
	a.tally.took(false, time.Since(begin))
	if err == nil {
		a.tally.repeated(w.place)
	}
	return err
}

// sendUntilAnswered sends an operation; one with a key up to triesMax times, each
// through any router.
func (a *Audit) sendUntilAnswered(ctx context.Context, w *writer, r requestOf) error {
	for try := 1; ; try++ {
		var err error
		if r.address, err = a.router(w.random); err == nil {
			begin := time.Now()
			err = a.send(ctx, r)
			a.tally.took(false, time.Since(begin))
		}
		if err == nil || r.key == "" || try == triesMax || errors.Is(err, ErrRefused) || ctx.Err() != nil {
			return err
		}
		a.tally.failed(w.place, false, err)
		if !wait(ctx, failurePause) {
			return err
		}
	}
}
