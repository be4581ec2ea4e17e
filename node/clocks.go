package node

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Clocks of other nodes count as heard for clockFresh; those that are further apart than
// clockDifferenceMax differ.
const (
	clockFresh         = 5 * time.Minute
	clockDifferenceMax = time.Hour
	clocksMax          = 4096
	// clockDoubtMax is how long a node without others waits before it drops what a clock that may
	// have jumped makes too old: by then the clock has been set, or somebody has seen why
	// retention is held.
	clockDoubtMax = 24 * time.Hour
)

// clocks know what the clocks of other nodes say. Boards without a clock that runs
// through power cuts may be years off, and a retention cut by such a clock would drop
// everything. So a leader cuts only while most of the clocks that it hears agree with its
// own: a cut is an entry that every replica applies, whatever its own clock says.
type clocks struct {
	clock func() time.Time // this node's
	start time.Time        // by it, when the process began
	// steady returns the time from start to a reading of clock, whatever it was set to meanwhile.
	steady func(now time.Time) time.Duration
	mu     struct {
		sync.Mutex
		heard  map[string]heardClock
		others int // nodes that the map names besides this one; othersUnknown: there is no map yet
		held   error
		doubts bool          // this node's clock, which is alone
		doubt  time.Duration // since when, by steady
		// How far the clock was set ahead since start, when it was trusted last and when the doubt began.
		trustedSet, doubtedSet time.Duration
	}
}

// othersUnknown stands for the number of other nodes before the first map.
const othersUnknown = -1

func (c *clocks) init(clock func() time.Time) {
	c.clock, c.start, c.mu.others = clock, clock(), othersUnknown
	// Readings of time.Now have the monotonic clock's, too. Those of a virtual clock have not: it is
	// never set, it only goes fast.
	c.steady = func(now time.Time) time.Duration { return now.Sub(c.start) }
}

// heardClock is what a node's clock has said. The time since then is counted by the
// monotonic clock: this node's own may be set at any time.
type heardClock struct {
	said time.Time
	at   time.Time
}

// ahead returns how far the clock is ahead of a time by now.
func (h heardClock) ahead(of time.Time) time.Duration { return h.said.Add(time.Since(h.at)).Sub(of) }

// HeardClock takes what another node's clock has just said, in ms since 1970.
func (n *Node) HeardClock(from string, timeMs int64) {
	c := &n.clocks
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.heard == nil {
		c.mu.heard = map[string]heardClock{}
	}
	if _, known := c.mu.heard[from]; known || len(c.mu.heard) < clocksMax {
		c.mu.heard[from] = heardClock{time.UnixMilli(timeMs), time.Now()}
	}
}

// expect sets how many other nodes there are.
func (c *clocks) expect(others int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.others = others
}

// freshLocked forgets the clocks that were not heard for long, and returns how far the
// others are ahead of a time.
func (c *clocks) freshLocked(of time.Time) (ahead []time.Duration) {
	for name, h := range c.mu.heard {
		if time.Since(h.at) > clockFresh {
			delete(c.mu.heard, name)
			continue
		}
		ahead = append(ahead, h.ahead(of))
	}
	return ahead
}

// trust returns why nothing may be cut by a time that this node's clock has given; nil:
// it may. Keep is how long samples are kept at most, 0 if nothing is to be cut; all says that
// all samples that there are would be.
func (c *clocks) trust(now time.Time, keep time.Duration, all bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.held = judgeClocks(c.freshLocked(now), c.mu.others)
	switch {
	case c.mu.held == nil && c.mu.others == 0:
		c.mu.held = c.judgeAloneLocked(now, keep, all)
	case c.mu.held == nil:
		c.mu.trustedSet = c.setAhead(now)
	}
	return c.mu.held
}

// setAhead returns how far the clock was set ahead since start.
func (c *clocks) setAhead(now time.Time) time.Duration {
	return now.Round(0).Sub(c.start.Round(0)) - c.steady(now)
}

// judgeAloneLocked judges a clock that is compared with samples and the monotonic clock alone.
// That nobody has written for as long as samples are kept looks the same as a clock that has
// jumped, and a clock that is set may have been wrong before, so this only waits. One sample that
// was stamped by the clock after it has jumped says nothing for it.
func (c *clocks) judgeAloneLocked(now time.Time, keep time.Duration, all bool) error {
	if keep <= 0 {
		return nil
	}
	set := c.setAhead(now)
	jumped := set-c.mu.trustedSet > clockDifferenceMax
	switch {
	case !all && !jumped:
		c.mu.doubts, c.mu.trustedSet = false, set
		return nil
	case !c.mu.doubts || set-c.mu.doubtedSet > clockDifferenceMax:
		c.mu.doubts, c.mu.doubt, c.mu.doubtedSet = true, c.steady(now), set
	}
	switch {
	case c.steady(now)-c.mu.doubt >= min(keep, clockDoubtMax):
		c.mu.trustedSet = set
		return nil
	case jumped:
		return errClockSet
	default:
		return errClockAhead
	}
}

// Why a clock is not trusted.
var (
	errClockAlone  = errors.New("the clock of no other node is known yet")
	errClockDiffer = errors.New("this node's clock differs from most others by more than an hour")
	errClockSet    = errors.New("this node's clock was set ahead by more than an hour; if it is right what is too old is dropped within a day")
	errClockAhead  = errors.New("by this node's clock all samples are too old: it may have jumped; if it is right they are dropped within a day")
)

// judgeClocks reports whether a clock agrees with most: with more than half of those that
// were heard, itself included. A node that knows of others waits for the first of them,
// and one that does not know yet whether there are others waits for its map.
func judgeClocks(ahead []time.Duration, others int) error {
	if others == 0 {
		return nil
	}
	if len(ahead) == 0 {
		return errClockAlone
	}
	agree := 1
	for _, d := range ahead {
		if d.Abs() <= clockDifferenceMax {
			agree++
		}
	}
	if 2*agree > len(ahead)+1 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d agree", errClockDiffer, agree, len(ahead)+1)
}

// difference returns the greatest difference to a clock that was heard.
func (c *clocks) difference() (most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.freshLocked(c.clock()) {
		most = max(most, d.Abs())
	}
	return most
}

// holds reports whether retention waited when it was due last.
func (c *clocks) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.held != nil
}

// problems tell of clocks that differ.
func (c *clocks) problems() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.freshLocked(now)
	for name, h := range c.mu.heard {
		ahead := h.ahead(now)
		if ahead.Abs() <= clockDifferenceMax {
			continue
		}
		word := "ahead of"
		if ahead < 0 {
			word = "behind"
		}
		list = append(list, fmt.Sprintf("clocks differ: that of node %s is %v %s this node's", name, ahead.Abs().Round(time.Minute), word))
	}
	slices.Sort(list)
	if c.mu.held != nil && !errors.Is(c.mu.held, errClockAlone) {
		list = append(list, fmt.Sprintf("retention is held: %v", c.mu.held))
	}
	return list
}

func clockMetrics() []metric {
	return []metric{
		gauge("clock_difference_seconds", "The greatest difference between this node's clock and another one's.", func(f *figures) float64 { return f.clocks.difference().Seconds() }),
		gauge("retention_held", "1 while retention waits, since this node's clock does not agree with most others, or with any sample, or was set ahead.", func(f *figures) float64 { return oneIf(f.clocks.holds()) }),
	}
}
