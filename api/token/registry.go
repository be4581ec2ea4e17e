package token

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/secret"
	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Store keeps records of tokens by id. It is safe for concurrent use. Errors of its calls are
// those of shardmap.Store.
type Store interface {
	// Records returns what is known, from memory. It is shared and not to be changed.
	Records() map[string]string
	// Load returns the record that is stored now; empty: there is none.
	Load(ctx context.Context, id string) (string, error)
	// Swap replaces a record, as shardmap.Store.SwapToken does.
	Swap(ctx context.Context, id, old, next string) error
	// SwapAll replaces records in one change, as shardmap.Store.SwapTokens does.
	SwapAll(ctx context.Context, swaps []shardmap.TokenSwap) error
	// Await waits, for a bounded time, until Records have what was swapped.
	Await(ctx context.Context, id, record string)
	// Follow has changed called after each change of Records by others.
	Follow(changed func())
	// AwaySince returns since when the store does not answer, so that Records may be old, in
	// Unix milliseconds; 0: it answers.
	AwaySince() int64
}

// Options of a Registry. Store is required.
type Options struct {
	Store  Store
	Logger *slog.Logger     // nil: nothing is logged
	Clock  func() time.Time // nil: time.Now
}

// Bounds of a Registry.
const (
	staleMax       = 24 * time.Hour      // for how long tokens hold while the store is away
	endedKept      = 30 * 24 * time.Hour // for how long ended tokens are told of
	usedCoarseness = time.Hour
	upkeepInterval = time.Minute
	upkeepSwapsMax = 32 // in one upkeep
	swapTries      = 8  // of load, change and swap, when others change the same record
)

// Registry makes, lists and revokes tokens, and reports which are valid. It is safe for concurrent
// use, and a prometheus.Collector.
type Registry struct {
	options Options
	view    atomic.Pointer[View]
	metrics metrics

	refreshing sync.Mutex
}

// View are the tokens of one moment. It does not change.
type View struct {
	tokens     map[string]*entry
	unreadable map[string]string // records by id
}

// entry is a token in a View.
type entry struct {
	Token
	text   string        // its record
	usedMs *atomic.Int64 // the hour of its last use, also what is not in the record yet; shared by all views
}

// New makes a Registry.
func New(o Options) *Registry {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	r := &Registry{options: o, metrics: newMetrics()}
	r.view.Store(&View{})
	o.Store.Follow(r.refresh)
	r.refresh()
	return r
}

// Current returns the tokens of now. What has not changed is the same pointer.
func (r *Registry) Current() *View { return r.view.Load() }

// refresh reads the store; a view stays while nothing has changed. Records that have not changed are not read again.
func (r *Registry) refresh() {
	r.refreshing.Lock()
	defer r.refreshing.Unlock()
	before, records := r.view.Load(), r.options.Store.Records()
	next := &View{tokens: make(map[string]*entry, len(records)), unreadable: map[string]string{}}
	changed := len(records) != len(before.tokens)+len(before.unreadable)
	for id, text := range records {
		known := before.tokens[id]
		if known != nil && known.text == text {
			next.tokens[id] = known
			continue
		}
		t, err := decode(id, text)
		if err != nil {
			if before.unreadable[id] != text {
				changed = true
				r.options.Logger.Error("a token is refused, as its record cannot be read: the version that wrote it can, or revoke it", "error", err)
			}
			next.unreadable[id] = text
			continue
		}
		e := &entry{Token: *t, text: text, usedMs: new(atomic.Int64)}
		if known != nil {
			e.usedMs = known.usedMs
		}
		if !t.Used.IsZero() {
			e.use(t.Used)
		}
		next.tokens[id], changed = e, true
	}
	if changed {
		r.view.Store(next)
	}
}

// use notes the hour of a use.
func (e *entry) use(at time.Time) {
	hour := at.Truncate(usedCoarseness).UnixMilli()
	for {
		before := e.usedMs.Load()
		if hour <= before || e.usedMs.CompareAndSwap(before, hour) {
			return
		}
	}
}

// token returns a copy with its last use.
func (e *entry) token() Token {
	t := e.Token
	if ms := e.usedMs.Load(); ms > 0 {
		t.Used = time.UnixMilli(ms).UTC()
	}
	return t
}

// Find returns the token of an id whose secret has a digest; nil: nobody's. How long it takes
// says nothing of secrets: ids are none.
func (v *View) Find(id []byte, digest secret.Digest) *Token {
	e := v.tokens[string(id)]
	if e == nil {
		return nil
	}
	if !e.Digest.Equals(&digest) {
		return nil
	}
	return &e.Token
}

// User returns the name of who shows the token of an id; empty: there is no such token.
func (v *View) User(id []byte) string {
	if e := v.tokens[string(id)]; e != nil {
		return e.Token.User()
	}
	return ""
}

// Holds notes that a token of a view is used. Errors: ErrEnded, with the reason, when it does
// not hold any more, or it is not known whether it does.
func (r *Registry) Holds(v *View, id string) error {
	now := r.options.Clock()
	e := v.tokens[id]
	if e == nil {
		return fmt.Errorf("%w: it is not known any more", ErrEnded)
	}
	if refusal := r.refusal(v, e, now); refusal != "" {
		return fmt.Errorf("%w: %s", ErrEnded, refusal)
	}
	e.use(now)
	return nil
}

// refusal returns why a token is refused; empty: it holds.
func (r *Registry) refusal(v *View, e *entry, now time.Time) string {
	if refusal := e.ended(now); refusal != "" {
		return refusal
	}
	for _, id := range e.Lineage {
		elder := v.tokens[id]
		if elder == nil {
			return fmt.Sprintf("it was made with the token %s, which is not known any more", id)
		}
		if refusal := elder.ended(now); refusal != "" {
			return fmt.Sprintf("it was made with the token %s: %s", id, refusal)
		}
	}
	if since := r.options.Store.AwaySince(); since != 0 && now.Sub(time.UnixMilli(since)) > staleMax {
		return fmt.Sprintf("whether it was revoked is not known, as the placement store has not answered for more than %d hours", staleMax/time.Hour)
	}
	return ""
}

// end returns when a token ends or has ended, by itself or with one that it was made with; the
// zero time where one of these is not known any more. One that cannot be read ends nothing.
func (v *View) end(e *entry) time.Time {
	end := e.End()
	for _, id := range e.Lineage {
		elder := v.tokens[id]
		_, unreadable := v.unreadable[id]
		switch {
		case elder == nil && !unreadable:
			return time.Time{}
		case elder != nil && elder.End().Before(end):
			end = elder.End()
		}
	}
	return end
}

// ended returns how a token has ended by itself; empty: it has not.
func (t *Token) ended(now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "it was revoked on " + t.Revoked.Format(time.RFC3339)
	case !now.Before(t.Expires):
		return "it expired on " + t.Expires.Format(time.RFC3339)
	}
	return ""
}

// Request describes a token to make.
type Request struct {
	Name     string
	Creator  Creator
	Parent   string // id of the token that it is made with; empty: none
	Rights   Rights
	Lifetime time.Duration
}

// Create makes a token and returns its secret, which is kept nowhere. Errors: ErrInvalid,
// ErrFull, ErrEnded where its parent does not hold, ErrUnavailable; others are those of writing.
func (r *Registry) Create(ctx context.Context, q Request) (text string, t Token, err error) {
	now := r.options.Clock().UTC().Truncate(time.Millisecond)
	t = Token{Name: q.Name, Creator: q.Creator, Rights: q.Rights, Created: now, Expires: now.Add(q.Lifetime)}
	if q.Lifetime < LifetimeMin || q.Lifetime > LifetimeMax {
		return "", t, fmt.Errorf("%w: it would hold for %s, expected %s to %d days; what is to hold for ever belongs into the auth file", ErrInvalid, q.Lifetime, LifetimeMin, LifetimeMax/(24*time.Hour))
	}
	if q.Parent != "" {
		v := r.Current()
		if err := r.Holds(v, q.Parent); err != nil {
			return "", t, fmt.Errorf("the token %s, which it is made with, %w", q.Parent, err)
		}
		parent := v.tokens[q.Parent]
		t.Lineage = append(slices.Clone(parent.Lineage), parent.ID)
		if t.Expires.After(parent.Expires) {
			return "", t, fmt.Errorf("%w: it would outlive the token %s, which it is made with and which holds until %s: ask for less, or sign in by another way", ErrInvalid, parent.ID, parent.Expires.Format(time.RFC3339))
		}
	}
	if err := t.validate(); err != nil {
		return "", t, err
	}
	if r.options.Store.AwaySince() != 0 {
		return "", t, errAway
	}
	if err := r.makeRoom(ctx, now); err != nil {
		return "", t, err
	}
	text, t.ID = newSecret()
	t.Digest = secret.DigestOf(text)
	record, err := t.encode()
	if err != nil {
		return "", t, err
	}
	if err := r.options.Store.Swap(ctx, t.ID, "", record); err != nil {
		return "", t, kindOf(err)
	}
	r.options.Store.Await(ctx, t.ID, record)
	r.refresh()
	return text, t, nil
}

// makeRoom forgets the token that ended first where there is no room for another.
func (r *Registry) makeRoom(ctx context.Context, now time.Time) error {
	v := r.Current()
	if len(v.tokens)+len(v.unreadable) < shardmap.TokensMax {
		return nil
	}
	var first *entry
	var firstEnd time.Time
	for _, e := range v.tokens {
		if end := v.end(e); !now.Before(end) && (first == nil || end.Before(firstEnd)) {
			first, firstEnd = e, end
		}
	}
	if first == nil {
		return fmt.Errorf("%w: %d hold; revoke some", ErrFull, shardmap.TokensMax)
	}
	err := r.options.Store.Swap(ctx, first.ID, first.text, "")
	r.options.Store.Await(ctx, first.ID, "")
	r.refresh()
	if errors.Is(err, shardmap.ErrTokenChanged) { // somebody else did
		return nil
	}
	return kindOf(err)
}

// errAway is told at once while the store is known to be away. It may have been set back: nobody
// would see what is written there.
var errAway = fmt.Errorf("%w: the placement store cannot be relied on", ErrUnavailable)

// Listed is a token in a list.
type Listed struct {
	Token
	Refusal string // why it is refused; empty: it holds
}

// List returns all tokens in the order in which they were made.
func (r *Registry) List() []Listed {
	v, now := r.Current(), r.options.Clock()
	list := make([]Listed, 0, len(v.tokens))
	for _, e := range v.tokens {
		list = append(list, Listed{e.token(), r.refusal(v, e, now)})
	}
	slices.SortFunc(list, func(a, b Listed) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// Revoke takes a token back for good and returns it. One that was revoked stays as it is.
// Errors: ErrUnknown, ErrUnavailable; others are those of writing.
func (r *Registry) Revoke(ctx context.Context, id, by string) (Listed, error) {
	if !isID(id) {
		return Listed{}, fmt.Errorf("%w: an id has %d hexadecimal digits, see the list of tokens", ErrUnknown, idDigits) // it may be a secret
	}
	if r.options.Store.AwaySince() != 0 {
		return Listed{}, errAway
	}
	for try := 1; ; try++ {
		text, err := r.options.Store.Load(ctx, id)
		switch {
		case err != nil:
			return Listed{}, kindOf(err)
		case text == "":
			return Listed{}, fmt.Errorf("%w: %s", ErrUnknown, id)
		}
		next := ""
		t, err := decode(id, text)
		if err != nil { // nobody can use it; it goes
			t = &Token{ID: id, Rights: Rights{}}
		}
		if err == nil && !t.Revoked.IsZero() {
			r.refresh()
			return Listed{*t, t.ended(t.Revoked)}, nil
		}
		t.Revoked, t.RevokedBy = r.options.Clock().UTC().Truncate(time.Millisecond), by
		if err == nil {
			if next, err = t.encode(); err != nil {
				return Listed{}, err
			}
		}
		if err = r.options.Store.Swap(ctx, id, text, next); err == nil {
			r.options.Store.Await(ctx, id, next)
			r.refresh()
			return Listed{*t, t.ended(t.Revoked)}, nil
		}
		if !errors.Is(err, shardmap.ErrTokenChanged) || try == swapTries {
			return Listed{}, kindOf(err)
		}
	}
}

// kindOf returns a store's error as one of the kinds of a Registry.
func kindOf(err error) error {
	switch {
	case errors.Is(err, shardmap.ErrToken):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	case errors.Is(err, shardmap.ErrTokens):
		return fmt.Errorf("%w: %w; revoke some", ErrFull, err)
	case errors.Is(err, shardmap.ErrUnavailable), errors.Is(err, shardmap.ErrRolledBack), errors.Is(err, shardmap.ErrWrongCluster),
		errors.Is(err, shardmap.ErrTokenChanged), errors.Is(err, shardmap.ErrClosed):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
