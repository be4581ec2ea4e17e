package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// model is what a node should hold: the last write of each series and time.
type model map[string]map[int64]uint64

func (m model) put(key series.Key, timeMs int64, v float64) {
	samples := m[string(key)]
	if samples == nil {
		samples = map[int64]uint64{}
		m[string(key)] = samples
	}
	samples[timeMs] = math.Float64bits(v)
}

func (m model) remove(key series.Key, fromMs, toMs int64) {
	for t := range m[string(key)] {
		if t >= fromMs && t <= toMs {
			delete(m[string(key)], t)
		}
	}
}

func (m model) clone() model {
	c := model{}
	for k, samples := range m {
		c[k] = map[int64]uint64{}
		for t, v := range samples {
			c[k][t] = v
		}
	}
	return c
}

// contents reads all that a node holds.
func contents(t *testing.T, n *Node) model {
	t.Helper()
	m := model{}
	var mu sync.Mutex
	err := n.Scan(context.Background(), &scan.Request{
		Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Parallel: 2,
	}, func(_ int, c *scan.Chunk) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range c.Times {
			if i > 0 && c.Times[i] <= c.Times[i-1] {
				return fmt.Errorf("times of %s do not grow", c.Key)
			}
			if _, twice := m[string(c.Key)][c.Times[i]]; twice {
				return fmt.Errorf("%s at %d twice", c.Key, c.Times[i])
			}
			m.put(c.Key, c.Times[i], c.Values[i])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// differences describes where got departs from want, a few of them.
func differences(want, got model) []string {
	var found []string
	for k, samples := range want {
		for at, v := range samples {
			if g, ok := got[k][at]; !ok {
				found = append(found, fmt.Sprintf("%s at %d is missing", series.Key(k), at))
			} else if g != v {
				found = append(found, fmt.Sprintf("%s at %d is %x, want %x", series.Key(k), at, g, v))
			}
		}
	}
	for k, samples := range got {
		for at := range samples {
			if _, ok := want[k][at]; !ok {
				found = append(found, fmt.Sprintf("%s at %d was never written", series.Key(k), at))
			}
		}
	}
	slices.Sort(found)
	return found[:min(len(found), 10)]
}

const testShards = 4

func testKey(i int) series.Key {
	return series.AppendKey(nil, nil, fmt.Appendf(nil, "m%d", i%3), []series.Tag{
		{Name: []byte("host"), Value: fmt.Appendf(nil, "h%d", i)},
	})
}

// writer sends samples as a router does: unknown series with their keys.
type testWriter struct {
	node     *Node
	encoders [testShards]series.BatchEncoder
	frame    series.Frame
	id       series.BatchID
	points   []testPoint // since the last take
}

type testPoint struct {
	key    series.Key
	timeMs int64
	v      float64
}

func (w *testWriter) add(key series.Key, timeMs int64, v float64) {
	shard := key.Shard(testShards)
	var ref [1]series.Ref
	w.node.Resolve(series.HintNone, []series.Key{key}, ref[:])
	id := ref[0].ID
	if ref[0].Hint == series.HintNone {
		id = w.encoders[shard].Define(key)
	}
	n := series.DecimalOf(v, 2)
	w.encoders[shard].Append(id, timeMs, n.Mantissa, n.Scale)
	w.points = append(w.points, testPoint{key, timeMs, v})
}

// send writes what was added, with keys if a series was forgotten since it was resolved.
func (w *testWriter) send(ctx context.Context) error {
	points := w.points
	_, err := w.node.Write(ctx, w.take())
	if errors.Is(err, series.ErrEra) {
		for _, p := range points {
			shard, n := p.key.Shard(testShards), series.DecimalOf(p.v, 2)
			w.encoders[shard].Append(w.encoders[shard].Define(p.key), p.timeMs, n.Mantissa, n.Scale)
		}
		_, err = w.node.Write(ctx, w.take())
	}
	return err
}

// take returns what was added as a frame.
func (w *testWriter) take() *series.Frame {
	w.frame, w.points = series.Frame{ID: w.id}, nil
	for shard := range w.encoders {
		if e := &w.encoders[shard]; e.Points() > 0 {
			w.frame.Parts = append(w.frame.Parts, series.Part{Shard: uint16(shard), Batch: e.AppendTo(nil)})
			w.frame.Points += e.Points()
			e.Reset()
		}
	}
	return &w.frame
}

func testOptions(fs vfs.FS, sync SyncMode) Options {
	return Options{
		FS: fs, DataDir: "data", Shards: testShards, Sync: sync,
		SyncInterval: time.Hour, FlushInterval: time.Hour, CheckpointBytes: 1 << 40,
		LogFileBytes: 64 << 10, ExtentBytes: 64 << 10, GenerationBytesMax: 1 << 20, PersistSeriesMin: 4, ForgetSeries: true,
	}
}

func mustOpen(t *testing.T, o Options) *Node {
	t.Helper()
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// act does one random thing to node and model. Values are of all kinds of floats.
func act(t *testing.T, rng *rand.Rand, n *Node, m model, now int64) {
	t.Helper()
	ctx := context.Background()
	switch k := rng.IntN(100); {
	case k < 70:
		w := &testWriter{node: n}
		if rng.IntN(2) == 0 {
			w.id = series.BatchID{Session: 1 + rng.Uint64()>>1, Counter: rng.Uint64N(9)}
		}
		for range 1 + rng.IntN(200) {
			key := testKey(rng.IntN(40))
			at := now + rng.Int64N(60_000)
			switch rng.IntN(10) {
			case 0:
				at -= rng.Int64N(40 * 24 * 3600_000)
			case 1:
				at -= rng.Int64N(3 * 3600_000)
			}
			if rng.IntN(2) == 0 {
				at -= at % 20_000 // so that many samples are overwritten
			}
			v := randomValue(rng)
			w.add(key, at, v)
			m.put(key, at, v)
		}
		if err := w.send(ctx); err != nil {
			t.Fatal(err)
		}
		if !w.id.IsZero() { // what has come twice is there once
			if _, err := n.Write(ctx, &w.frame); err != nil {
				t.Fatal(err)
			}
		}
	case k < 78:
		deleteSome(t, rng, n, m, now)
	case k < 88:
		if err := n.checkpoint(); err != nil {
			t.Fatal(err)
		}
	case k < 94:
		if err := n.engine.Flush(); err != nil {
			t.Fatal(err)
		}
	default:
		if _, err := n.engine.Compact(ctx, now+rng.Int64N(3*24*3600_000)); err != nil {
			t.Fatal(err)
		}
	}
}

func deleteSome(t *testing.T, rng *rand.Rand, n *Node, m model, now int64) {
	t.Helper()
	i := rng.IntN(40)
	from := now - rng.Int64N(4*3600_000)
	to := from + rng.Int64N(2*3600_000)
	_, err := n.Delete(context.Background(), &scan.Selector{
		Metric:   fmt.Sprintf("m%d", i%3),
		Matchers: []scan.Matcher{{Name: "host", Kind: scan.MatchEqual, Values: []string{fmt.Sprintf("h%d", i)}}},
	}, from, to)
	if err != nil {
		t.Fatal(err)
	}
	m.remove(testKey(i), from, to)
}

func randomValue(rng *rand.Rand) float64 {
	switch rng.IntN(8) {
	case 0:
		return math.Float64frombits(rng.Uint64())
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return math.Inf(1 - 2*rng.IntN(2))
	case 3:
		return rng.NormFloat64() * 1e9
	default:
		return float64(rng.IntN(100_000)) / 100
	}
}

func TestNodeAgreesWithModel(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			fs := vfs.NewMemFS()
			n := mustOpen(t, testOptions(fs, SyncOff))
			m := model{}
			now := int64(1_700_000_000_000)
			for range 120 {
				now += rng.Int64N(120_000)
				act(t, rng, n, m, now)
				if rng.IntN(20) == 0 {
					if err := n.Close(); err != nil {
						t.Fatal(err)
					}
					n = mustOpen(t, testOptions(fs, SyncOff))
				}
				if rng.IntN(10) == 0 {
					if diff := differences(m, contents(t, n)); len(diff) > 0 {
						t.Fatalf("seed %d: %q", seed, diff)
					}
				}
			}
			if diff := differences(m, contents(t, n)); len(diff) > 0 {
				t.Fatalf("seed %d: %q", seed, diff)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
