package node

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestLongOverlaps writes the same stretch of time in several layers, so that all
// blocks overlap in one chain, and checks that a scan merges it in bounded pieces.
func TestLongOverlaps(t *testing.T) {
	const samples, layers, startMs = 60_000, 4, 1_699_999_200_000
	ctx := context.Background()
	n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncOff))
	defer n.Close()
	key := testKey(1)
	m := model{}
	rng := rand.New(rand.NewPCG(1, 41))
	for layer := range layers {
		w := &testWriter{node: n}
		for i := range samples {
			if rng.IntN(3) == 0 {
				continue
			}
			at, v := int64(startMs+i), float64(1+layer*samples+i)
			w.add(key, at, v)
			m.put(key, at, v)
		}
		if err := w.send(ctx); err != nil {
			t.Fatal(err)
		}
		if err := n.sealEverything(); err != nil {
			t.Fatal(err)
		}
		if layer < layers-1 { // the last one stays in the page log
			if err := n.engine.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := differences(m, contents(t, n)); len(diff) > 0 {
		t.Fatalf("%q", diff)
	}
	longest := 0
	for _, span := range [][2]int64{{0, scan.TimeMsMax}, {startMs + 777, startMs + 30_001}} {
		want, got := 0, 0
		for at := range m[string(key)] {
			if at >= span[0] && at <= span[1] {
				want++
			}
		}
		err := n.Scan(ctx, &scan.Request{Selector: scan.Selector{MetricAny: true}, FromMs: span[0], ToMs: span[1]},
			func(_ int, c *scan.Chunk) error {
				got += len(c.Times)
				longest = max(longest, len(c.Times))
				return nil
			})
		if err != nil || got != want {
			t.Errorf("%d samples, want %d (%v)", got, want, err)
		}
	}
	if longest > samples*2/3 {
		t.Errorf("a chunk of %d samples: all was merged at once", longest)
	}
}
