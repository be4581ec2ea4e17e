package oidc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// RefreshInterval is the least time between two fetches of an issuer's keys.
	RefreshInterval = 15 * time.Second
	// KeysAgeMax is how long keys are used when the issuer does not answer any more.
	KeysAgeMax = 6 * time.Hour
	// pollInterval is between two fetches that nothing asks for; it bounds how long a key is
	// trusted after its issuer withdrew it.
	pollInterval = 5 * time.Minute
	waitersMax   = 64 // callers that wait for a fetch
)

// Options of an Issuer. URL is required and must pass ValidateURL.
type Options struct {
	URL    string
	Logger *slog.Logger     // nil: nothing is logged
	Clock  func() time.Time // nil: time.Now
}

// Issuer has the keys of an OpenID Connect issuer. It is safe for concurrent use.
type Issuer struct {
	options Options
	client  *http.Client
	keys    atomic.Pointer[keySet] // nil: none were fetched yet
	retired atomic.Bool
	wanted  chan struct{}

	fetches, failures atomic.Int64

	mu        sync.Mutex
	round     chan struct{} // closed at the end of the fetch that is due or runs; nil: none
	attempted time.Time     // the end of the last fetch
	waiters   int
}

// NewIssuer returns an Issuer whose first fetch is due: Run does it.
func NewIssuer(o Options) *Issuer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Issuer{options: o, client: newHTTPClient(), wanted: make(chan struct{}, 1), round: make(chan struct{})}
}

// Run fetches keys until ctx ends. It must run once.
func (i *Issuer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-i.wanted:
		}
		next := pollInterval
		if err := i.fetch(ctx); err != nil {
			next = RefreshInterval
		}
		timer.Reset(next)
	}
}

// fetch reads the keys and ends the round.
func (i *Issuer) fetch(ctx context.Context) error {
	i.mu.Lock()
	if i.round == nil {
		i.round = make(chan struct{})
	}
	select {
	case <-i.wanted: // by callers who wait for this round: the timer may have been taken first
	default:
	}
	i.mu.Unlock()
	defer i.endRound()
	bounded, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	keys, leftOut, err := fetchKeys(bounded, i.client, i.options.URL)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		i.failures.Add(1)
		i.options.Logger.Warn("the keys of an OpenID Connect issuer cannot be fetched; known keys stay in use for a while, without them its tokens are refused",
			"issuer", i.options.URL, "error", err, "known_keys", i.Keys(), "kept_for", KeysAgeMax)
		return err
	}
	i.fetches.Add(1)
	before := i.Keys()
	i.keys.Store(&keySet{keys: keys, fetched: i.options.Clock()})
	if before != len(keys) || before == 0 {
		i.options.Logger.Info("the keys of an OpenID Connect issuer are fetched", "issuer", i.options.URL, "keys", len(keys), "left_out", leftOut)
	}
	return nil
}

func (i *Issuer) endRound() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.attempted = i.options.Clock()
	close(i.round)
	i.round = nil
}

// await waits for a fetch, which it asks for unless the last one was a short time ago, and reports
// whether there was one.
func (i *Issuer) await(ctx context.Context) bool {
	i.mu.Lock()
	if i.round == nil {
		if since := i.options.Clock().Sub(i.attempted); since >= 0 && since < RefreshInterval {
			i.mu.Unlock()
			return false
		}
		i.round = make(chan struct{})
		select {
		case i.wanted <- struct{}{}:
		default: // Run is about to
		}
	}
	round := i.round
	if i.waiters >= waitersMax {
		i.mu.Unlock()
		return false
	}
	i.waiters++
	i.mu.Unlock()
	timer := time.NewTimer(fetchTimeout)
	defer timer.Stop()
	ended := false
	select {
	case <-round:
		ended = true
	case <-timer.C:
	case <-ctx.Done():
	}
	i.mu.Lock()
	i.waiters--
	i.mu.Unlock()
	return ended
}

// usable returns the keys of now; nil: there are none, or they are too old.
func (i *Issuer) usable() *keySet {
	s := i.keys.Load()
	if s == nil || i.retired.Load() || i.options.Clock().Sub(s.fetched) > KeysAgeMax {
		return nil
	}
	return s
}

// keysFor returns the keys that may have signed a token. Errors: ErrToken.
func (i *Issuer) keysFor(ctx context.Context, t *Token) ([]*key, error) {
	for again := false; ; again = true {
		set, known := i.usable(), false
		if set != nil {
			var fit []*key
			if fit, known = set.forToken(t); len(fit) > 0 {
				return fit, nil
			}
		}
		switch {
		case known:
			return nil, fmt.Errorf("%w: no key of its issuer is fit for it", ErrToken)
		case again || !i.await(ctx):
			if i.usable() == nil {
				return nil, fmt.Errorf("%w yet: the keys of its issuer %s are not known, as it does not answer", ErrToken, i.options.URL)
			}
			return nil, fmt.Errorf("%w: its issuer has no key of its key id", ErrToken)
		}
	}
}

// Retire makes all tokens of the issuer invalid.
func (i *Issuer) Retire() { i.retired.Store(true) }

// URL returns the issuer's name in tokens.
func (i *Issuer) URL() string { return i.options.URL }

// Keys returns the number of keys in use.
func (i *Issuer) Keys() int {
	if s := i.usable(); s != nil {
		return len(s.keys)
	}
	return 0
}

// Fetches returns how many fetches of keys succeeded and failed.
func (i *Issuer) Fetches() (succeeded, failed int64) { return i.fetches.Load(), i.failures.Load() }
