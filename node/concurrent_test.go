package node

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// tenant is one writer with series of its own, so that it knows at every moment
// what a scan of them must give.
type tenant struct {
	number int
	rng    *rand.Rand
	node   *Node
	model  model
	writer testWriter
	now    int64
}

func newTenant(n *Node, number int, seed uint64) *tenant {
	return &tenant{
		number: number, rng: rand.New(rand.NewPCG(seed, uint64(number))), node: n, model: model{},
		writer: testWriter{node: n}, now: 1_700_000_000_000,
	}
}

func (w *tenant) metric() string { return fmt.Sprintf("tenant%d", w.number) }

func (w *tenant) key(i int) series.Key {
	return series.AppendKey(nil, nil, []byte(w.metric()), []series.Tag{{Name: []byte("host"), Value: fmt.Appendf(nil, "h%d", i)}})
}

func (w *tenant) selector() scan.Selector { return scan.Selector{Metric: w.metric()} }

// step writes, deletes or reads, and checks what it reads.
func (w *tenant) step(ctx context.Context) error {
	w.now += w.rng.Int64N(20_000)
	switch k := w.rng.IntN(20); {
	case k == 0:
		from := w.now - w.rng.Int64N(3*3600_000)
		to := from + w.rng.Int64N(3600_000)
		selector := w.selector()
		if _, err := w.node.Delete(ctx, &selector, from, to); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		for i := range 6 {
			w.model.remove(w.key(i), from, to)
		}
		return nil
	case k < 5:
		return w.check(ctx)
	default:
		return w.write(ctx)
	}
}

func (w *tenant) write(ctx context.Context) error {
	for range 1 + w.rng.IntN(60) {
		key, at, v := w.key(w.rng.IntN(6)), w.now+w.rng.Int64N(20_000), float64(w.rng.IntN(1000))/4
		if w.rng.IntN(8) == 0 {
			at -= w.rng.Int64N(5 * 3600_000)
		}
		w.writer.add(key, at, v)
		w.model.put(key, at, v)
	}
	if err := w.writer.send(ctx); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// check reads all series of the tenant.
func (w *tenant) check(ctx context.Context) error {
	got := model{}
	err := w.node.Scan(ctx, &scan.Request{Selector: w.selector(), FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax},
		func(_ int, c *scan.Chunk) error {
			for i := range c.Times {
				got.put(c.Key, c.Times[i], c.Values[i])
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	if diff := differences(w.model, got); len(diff) > 0 {
		return fmt.Errorf("tenant %d: %q", w.number, diff)
	}
	return w.checkLast(ctx)
}

// checkLast compares the newest sample of each series.
func (w *tenant) checkLast(ctx context.Context) error {
	want := map[string]series.Sample{}
	for k, samples := range w.model {
		for at, v := range samples {
			if s, ok := want[k]; !ok || at > s.TimeMs {
				want[k] = series.Sample{TimeMs: at, Value: math.Float64frombits(v)}
			}
		}
	}
	selector := w.selector()
	err := w.node.Last(ctx, &selector, scan.TimeMsMin, scan.Limits{}, func(p scan.Point) error {
		s, ok := want[string(p.Key)]
		if !ok || s != p.Sample {
			return fmt.Errorf("the last sample of %s is %v, want %v (%v)", p.Key, p.Sample, s, ok)
		}
		delete(want, string(p.Key))
		return nil
	})
	if err == nil && len(want) > 0 {
		err = fmt.Errorf("no last sample of %d series", len(want))
	}
	return err
}

// upkeep does maintenance, over and over, until the context ends.
func upkeep(ctx context.Context, n *Node, nowMs func() int64, fail func(error)) {
	for i := 0; ctx.Err() == nil; i++ {
		var err error
		switch i % 4 {
		case 0, 2:
			err = n.checkpoint()
		case 1:
			err = n.flush()
		case 3:
			_, err = n.engine.Compact(context.Background(), nowMs())
		}
		if err != nil {
			fail(fmt.Errorf("upkeep: %w", err))
			return
		}
	}
}

// TestScansWhileEverythingMoves lets writers, deletes, scans, checkpoints, flushes
// and compactions run at once. Every scan must give exactly what its tenant has
// written and deleted before.
func TestScansWhileEverythingMoves(t *testing.T) {
	const tenants, steps = 6, 250
	n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncOff))
	var failure atomic.Pointer[error]
	fail := func(err error) { failure.CompareAndSwap(nil, &err) }
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	var writers, others sync.WaitGroup
	upkeepCtx, stop := context.WithCancel(ctx)
	for range 2 {
		others.Go(func() { upkeep(upkeepCtx, n, func() int64 { return 1_700_000_000_000 + 3*24*3600_000 }, fail) })
	}
	for i := range tenants {
		writers.Go(func() {
			w := newTenant(n, i, 7)
			for range steps {
				if err := w.step(ctx); err != nil {
					fail(err)
					return
				}
			}
			if err := w.check(ctx); err != nil {
				fail(err)
			}
		})
	}
	writers.Wait()
	stop()
	others.Wait()
	if err := failure.Load(); err != nil {
		t.Fatal(*err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}
