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
	// clockDoubtMax is how long a node without others waits before it drops all that it has: by
	// then a clock that has jumped has been set, or somebody has seen why retention is held.
	clockDoubtMax = 24 * time.Hour
)

// clocks know what the clocks of other nodes say. Boards without a clock that runs
// through power cuts may be years off, and a retention cut by such a clock would drop
// everything. So a leader cuts only while most of the clocks that it hears agree with its
// own: a cut is an entry that every replica applies, whatever its own clock says.
type clocks struct {
	clock func() time.Time // this node's
	mu    struct {
		sync.Mutex
		heard  map[string]heardClock
		others int // nodes that the map names besides this one; othersUnknown: there is no map yet
		held   error
		doubt  time.Time // since when this node's clock, which is alone, makes everything too old; zero: it does not
	}
}

// othersUnknown stands for the number of other nodes before the first map.
const othersUnknown = -1

func (c *clocks) init(clock func() time.Time) {
	c.clock, c.mu.others = clock, othersUnknown
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

// freshLocked forgets the clocks that were not heard for long, and gives how far the
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
// it may. Keep is how long samples are kept if all that there are would be cut, else 0.
func (c *clocks) trust(now time.Time, keep time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.held = judgeClocks(c.freshLocked(now), c.mu.others)
	if c.mu.held == nil && c.mu.others == 0 {
		c.mu.held = c.judgeAloneLocked(keep)
	}
	return c.mu.held
}

// judgeAloneLocked judges a clock that is compared with samples alone. That nobody has written
// for as long as samples are kept looks the same as a clock that has jumped, so this only waits.
func (c *clocks) judgeAloneLocked(keep time.Duration) error {
	switch {
	case keep <= 0:
		c.mu.doubt = time.Time{}
		return nil
	case c.mu.doubt.IsZero():
		c.mu.doubt = time.Now()
	}
	if time.Since(c.mu.doubt) >= min(keep, clockDoubtMax) {
		return nil
	}
	return errClockAhead
}

// Why a clock is not trusted.
var (
	errClockAlone  = errors.New("the clock of no other node is known yet")
	errClockDiffer = errors.New("this node's clock differs from most others by more than an hour")
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
	if c.mu.held != nil && (errors.Is(c.mu.held, errClockDiffer) || errors.Is(c.mu.held, errClockAhead)) {
		list = append(list, fmt.Sprintf("retention is held: %v", c.mu.held))
	}
	return list
}

func clockMetrics() []metric {
	return []metric{
		gauge("clock_difference_seconds", "The greatest difference between this node's clock and another one's.", func(f *figures) float64 { return f.clocks.difference().Seconds() }),
		gauge("retention_held", "1 while retention waits, since this node's clock does not agree with most others, or with any sample.", func(f *figures) float64 { return oneIf(f.clocks.holds()) }),
	}
}
