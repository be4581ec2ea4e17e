package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/processor"
)

// checkTakes is how long a comparison takes in these tests, by a clock that is made.
const checkTakes = 100 * time.Millisecond

// slowGate returns a gate with one slot. The password "right" has every hash.
func slowGate() *gate {
	g := newGate(nil)
	g.slots = 1
	g.compare = func(hash, password []byte) error {
		time.Sleep(checkTakes)
		if string(password) == "right" && !strings.Contains(string(hash), passwordDummySalt) {
			return nil
		}
		return bcrypt.ErrMismatchedHashAndPassword
	}
	return g
}

const someHash = "$2a$10$zzzzzzzzzzzzzzzzzzzzzuzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"

func (g *gate) try(from, password string) error {
	return g.check(context.Background(), from, someHash, password, bcrypt.DefaultCost)
}

// Twenty addresses that guess without end keep nobody else out: neither who was there before
// nor who comes for the first time.
func TestGuessersKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowGate()
		if err := g.try("old", "right"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var guesses, busy atomic.Int64
		for i := range 20 {
			for j := range 2 * waitingAddressMax {
				go func() {
					for ctx.Err() == nil {
						err := g.try(fmt.Sprint("guesser", i), fmt.Sprint("wrong", j))
						guesses.Add(1)
						if errors.Is(err, access.ErrBusy) {
							busy.Add(1)
							time.Sleep(10 * time.Millisecond)
						}
					}
				}()
			}
		}
		time.Sleep(time.Second)
		for i := range 62 {
			from, most := "old", 2*checkTakes // one that runs, and its own
			if i%2 == 1 {
				from, most = fmt.Sprint("new", i), waitMax/2
			}
			start := time.Now()
			if err := g.try(from, "right"); err != nil {
				t.Fatalf("try %d: %v", i, err)
			}
			if took := time.Since(start); took > most {
				t.Errorf("try %d from %s took %v", i, from, took)
			}
			time.Sleep(300 * time.Millisecond)
		}
		start := guesses.Load() - busy.Load()
		time.Sleep(time.Minute)
		if n := guesses.Load() - busy.Load() - start; n > int64(time.Minute/(checkTakes*(1+failedRestFactor)))+1 || n < 100 {
			t.Errorf("%d passwords were checked in a minute of nothing but wrong ones", n)
		}
		cancel()
		synctest.Wait()
		time.Sleep(time.Minute)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.mu.running != 0 || len(g.mu.of) != 0 {
			t.Errorf("%d run, %v wait", g.mu.running, g.mu.of)
		}
	})
}

// Of addresses that nobody knows, those with most give way, and all together are bounded.
func TestGateIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowGate()
		var busy atomic.Int64
		for i := range waitingMax/waitingAddressMax + 1 {
			for range waitingAddressMax {
				go func() {
					if errors.Is(g.try(fmt.Sprint(i), "wrong"), access.ErrBusy) {
						busy.Add(1)
					}
				}()
			}
		}
		synctest.Wait()
		if err := g.try("0", "right"); !errors.Is(err, access.ErrBusy) {
			t.Errorf("one more of an address: %v", err)
		}
		before := busy.Load()
		if err := g.try("newcomer", "right"); err != nil {
			t.Errorf("a newcomer: %v", err)
		}
		if busy.Load() == before {
			t.Error("nobody gave way")
		}
		total := 0
		g.mu.Lock()
		for _, list := range g.mu.waiting {
			total += len(list)
		}
		g.mu.Unlock()
		if total > waitingMax {
			t.Errorf("%d wait", total)
		}
		time.Sleep(time.Minute)
	})
}

// A caller that goes gives its place back.
func TestGateLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowGate()
		go func() { _ = g.try("a", "right") }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.check(ctx, "b", someHash, "right", bcrypt.DefaultCost); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Second)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.mu.running != 0 || len(g.mu.of) != 0 {
			t.Errorf("%d run, %v", g.mu.running, g.mu.of)
		}
	})
}

// A wrong password takes the same time for every user, and for none.
func TestEqualTimes(t *testing.T) {
	g := newGate(nil)
	var work int
	g.compare = func(hash, _ []byte) error {
		cost, err := bcrypt.Cost(hash)
		if err != nil {
			t.Fatalf("%s: %v", hash, err)
		}
		work += 1 << cost
		return bcrypt.ErrMismatchedHashAndPassword
	}
	const costMax = 13
	for _, hash := range []string{"", "$2a$04$zzzzzzzzzzzzzzzzzzzzzuzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", someHash, "$2a$13$zzzzzzzzzzzzzzzzzzzzzuzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"} {
		work = 0
		if g.matches(hash, "x", costMax) || work != 1<<costMax {
			t.Errorf("%q: %d steps, want %d", hash, work, 1<<costMax)
		}
	}
	if err := bcrypt.CompareHashAndPassword(dummyHash(bcrypt.MinCost), []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("the dummy is no hash that can be compared: %v", err)
	}
}

// What is remembered of addresses is bounded, and a flood of wrong ones forgets no right one.
func TestAddressBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b addressBook
		b.succeeded("old")
		for i := range 2 * addressesMax {
			b.failed(fmt.Sprint(i))
		}
		if b.class("old") != known || len(b.wrong) != addressesMax || b.class("else") != unknown {
			t.Errorf("%d, %v", len(b.wrong), b.class("old"))
		}
		b.failed("old")
		if b.class("old") != failed {
			t.Error("it has failed")
		}
		time.Sleep(failureKept)
		if b.class("old") != known {
			t.Error("it was long ago")
		}
		time.Sleep(successKept)
		b.failed("x")
		if b.class("old") != unknown || len(b.wrong) != 1 {
			t.Errorf("%d are kept", len(b.wrong))
		}
	})
}

// TestChecksComputeInSlots: a password is checked as heavy work, when there is a slot for it.
func TestChecksComputeInSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := processor.New(1)
		g, compared := newGate(pool), 0
		g.compare = func(_, _ []byte) error { compared++; return nil }
		pool.Small() // so that there is the one slot
		_, other := pool.Begin(t.Context(), "somebody")
		other.Heavy()
		done := make(chan error)
		go func() { done <- g.check(t.Context(), "10.0.0.1", string(dummyHash(4)), "secret", 4) }()
		synctest.Wait()
		if s := pool.Stats(); compared != 0 || s.Waiting != 1 {
			t.Errorf("%d compared, %+v, while the slot is in use", compared, s)
		}
		other.End()
		if err := <-done; err != nil || compared != 1 {
			t.Errorf("%v, %d compared", err, compared)
		}
		if s := pool.Stats(); s.InUse != 0 || s.Waiting != 0 {
			t.Errorf("%+v is left", s)
		}
	})
}
