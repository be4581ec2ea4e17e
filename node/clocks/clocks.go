// Package clocks compares a node's clock with those of other nodes, with the samples that it has and with the time
// that passes, and decides whether retention may cut by it. It knows no shard, entry, map or file: who hears from
// another node tells it, and who is about to cut asks.
package clocks

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Clocks of other nodes count as heard for fresh; those that are further apart than
// differenceMax differ.
const (
	fresh         = 5 * time.Minute
	differenceMax = time.Hour
	heardMax      = 4096
	// DoubtMax is how long a node without others waits before it drops what a clock that may
	// have jumped makes too old: by then the clock has been set, or somebody has seen why
	// retention is held.
	DoubtMax = 24 * time.Hour
)

// Clocks know what the clocks of other nodes say. Boards without a clock that runs
// through power cuts may be years off, and a retention cut by such a clock would drop
// everything. So a leader cuts only while most of the clocks that it hears agree with its
// own: a cut is an entry that every replica applies, whatever its own clock says.
type Clocks struct {
	clock func() time.Time // this node's
	start time.Time        // by it, when the process began
	mu    struct {
		sync.Mutex
		// steady returns the time from start to a reading of clock, whatever it was set to meanwhile.
		steady func(now time.Time) time.Duration
		heard  map[string]heard
		others int // nodes that the map names besides this one; OthersUnknown: there is no map yet
		held   error
		doubts bool          // this node's clock, which is alone
		doubt  time.Duration // since when, by steady
		// How far the clock was set ahead since start, when it was trusted last and when the doubt began.
		trustedSet, doubtedSet time.Duration
	}
}

// OthersUnknown stands for the number of other nodes before the first map.
const OthersUnknown = -1

// New returns the clocks of a node that knows of no other one and has no map yet.
func New(clock func() time.Time) *Clocks {
	c := &Clocks{clock: clock, start: clock()}
	c.mu.others = OthersUnknown
	// Readings of time.Now have the monotonic clock's, too. Those of a virtual clock have not: it is
	// never set, it only goes fast.
	c.mu.steady = func(now time.Time) time.Duration { return now.Sub(c.start) }
	return c
}

// SetSteady has the time since New counted by another clock than the monotonic one, such as one that a test moves on.
func (c *Clocks) SetSteady(steady func(now time.Time) time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.steady = steady
}

// heard is what a node's clock has said. The time since then is counted by the
// monotonic clock: this node's own may be set at any time.
type heard struct {
	said time.Time
	at   time.Time
}

// ahead returns how far the clock is ahead of a time by now.
func (h heard) ahead(of time.Time) time.Duration { return h.said.Add(time.Since(h.at)).Sub(of) }

// Hear takes what another node's clock has just said, in ms since 1970.
func (c *Clocks) Hear(from string, timeMs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.heard == nil {
		c.mu.heard = map[string]heard{}
	}
	if _, known := c.mu.heard[from]; known || len(c.mu.heard) < heardMax {
		c.mu.heard[from] = heard{time.UnixMilli(timeMs), time.Now()}
	}
}

// Expect sets how many other nodes there are.
func (c *Clocks) Expect(others int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.others = others
}

// freshLocked forgets the clocks that were not heard for long, and returns how far the
// others are ahead of a time.
func (c *Clocks) freshLocked(of time.Time) (ahead []time.Duration) {
	for name, h := range c.mu.heard {
		if time.Since(h.at) > fresh {
			delete(c.mu.heard, name)
			continue
		}
		ahead = append(ahead, h.ahead(of))
	}
	return ahead
}

// Trust returns why nothing may be cut by a time that this node's clock has given; nil:
// it may. Keep is how long samples are kept at most, 0 if nothing is to be cut; all says that
// all samples that there are would be.
func (c *Clocks) Trust(now time.Time, keep time.Duration, all bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.held = judge(c.freshLocked(now), c.mu.others)
	switch {
	case c.mu.held == nil && c.mu.others == 0:
		c.mu.held = c.judgeAloneLocked(now, keep, all)
	case c.mu.held == nil:
		c.mu.trustedSet = c.setAheadLocked(now)
	}
	return c.mu.held
}

// setAheadLocked returns how far the clock was set ahead since start.
func (c *Clocks) setAheadLocked(now time.Time) time.Duration {
	return now.Round(0).Sub(c.start.Round(0)) - c.mu.steady(now)
}

// judgeAloneLocked judges a clock that is compared with samples and the monotonic clock alone.
// That nobody has written for as long as samples are kept looks the same as a clock that has
// jumped, and a clock that is set may have been wrong before, so this only waits. One sample that
// was stamped by the clock after it has jumped says nothing for it.
func (c *Clocks) judgeAloneLocked(now time.Time, keep time.Duration, all bool) error {
	if keep <= 0 {
		return nil
	}
	set := c.setAheadLocked(now)
	jumped := set-c.mu.trustedSet > differenceMax
	switch {
	case !all && !jumped:
		c.mu.doubts, c.mu.trustedSet = false, set
		return nil
	case !c.mu.doubts || set-c.mu.doubtedSet > differenceMax:
		c.mu.doubts, c.mu.doubt, c.mu.doubtedSet = true, c.mu.steady(now), set
	}
	switch {
	case c.mu.steady(now)-c.mu.doubt >= min(keep, DoubtMax):
		c.mu.trustedSet = set
		return nil
	case jumped:
		return errSet
	default:
		return errAhead
	}
}

// Why a clock is not trusted.
var (
	errAlone  = errors.New("the clock of no other node is known yet")
	errDiffer = errors.New("this node's clock differs from most others by more than an hour")
	errSet    = errors.New("this node's clock was set ahead by more than an hour; if it is right what is too old is dropped within a day")
	errAhead  = errors.New("by this node's clock all samples are too old: it may have jumped; if it is right they are dropped within a day")
)

// judge reports whether a clock agrees with most: with more than half of those that
// were heard, itself included. A node that knows of others waits for the first of them,
// and one that does not know yet whether there are others waits for its map.
func judge(ahead []time.Duration, others int) error {
	if others == 0 {
		return nil
	}
	if len(ahead) == 0 {
		return errAlone
	}
	agree := 1
	for _, d := range ahead {
		if d.Abs() <= differenceMax {
			agree++
		}
	}
	if 2*agree > len(ahead)+1 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d agree", errDiffer, agree, len(ahead)+1)
}

// Difference returns the greatest difference to a clock that was heard.
func (c *Clocks) Difference() (most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.freshLocked(c.clock()) {
		most = max(most, d.Abs())
	}
	return most
}

// Held reports whether retention waited when it was due last.
func (c *Clocks) Held() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.held != nil
}

// Problems tells people of clocks that differ.
func (c *Clocks) Problems() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.freshLocked(now)
	for name, h := range c.mu.heard {
		ahead := h.ahead(now)
		if ahead.Abs() <= differenceMax {
			continue
		}
		word := "ahead of"
		if ahead < 0 {
			word = "behind"
		}
		list = append(list, fmt.Sprintf("clocks differ: that of node %s is %v %s this node's", name, ahead.Abs().Round(time.Minute), word))
	}
	slices.Sort(list)
	if c.mu.held != nil && !errors.Is(c.mu.held, errAlone) {
		list = append(list, fmt.Sprintf("retention is held: %v", c.mu.held))
	}
	return list
}
