package upgrade

import (
	"fmt"
	"sync"
	"time"
)

// turnMax is how long one cluster may keep others waiting: one whose upgrade stands still, as a
// machine of it is lost, goes on beside the next.
const turnMax = time.Hour

// PauseDefault is how long an operator waits between the upgrades of two clusters.
const PauseDefault = time.Minute

// Turns makes the clusters of an operator take its changes one after the other. It is safe for
// concurrent use.
//
// It begins with a pause, so that clusters whose change an earlier operator has begun take their
// turn before others.
type Turns struct {
	pause time.Duration
	mu    struct {
		sync.Mutex
		holder string    // whose turn it is; empty: nobody's
		since  time.Time // when it began
		freeAt time.Time // when the next one may begin
	}
}

// NewTurns returns the Turns of an operator that starts now.
func NewTurns(pause time.Duration, now time.Time) *Turns {
	t := &Turns{pause: pause}
	t.mu.freeAt = now.Add(pause)
	return t
}

// Take takes the turn for a cluster, and returns why the cluster has to wait, or "" if it need not.
// A cluster whose change has begun never waits, even if it is another one's turn.
func (t *Turns) Take(cluster string, begun bool, now time.Time) (wait string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stands := t.mu.holder != "" && now.Sub(t.mu.since) >= turnMax
	switch {
	case t.mu.holder == cluster:
	case stands && !begun, t.mu.holder == "" && (begun || !now.Before(t.mu.freeAt)):
		t.mu.holder, t.mu.since = cluster, now
	case begun:
	case t.mu.holder != "":
		return fmt.Sprintf("a new operator changes one cluster after the other, and is at %s", t.mu.holder)
	default:
		return fmt.Sprintf("a new operator changes one cluster after the other, and begins with the next one at %s", t.mu.freeAt.UTC().Format(time.RFC3339))
	}
	return ""
}

// Done ends the turn of a cluster, if it has it.
func (t *Turns) Done(cluster string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.holder == cluster {
		t.mu.holder, t.mu.freeAt = "", now.Add(t.pause)
	}
}
