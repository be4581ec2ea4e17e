package auth

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/tickmesh/tickmesh/router/access"
)

// Bounds of the checks of passwords.
const (
	waitingMax         = 64 // checks that wait or run, in all
	waitingAddressMax  = 4  // and of one address
	waitMax            = 5 * time.Second
	restFactor         = 3 // a wrong password's slot rests so many times as long as its check took
	passwordBytesMax   = 72
	processorsForOne   = 4 // one check at once for so many processors
	passwordCostDummy  = bcrypt.DefaultCost
	passwordDummyBytes = "no password has this hash"
)

// gate bounds what checking passwords costs.
type gate struct {
	slots chan struct{}
	// compare is bcrypt's; tests have their own.
	compare func(hash, password []byte) error
	dummy   []byte // compared with where there is no hash, so that both take as long

	mu struct {
		sync.Mutex
		waiting int
		of      map[string]int // by address
	}
}

func newGate() *gate {
	g := &gate{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/processorsForOne)), compare: bcrypt.CompareHashAndPassword}
	g.mu.of = map[string]int{}
	return g
}

// check compares a password with a hash; an empty hash matches nothing. Errors:
// access.ErrUnauthenticated, access.ErrBusy, and that of ctx.
func (g *gate) check(ctx context.Context, from, hash, password string) error {
	if len(password) > passwordBytesMax { // bcrypt would not look at the rest
		return access.ErrUnauthenticated
	}
	if !g.enter(from) {
		return access.ErrBusy
	}
	defer g.leave(from)
	timer := time.NewTimer(waitMax)
	defer timer.Stop()
	select {
	case g.slots <- struct{}{}:
	case <-timer.C:
		return access.ErrBusy
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	compared := []byte(hash)
	if hash == "" {
		compared = g.dummyHash()
	}
	start := time.Now()
	err := g.compare(compared, []byte(password))
	if err == nil && hash != "" {
		<-g.slots
		return nil
	}
	time.AfterFunc(restFactor*time.Since(start), func() { <-g.slots })
	return access.ErrUnauthenticated
}

// dummyHash is only called by who holds a slot; a race makes it twice, which does no harm.
func (g *gate) dummyHash() []byte {
	g.mu.Lock()
	dummy := g.dummy
	g.mu.Unlock()
	if dummy != nil {
		return dummy
	}
	dummy, err := bcrypt.GenerateFromPassword([]byte(passwordDummyBytes), passwordCostDummy)
	if err != nil {
		return []byte{} // no randomness; then unknown names are told faster
	}
	g.mu.Lock()
	g.dummy = dummy
	g.mu.Unlock()
	return dummy
}

func (g *gate) enter(from string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.waiting >= waitingMax || g.mu.of[from] >= waitingAddressMax {
		return false
	}
	g.mu.waiting++
	g.mu.of[from]++
	return true
}

func (g *gate) leave(from string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.waiting--
	if g.mu.of[from]--; g.mu.of[from] == 0 {
		delete(g.mu.of, from)
	}
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
