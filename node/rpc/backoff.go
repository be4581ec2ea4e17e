package rpc

import (
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait between attempts: Base, twice as long each time, at
// most Max, of which a random half is left out so that nodes do not come together.
// Zero values mean the defaults.
type Backoff struct {
	Base time.Duration // 50 ms
	Max  time.Duration // 1 s
}

func (b Backoff) withDefaults() Backoff {
	if b.Base == 0 {
		b.Base = 50 * time.Millisecond
	}
	if b.Max == 0 {
		b.Max = time.Second
	}
	return b
}

// wait gives the pause after so many failed attempts, from 1.
func (b Backoff) wait(attempts int) time.Duration {
	d := b.Max
	if shift := attempts - 1; shift < 32 && b.Base<<shift < b.Max && b.Base<<shift > 0 {
		d = b.Base << shift
	}
	return d - time.Duration(rand.Int64N(int64(d)/2+1))
}
