package processor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestReserve: an owner that has had little lately does not wait for one that has had much, and that one never has
// the reserve.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBusy(1)
		p.reserve, p.still = true, time.Hour
		_, first := p.Begin(t.Context(), "much")
		first.Heavy()
		burn(2 * reserveMax)
		first.End()
		first.Heavy()
		_, second := p.Begin(t.Context(), "much")
		go second.Heavy()
		synctest.Wait()
		if s := p.Stats(); s.InUse != 1 || s.Waiting != 1 {
			t.Fatalf("%+v: an owner that has had much has the reserve", s)
		}
		begin := time.Now()
		_, little := p.Begin(t.Context(), "little")
		little.Heavy()
		if took := time.Since(begin); took != 0 || little.held != reserve {
			t.Errorf("an owner that has had little waited for %v and has %v", took, little.held)
		}
		served := make(chan time.Duration)
		_, other := p.Begin(t.Context(), "other")
		go func() {
			other.Heavy()
			served <- time.Since(begin)
		}()
		synctest.Wait()
		burn(slice)
		go little.Pace() // gives it up after a slice, and waits behind the others
		if took := <-served; took != slice {
			t.Errorf("the next owner that has had little was served after %v", took)
		}
		other.End()
		synctest.Wait()
		if little.held != reserve || second.held != nothing {
			t.Errorf("%v and %v are held", little.held, second.held)
		}
		little.End()
		first.End()
		synctest.Wait()
		second.End()
		if s := p.Stats(); s.InUse != 0 || s.Waiting != 0 {
			t.Errorf("%+v is left", s)
		}
	})
}

// TestAccountsAreBounded: owners that come once do not push out one that has had much.
func TestAccountsAreBounded(t *testing.T) {
	var a accounts
	a.add("much", time.Second, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 3 * accountsMax {
		a.add(fmt.Sprint(n), reserveMax/10+time.Duration(rng.IntN(1000)), time.Duration(n))
		if len(a) > accountsMax {
			t.Fatalf("%d accounts", len(a))
		}
	}
	if spent := a.of("much", 0); spent != time.Second {
		t.Errorf("%v is left of the largest account", spent)
	}
	if spent := a.of("much", spentKept); spent < time.Second/3 || spent > 2*time.Second/5 {
		t.Errorf("%v is left after %v", spent, spentKept)
	}
	a.add("last", 0, 10*spentKept)
	if len(a) > 2 {
		t.Errorf("%d accounts after a long time", len(a))
	}
}
