package auditor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// ErrBroken is returned when the cluster did not keep its word.
var ErrBroken = errors.New("the cluster did not keep its word")

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
	Seed    uint64
	Metric  string
	Writers int // clients, each with its own series
	Series  int // of each client
	Readers int
	// WriteEvery and ReadEvery are pauses between the requests of a client.
	WriteEvery, ReadEvery time.Duration
	// RequestTimeout is longer than a router tries.
	RequestTimeout time.Duration
}

// DefaultConfig is for scenarios of a minute.
func DefaultConfig() Config {
	return Config{
		Seed: 1, Metric: "audit", Writers: 4, Series: 12, Readers: 2,
		WriteEvery: 20 * time.Millisecond, ReadEvery: 30 * time.Millisecond, RequestTimeout: 20 * time.Second,
	}
}

func (c *Config) validate() error {
	if c.Writers < 1 || c.Writers > writersMax || c.Series < 2 || c.Series > seriesMax || c.Readers < 0 {
		return fmt.Errorf("1 to %d clients with 2 to %d series each are possible", writersMax, seriesMax)
	}
	return nil
}

// Audit is a run of clients against a target.
type Audit struct {
	config  Config
	target  Target
	client  *http.Client
	writers []*modelWriter
	cancel  context.CancelFunc
	running sync.WaitGroup
	// pause is held by each request of a client for reading, and by a check, which
	// wants nobody to write, for writing.
	pause sync.RWMutex
	tally tally
}

// Start begins to write and to read.
func Start(ctx context.Context, config Config, target Target) (*Audit, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	a := &Audit{
		config: config, target: target, writers: newModel(&config, time.Now().UnixMilli()),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: config.Writers + config.Readers}},
	}
	ctx, a.cancel = context.WithCancel(ctx)
	a.tally.begin(time.Now(), config.Writers+config.Readers)
	for i := range a.writers {
		random := rand.New(rand.NewPCG(config.Seed, uint64(i)))
		w := &writer{place: i, model: a.writers[i], random: random}
		a.running.Go(func() { a.write(ctx, w) })
	}
	for i := range config.Readers {
		random := rand.New(rand.NewPCG(config.Seed, uint64(writersMax+i)))
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

// Gaps returns the longest times without an acknowledged write, and without an answered
// query, of those that have ended since its last call.
func (a *Audit) Gaps() (write, query time.Duration) { return a.tally.gaps() }

// Err gives what was found so far to be wrong; nil: nothing. It wraps ErrBroken or
// ErrRefused.
func (a *Audit) Err() error { return a.tally.err() }

// progressRounds is how often each client has to get its answer for Progress.
const progressRounds = 3

// Progress waits until every client's requests, begun after the call, were answered
// a few times. Errors: what was found to be wrong, or ErrStalled when ctx ends.
func (a *Audit) Progress(ctx context.Context) error {
	want := a.tally.rounds()
	for i := range want {
		// The request that is on its way now may be from before the call.
		want[i] += progressRounds + 1
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if err := a.Err(); err != nil {
			return err
		}
		behind := 0
		for i, rounds := range a.tally.rounds() {
			if rounds < want[i] {
				behind++
			}
		}
		if behind == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d clients wait for an answer: %w (%s)", ErrStalled, behind, len(want), ctx.Err(), a.tally.lastFailure())
		case <-ticker.C:
		}
	}
}
