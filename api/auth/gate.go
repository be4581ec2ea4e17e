package auth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/processor"
)

// Bounds of the checks of passwords.
const (
	waitingMax         = 64 // checks that wait, in all
	waitingFailedMax   = 16 // and of addresses that have failed lately
	waitingAddressMax  = 4  // and of one address
	waitMax            = 10 * time.Second
	failedRestFactor   = 3 // after a wrong password the next check of such an address waits so many times as long as that took
	unknownRestFactor  = 1 // and that of an address of which nothing is known
	passwordBytesMax   = 72
	processorsForOne   = 4  // one check at once for so many processors
	slotOwner          = "" // all checks together are one owner of heavy work, which has no user's or address's name
	passwordDummySalt  = "tickmeshtickmeshtickme"
	passwordDummyBytes = "nopasswordhasthishashnopasswordha"
)

// gate bounds what checking passwords costs, and shares it out by address. Addresses are
// known (a password of theirs was right lately), unknown, or failed (the last one was
// wrong). Known ones are served before unknown ones, and these before failed ones, so that
// whoever guesses waits for everybody else. Among unknown ones, chance decides which address
// is next, and a newcomer takes the place of one that has more than its share.
type gate struct {
	// compare is bcrypt's; tests have their own.
	compare func(hash, password []byte) error
	book    addressBook
	slots   int
	// processors has the slots in which checks compute, which cannot be paced.
	processors *processor.Pool

	mu struct {
		sync.Mutex
		running int
		waiting [classes][]*waiter
		of      map[string]int // by address: how many wait or run
		restAt  time.Time      // when the last wrong password was found
		rest    time.Duration  // how long its check took
		timer   *time.Timer    // wakes who waits for the rest; nil: nobody does
	}
}

// waiter is one check that waits for its turn.
type waiter struct {
	from string
	turn chan error // is sent nil, or why it will not come
}

func newGate(processors *processor.Pool) *gate {
	g := &gate{slots: max(1, runtime.GOMAXPROCS(0)/processorsForOne), processors: processors, compare: bcrypt.CompareHashAndPassword}
	g.mu.of = map[string]int{}
	return g
}

// check compares a password with a hash; an empty hash matches nothing, and takes as long as
// one of costMax. Errors: access.ErrUnauthenticated, access.ErrBusy, and that of ctx.
func (g *gate) check(ctx context.Context, from, hash, password string, costMax int) error {
	if len(password) > passwordBytesMax { // bcrypt would not look at the rest
		return access.ErrUnauthenticated
	}
	if err := g.enter(ctx, from); err != nil {
		return err
	}
	_, work := g.processors.Begin(ctx, slotOwner)
	work.Heavy()
	start := time.Now()
	right := g.matches(hash, password, costMax)
	work.EndAll()
	g.leave(from, right, time.Since(start))
	if !right {
		return access.ErrUnauthenticated
	}
	return nil
}

// matches reports whether a password has a hash. What is wrong takes as long as one comparison
// of costMax, whether there is a hash and whatever its own cost is: time must not tell who is
// a user. As a comparison of cost n takes 2^n, those of n, n, n+1, … m-1 take 2^m together.
func (g *gate) matches(hash, password string, costMax int) bool {
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil {
		_ = g.compare(dummyHash(costMax), []byte(password))
		return false
	}
	if g.compare([]byte(hash), []byte(password)) == nil {
		return true
	}
	for ; cost < costMax; cost++ {
		_ = g.compare(dummyHash(cost), []byte(password))
	}
	return false
}

// dummyHash returns a hash of a cost that no password is known to have.
func dummyHash(cost int) []byte {
	const hashBytes = 31
	return fmt.Appendf(nil, "$2a$%02d$%s%s", cost, passwordDummySalt, passwordDummyBytes[:hashBytes])
}

// enter waits until a check of an address may run. Errors: access.ErrBusy, and that of ctx.
func (g *gate) enter(ctx context.Context, from string) error {
	w := &waiter{from: from, turn: make(chan error, 1)}
	if !g.queue(w) {
		return access.ErrBusy
	}
	timer := time.NewTimer(waitMax)
	defer timer.Stop()
	var err error
	select {
	case err := <-w.turn:
		return err
	case <-timer.C:
		err = access.ErrBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if g.remove(w) {
		return err
	}
	// Its turn came meanwhile, or it lost its place.
	if turn := <-w.turn; turn != nil {
		return turn
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked(from)
	g.startLocked()
	return err
}

// queue puts a check at its place and reports whether there was room.
func (g *gate) queue(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	class := g.book.class(w.from)
	if g.mu.of[w.from] >= waitingAddressMax || class == failed && len(g.mu.waiting[failed]) >= waitingFailedMax {
		return false
	}
	total := 0
	for _, list := range g.mu.waiting {
		total += len(list)
	}
	if total >= waitingMax && !g.displaceLocked(w.from, class) {
		return false
	}
	g.mu.of[w.from]++
	g.mu.waiting[class] = append(g.mu.waiting[class], w)
	g.startLocked()
	return true
}

// displaceLocked makes room for a check: a check of a worse class goes, else one of an
// address that has at least two more than the newcomer.
func (g *gate) displaceLocked(from string, class addressClass) bool {
	for worse := failed; worse > class; worse-- {
		if n := len(g.mu.waiting[worse]); n > 0 {
			g.refuseLocked(g.mu.waiting[worse][n-1])
			return true
		}
	}
	var largest *waiter
	for _, w := range g.mu.waiting[class] {
		if largest == nil || g.mu.of[w.from] > g.mu.of[largest.from] {
			largest = w
		}
	}
	if largest == nil || g.mu.of[largest.from] < g.mu.of[from]+2 {
		return false
	}
	g.refuseLocked(largest)
	return true
}

func (g *gate) refuseLocked(w *waiter) {
	if g.removeLocked(w) {
		w.turn <- access.ErrBusy
	}
}

// remove takes a check out of the queue and reports whether it was there.
func (g *gate) remove(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.removeLocked(w)
}

func (g *gate) removeLocked(w *waiter) bool {
	for class, list := range g.mu.waiting {
		for i := range list {
			if list[i] == w {
				g.mu.waiting[class] = append(list[:i:i], list[i+1:]...)
				g.forgetLocked(w.from)
				return true
			}
		}
	}
	return false
}

func (g *gate) forgetLocked(from string) {
	if g.mu.of[from]--; g.mu.of[from] == 0 {
		delete(g.mu.of, from)
	}
}

func (g *gate) endLocked(from string) {
	g.mu.running--
	g.forgetLocked(from)
}

// leave ends a check.
func (g *gate) leave(from string, right bool, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked(from)
	if right {
		g.book.succeeded(from)
	} else {
		g.book.failed(from)
		g.demoteLocked(from)
		g.mu.restAt, g.mu.rest = time.Now(), took
	}
	g.startLocked()
}

// failed notes that an address has shown what nobody was given, without a check of a password.
func (g *gate) failed(from string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.book.failed(from)
	g.demoteLocked(from)
}

// demoteLocked moves what an address that has failed has waiting behind the others, as far as
// there is room.
func (g *gate) demoteLocked(from string) {
	for class := known; class < failed; class++ {
		kept := g.mu.waiting[class][:0:0]
		var over []*waiter
		for _, w := range g.mu.waiting[class] {
			switch {
			case w.from != from:
				kept = append(kept, w)
			case len(g.mu.waiting[failed]) < waitingFailedMax:
				g.mu.waiting[failed] = append(g.mu.waiting[failed], w)
			default:
				over = append(over, w)
			}
		}
		g.mu.waiting[class] = kept
		for _, w := range over {
			g.forgetLocked(from)
			w.turn <- access.ErrBusy
		}
	}
}

// startLocked starts the checks whose turn it is.
func (g *gate) startLocked() {
	for class, factor := range [classes]int64{known: 0, unknown: unknownRestFactor, failed: failedRestFactor} {
		for len(g.mu.waiting[class]) > 0 && g.mu.running < g.slots {
			if left := time.Duration(factor)*g.mu.rest - time.Since(g.mu.restAt); left > 0 {
				g.wakeLocked(left)
				return
			}
			list := g.mu.waiting[class]
			i := g.nextLocked(list)
			w := list[i]
			g.mu.waiting[class] = append(list[:i:i], list[i+1:]...)
			g.mu.running++
			w.turn <- nil
		}
	}
}

// nextLocked picks an address by chance, and of that the first that waits.
func (g *gate) nextLocked(list []*waiter) int {
	var first []int
	seen := map[string]bool{}
	for i, w := range list {
		if !seen[w.from] {
			seen[w.from] = true
			first = append(first, i)
		}
	}
	return first[rand.IntN(len(first))]
}

// wakeLocked has those looked at who wait for a rest to end.
func (g *gate) wakeLocked(in time.Duration) {
	if g.mu.timer != nil {
		g.mu.timer.Stop()
	}
	g.mu.timer = time.AfterFunc(in, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.startLocked()
	})
}

// Hash makes the hash of a password, for a file. Errors: one that is empty or longer than
// bcrypt looks at.
func Hash(password string) (string, error) {
	if password == "" {
		return "", errors.New("the password is empty")
	}
	if len(password) > passwordBytesMax {
		return "", errors.New("the password is longer than 72 bytes, which is what bcrypt looks at")
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	return string(hash), err
}
