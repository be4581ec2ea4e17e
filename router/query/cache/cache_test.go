package cache

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// chronicle is a memory that knows the least time of each change.
type chronicle struct {
	*scantest.Memory
	run atomic.Uint64

	mu    sync.Mutex
	least []int64             // guarded by mu, by change
	asked int                 // guarded by mu: calls of History
	seen  func(*scan.Request) // before each scan; nil: nothing
}

func newChronicle() *chronicle {
	c := &chronicle{Memory: scantest.NewMemory()}
	c.run.Store(1)
	return c
}

func (c *chronicle) Put(key series.Key, samples ...series.Sample) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range samples {
		c.least = append(c.least, s.TimeMs)
	}
	return c.Memory.Put(key, samples...)
}

func (c *chronicle) Delete(ctx context.Context, selector *scan.Selector, fromMs, toMs int64) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.least = append(c.least, fromMs)
	return c.Memory.Delete(ctx, selector, fromMs, toMs)
}

func (c *chronicle) Scan(ctx context.Context, r *scan.Request, visit scan.Visitor) error {
	if c.seen != nil {
		c.seen(r)
	}
	return c.Memory.Scan(ctx, r, visit)
}

func (c *chronicle) History(_ context.Context, _ []uint16, since []scan.Mark) ([]scan.Change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	run := c.run.Load()
	now := scan.Change{Mark: scan.Mark{Run: run, Index: uint64(len(c.least))}, LeastMs: scan.ChangedAll}
	if len(since) == 1 && since[0].Run == run && run != 0 {
		now.LeastMs = scan.ChangedNothing
		for _, timeMs := range c.least[since[0].Index:] {
			now.LeastMs = min(now.LeastMs, timeMs)
		}
	}
	return []scan.Change{now}, nil
}

// repeated asks each question several times, at moments that close ever more of its
// windows, so that the last answer comes from the cache if any can.
type repeated struct {
	scan.Source
	nowMs  *atomic.Int64
	random *rand.Rand
	mu     *sync.Mutex
}

func (r repeated) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	if request.Windows != nil && request.FromMs > -1e15 && request.ToMs < 1e15 {
		ignore := func(int, *scan.Chunk) error { return nil }
		at := request.FromMs
		for range 3 {
			r.mu.Lock()
			at += r.random.Int64N(max(1, request.ToMs-at+1) + 10)
			r.mu.Unlock()
			r.nowMs.Store(at)
			_ = r.Source.Scan(ctx, request, ignore) // the last one tells
		}
	}
	return r.Source.Scan(ctx, request, visit)
}

func opened(o Options) (*Cache, *atomic.Int64) {
	now := &atomic.Int64{}
	now.Store(1 << 50)
	o.Clock = func() time.Time { return time.UnixMilli(now.Load()).Add(time.Nanosecond) }
	o.FinalAfter = time.Nanosecond
	return New(o), now
}

func TestSourceKeepsThePromises(t *testing.T) {
	for _, size := range []int64{1 << 30, 20_000} {
		scantest.RunSourceTests(t, func(*testing.T) scantest.Subject {
			c, now := opened(Options{Bytes: size, WindowsMin: 1})
			m := newChronicle()
			random := rand.New(rand.NewPCG(1, 2))
			return scantest.Subject{Source: repeated{c.Source(m), now, random, &sync.Mutex{}}, Deleter: m, Put: m.Put}
		})
	}
}

// counted returns the value of a counter.
func counted(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		return -1
	}
	return m.GetCounter().GetValue()
}
