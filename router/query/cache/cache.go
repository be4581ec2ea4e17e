package cache

import (
	"container/list"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configure a Cache.
type Options struct {
	// Bytes bounds the memory of what is kept, and of what is being read to be kept.
	Bytes int64
	// FinalAfter is how long ago a window must have ended to be kept; 0: the default, two
	// minutes. Answers do not depend on it, only how often something that is kept changes.
	FinalAfter time.Duration
	// WindowsMin is how many windows a request must have that can be kept; 0: the
	// default, 16.
	WindowsMin int
	Clock      func() time.Time      // nil: time.Now
	Registerer prometheus.Registerer // nil: no metrics
}

const (
	finalAfterDefault = 2 * time.Minute
	windowsMinDefault = 16
)

// entryBytes is about what an entry takes besides its key and columns.
const entryBytes = 512

// Cache keeps windows. It is safe for concurrent use.
type Cache struct {
	options Options
	metrics *metrics

	mu struct {
		sync.Mutex
		entries map[string]*list.Element // of order
		order   list.List                // of *entry, the one that was used last at the front
		bytes   int64                    // of entries, and of what recorders have reserved
	}
}

// New returns an empty cache.
func New(o Options) *Cache {
	if o.FinalAfter == 0 {
		o.FinalAfter = finalAfterDefault
	}
	if o.WindowsMin == 0 {
		o.WindowsMin = windowsMinDefault
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	c := &Cache{options: o}
	c.mu.entries = map[string]*list.Element{}
	c.metrics = newMetrics(c.size, o.Registerer)
	return c
}

// use returns the entry of a key, and whether its uses have come round.
func (c *Cache) use(key string) (e *entry, turn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, found := c.mu.entries[key]
	if !found {
		return nil, false
	}
	c.mu.order.MoveToFront(at)
	e = at.Value.(*entry)
	e.uses = (e.uses + 1) % usesInTurn
	return e, e.uses == 0
}

// put puts an entry in the place of the one of its key, if that is still the one before;
// nil: if there is none.
func (c *Cache) put(e, before *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, found := c.mu.entries[e.key]
	switch {
	case found && at.Value.(*entry) == before:
		c.removeLocked(at)
	case found || before != nil:
		return
	}
	c.mu.entries[e.key] = c.mu.order.PushFront(e)
	c.mu.bytes += e.bytes
	c.shrinkLocked()
}

// grown notes that an entry has more bytes, if it is still there.
func (c *Cache) grown(e *entry, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, found := c.mu.entries[e.key]; found && at.Value.(*entry) == e {
		e.bytes += bytes
		c.mu.bytes += bytes
		c.shrinkLocked()
	}
}

// reserve takes memory for something that may be kept, and reports whether there is some. It
// is given back with a negative number.
func (c *Cache) reserve(bytes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.bytes += bytes
	if bytes <= 0 {
		return true
	}
	c.shrinkLocked()
	if c.mu.bytes <= c.options.Bytes {
		return true
	}
	c.mu.bytes -= bytes
	return false
}

// shrinkLocked forgets what was not used for longest, until there is room. Who reads such
// an entry goes on.
func (c *Cache) shrinkLocked() {
	for c.mu.bytes > c.options.Bytes && c.mu.order.Len() > 0 {
		c.removeLocked(c.mu.order.Back())
	}
}

func (c *Cache) removeLocked(at *list.Element) {
	e := at.Value.(*entry)
	c.mu.order.Remove(at)
	delete(c.mu.entries, e.key)
	c.mu.bytes -= e.bytes
}

// Bytes returns the memory that is held.
func (c *Cache) Bytes() int64 {
	_, bytes := c.size()
	return bytes
}

func (c *Cache) size() (entries int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.entries), c.mu.bytes
}
