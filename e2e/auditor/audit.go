package auditor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/e2e/model"
)

// ErrBroken is returned when the cluster did not keep its word.
var ErrBroken = model.ErrBroken

// ErrRefused is returned when the cluster refuses what is valid.
var ErrRefused = errors.New("the cluster refused a valid request")

// ErrStalled is returned when the cluster did not answer for too long.
var ErrStalled = errors.New("the cluster does not answer")

// Target is what is audited.
type Target interface {
	// Routers returns the HTTP addresses of the routers that run now. It is called from
	// many goroutines.
	Routers() []string
}

// Config describes how much to write and to ask.
type Config struct {
	model.Config
	Readers int
	// WriteEvery and ReadEvery are pauses between the requests of a client.
	WriteEvery, ReadEvery time.Duration
	// RequestTimeout is longer than a router tries, which is 30 s of what came over TCP: who gives a request up before, and
	// sends it again, may find the first one written behind what was acknowledged since.
	RequestTimeout time.Duration
	// PutAddr returns where the router with an HTTP address takes put lines over TCP. With it
	// clients speak all dialects; nil: line protocol alone.
	PutAddr func(router string) string
	// Dial connects to a router; nil: as Go does, which waits for a silent one as long as for any.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DefaultConfig is for scenarios of a minute.
func DefaultConfig() Config {
	return Config{
		Config:  model.Config{Seed: 1, Metric: "audit", Writers: 4, Series: 12, RowsMax: 4},
		Readers: 2, WriteEvery: 20 * time.Millisecond, ReadEvery: 30 * time.Millisecond, RequestTimeout: 45 * time.Second,
	}
}

// Audit is a run of clients against a target.
type Audit struct {
	config  Config
	target  Target
	client  *http.Client
	models  []*model.Model // clients write to the last one
	cancel  context.CancelFunc
	running sync.WaitGroup
	// pause is held by each request of a client for reading, and for writing by Hold, which
	// wants nobody to write. It guards models.
	pause sync.RWMutex
	tally tally
}

// Start begins to write and to read.
func Start(ctx context.Context, config Config, target Target) (*Audit, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	a := &Audit{
		config: config, target: target, models: []*model.Model{model.New(config.Config, time.Now().UnixMilli())},
		client: &http.Client{Transport: &http.Transport{DialContext: config.Dial, MaxIdleConnsPerHost: config.Writers + config.Readers}},
	}
	ctx, a.cancel = context.WithCancel(ctx)
	a.tally.begin(time.Now(), config.Writers+config.Readers)
	for i := range config.Writers {
		w := &writer{place: i, random: rand.New(rand.NewPCG(config.Seed, uint64(i)))}
		a.running.Go(func() { a.write(ctx, w) })
	}
	for i := range config.Readers {
		random := rand.New(rand.NewPCG(config.Seed, uint64(config.Writers+i)))
		a.running.Go(func() { a.read(ctx, config.Writers+i, random) })
	}
	return a, nil
}

// Stop ends all clients and returns what they found.
func (a *Audit) Stop() (Report, error) {
	a.cancel()
	a.running.Wait()
	a.client.CloseIdleConnections()
	return a.Report(), a.Err()
}

// Report counts what was done so far.
func (a *Audit) Report() Report { return a.tally.report(time.Now()) }

// Lap returns what clients met since its last call.
func (a *Audit) Lap() Lap { return a.tally.endLap() }

// Err returns what was found so far to be wrong; nil: nothing. It wraps ErrBroken or
// ErrRefused.
func (a *Audit) Err() error { return a.tally.err() }

// Hold waits until no client has a request on its way, and keeps them from more until Release.
func (a *Audit) Hold() { a.pause.Lock() }

// Release lets the clients go on.
func (a *Audit) Release() {
	a.tally.resume(time.Now())
	a.pause.Unlock()
}

// Begin has clients write to another metric from now on: what they wrote before is still
// checked by CheckAll. The clients are held.
func (a *Audit) Begin(metric string) {
	config := a.config.Config
	config.Metric = metric
	a.models = append(a.models, model.New(config, time.Now().UnixMilli()))
}

// model returns what clients write to. A request is on its way, or the clients are held.
func (a *Audit) model() *model.Model { return a.models[len(a.models)-1] }

// Cut notes that samples before a time may be gone, by a retention, and that none before keepMs
// is to be written. The clients are held.
func (a *Audit) Cut(cutMs, keepMs int64) {
	for _, m := range a.models {
		m.Cut(cutMs, keepMs)
	}
}

// MayLose notes that the power of nodes which do not sync their log before each answer was
// cut, and that what was acknowledged since a moment before that may be lost. It is called
// when the nodes are down.
func (a *Audit) MayLose(since time.Time) {
	a.pause.RLock()
	defer a.pause.RUnlock()
	a.model().MayLose(since)
}

// progressRounds is how often each client has to get its answer for Progress.
const progressRounds = 3

// Progress waits until every client's requests, begun after the call, were answered
// a few times. Errors: what was found to be wrong, or ErrStalled when ctx ends or none of those
// that wait gets an answer for standstillMax.
func (a *Audit) Progress(ctx context.Context) error {
	want := a.tally.rounds()
	for i := range want {
		// The request that is on its way now may be from before the call.
		want[i] += progressRounds + 1
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	var stands standstill[int64]
	for {
		if err := a.Err(); err != nil {
			return err
		}
		behind, missing := 0, int64(0)
		for i, rounds := range a.tally.rounds() {
			if rounds < want[i] {
				behind++
				missing += want[i] - rounds
			}
		}
		if behind == 0 {
			return nil
		}
		stalled := func(why string) error {
			return fmt.Errorf("%w: %d of %d clients wait for an answer: %s (%s)", ErrStalled, behind, len(want), why, a.tally.lastFailure())
		}
		if stands.tooLong(time.Now(), missing) {
			return stalled(fmt.Sprint("none of them for ", standstillMax))
		}
		select {
		case <-ctx.Done():
			return stalled(ctx.Err().Error())
		case <-ticker.C:
		}
	}
}
