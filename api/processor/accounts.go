package processor

import (
	"math"
	"time"
)

const (
	// spentKept is in what time the account of an owner shrinks to a third (by e).
	spentKept = time.Second
	// reserveMax is what an account of an owner that may have the reserve is below.
	reserveMax = 50 * time.Millisecond
	// accountsMax bounds the owners with accounts.
	accountsMax = 1024
)

// accounts hold how long owners have had slots lately.
type accounts map[string]account

type account struct {
	spent time.Duration // at the time
	at    time.Duration // after the pool began
}

// of returns what is left of an account.
func (a account) of(now time.Duration) time.Duration {
	return time.Duration(float64(a.spent) * math.Exp(-float64(now-a.at)/float64(spentKept)))
}

// plus returns the account with more that was spent until now.
func (a account) plus(spent, now time.Duration) account { return account{a.of(now) + spent, now} }

// of returns how long an owner has had slots lately.
func (a accounts) of(owner string, now time.Duration) time.Duration { return a[owner].of(now) }

// add adds what an owner has had. Where there are too many owners, those whose accounts are the smallest are forgotten.
func (a *accounts) add(owner string, spent, now time.Duration) {
	if *a == nil {
		*a = accounts{}
	}
	if _, known := (*a)[owner]; !known && len(*a) >= accountsMax {
		a.forget(now)
	}
	(*a)[owner] = (*a)[owner].plus(spent, now)
}

// forget makes room: for what has become next to nothing, or else for one, the smallest.
func (a accounts) forget(now time.Duration) {
	smallest, least := "", time.Duration(math.MaxInt64)
	for owner := range a {
		spent := a.of(owner, now)
		if spent < reserveMax/100 {
			delete(a, owner)
		} else if spent < least {
			smallest, least = owner, spent
		}
	}
	if len(a) >= accountsMax {
		delete(a, smallest)
	}
}
