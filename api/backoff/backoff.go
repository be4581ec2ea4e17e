// Package backoff computes how long to wait before the next attempt at what has failed.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential waits Min after the first failure, twice as long after each further one, and Max
// at most.
type Exponential struct{ Min, Max time.Duration }

// Delay returns the wait after so many failures in a row, from 1. It is drawn from the upper
// half, so that those who failed together do not come back together.
func (e Exponential) Delay(failures int) time.Duration {
	wait := e.Longest(failures)
	return wait - rand.N(wait/2+1)
}

// Longest returns the longest Delay after so many failures in a row, for who fails alone.
func (e Exponential) Longest(failures int) time.Duration {
	const doublingsMax = 62
	if doublings := max(failures-1, 0); doublings <= doublingsMax && e.Min <= e.Max>>doublings {
		return e.Min << doublings
	}
	return e.Max
}
