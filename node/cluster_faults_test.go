package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// faultRun is a cluster with writers, and what they know.
type faultRun struct {
	*testCluster
	rng *rand.Rand
	mu  struct {
		sync.Mutex
		must, may map[string]float64
	}
	acked chan struct{} // one for each answered write
}

// tryWrite writes one sample through any node, and reports whether it was answered.
func (c *testCluster) tryWrite(key series.Key, timeMs, value int64, id series.BatchID) (bool, error) {
	var e series.BatchEncoder
	e.Append(e.Define(key), timeMs, value, 0)
	frame := series.Frame{Parts: []series.Part{{Shard: key.Shard(testShards), Batch: e.AppendTo(nil)}}, Points: 1, ID: id}
	names := c.names()
	slices.Sort(names)
	for _, name := range names {
		n := c.reach("", name)
		if n == nil {
			continue
		}
		_, err := n.Write(context.Background(), &frame)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, series.ErrUnavailable), errors.Is(err, series.ErrOverloaded), errors.Is(err, series.ErrReadOnly):
		default:
			return false, err
		}
	}
	return false, nil
}

// writer writes distinct samples until stop, each again until it is answered.
func (r *faultRun) writer(number int, stop <-chan struct{}) {
	for i := int64(1); ; i++ {
		key, at, value := testKey(int(i)%12), 1_700_000_000_000+i*10+int64(number), i*7+int64(number)
		name := fmt.Sprintf("%s@%d", key, at)
		r.mu.Lock()
		r.mu.may[name] = float64(value)
		r.mu.Unlock()
		for {
			ok, err := r.tryWrite(key, at, value, series.BatchID{Session: uint64(number) + 1, Counter: uint64(i)})
			if err != nil {
				r.t.Error(err)
				return
			}
			if ok {
				break
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		r.mu.Lock()
		r.mu.must[name] = float64(value)
		r.mu.Unlock()
		select {
		case r.acked <- struct{}{}:
		case <-stop:
			return
		}
	}
}

// progress waits for answered writes, or for long enough without: some faults leave no
// majority. Some last longer than it takes to elect a leader.
func (r *faultRun) progress(writes int) {
	bound := time.After(1500 * time.Millisecond)
	var lasts <-chan time.Time
	if r.rng.IntN(3) == 0 {
		lasts = time.After(time.Duration(r.rng.IntN(1200)) * time.Millisecond)
	}
	for done := 0; done < writes || lasts != nil; done++ {
		select {
		case <-r.acked:
		case <-lasts:
			lasts = nil
		case <-bound:
			return
		}
	}
}

func (r *faultRun) victim() string {
	names := r.names()
	slices.Sort(names)
	return names[r.rng.IntN(len(names))]
}

// step does one fault, lets writers go on, and undoes it.
func (r *faultRun) step() string {
	name := r.victim()
	writes := 5 + r.rng.IntN(20)
	switch r.rng.IntN(8) {
	case 0:
		r.kill(name)
		r.progress(writes)
		r.open(name)
		return "kill " + name
	case 1:
		percent := r.rng.IntN(100)
		r.crash(name, vfs.CrashOptions{Seed: r.rng.Uint64(), BlockPercent: percent, NamePercent: percent, ReorderNames: r.rng.IntN(2) == 0})
		r.progress(writes)
		r.open(name)
		return "power cut of " + name
	case 2:
		for _, other := range r.names() {
			r.cutLink(name, other, r.rng.IntN(3) > 0)
		}
		r.progress(writes)
		r.joinLinks()
		return "cut links from " + name
	case 3:
		for _, other := range r.names() {
			r.cutLink(name, other, true)
			r.cutLink(other, name, true)
		}
		r.progress(writes)
		r.joinLinks()
		return "isolate " + name
	case 4:
		free, err := r.disks[name].Free("data")
		if err == nil {
			r.disks[name].SetCapacity(1<<40 - free + r.rng.Int64N(100<<10))
		}
		r.progress(2 * writes)
		r.disks[name].SetCapacity(1 << 40)
		return "full disk of " + name
	case 5:
		shard := uint16(r.rng.IntN(testShards))
		_ = r.reach("", name).TransferLeader(shard, "")
		r.progress(writes)
		return fmt.Sprintf("transfer shard %d of %s", shard, name)
	case 6:
		r.move(uint16(r.rng.IntN(testShards)), name)
		r.progress(writes)
		return "move to " + name
	default:
		n := r.reach("", name)
		_ = n.CompactAll(context.Background()) // a full disk may be its reason not to
		_ = n.checkpoint()
		r.progress(writes)
		return "checkpoint of " + name
	}
}

func (c *testCluster) cutLink(from, to string, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.cut[[2]string{from, to}] = cut
}

func (c *testCluster) joinLinks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.mu.cut)
}

// move moves a shard's oldest replica to a node that has none of it.
func (c *testCluster) move(shard uint16, to string) {
	incarnation := c.reach("", to).Incarnation()
	c.place(func(m shardmap.Map) shardmap.Map {
		row := m.Rows[shard]
		if row.Intended != nil || slices.ContainsFunc(row.Members, func(p shardmap.Member) bool { return p.Node == to }) {
			return m
		}
		intended := slices.Clone(row.Members)
		intended[0] = shardmap.Member{Node: to, Incarnation: incarnation, Role: intended[0].Role}
		return m.WithRow(shard, row.WithIntended(intended))
	})
}

// TestRandomFaults plays faults on a cluster that is written: what was answered is
// there in the end, nothing else is, and all copies are equal.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := &faultRun{testCluster: newTestCluster(t), rng: rand.New(rand.NewPCG(seed, 31)), acked: make(chan struct{})}
			r.mode = SyncAlways
			if seed%2 == 1 {
				r.logBytesMax = 32 << 10 // those who lag need files
			}
			r.mu.must, r.mu.may = map[string]float64{}, map[string]float64{}
			for _, name := range []string{"a", "b", "c", "d"} {
				r.open(name)
			}
			r.create(roles2(), "a", "b", "c")
			stop := make(chan struct{})
			var writers sync.WaitGroup
			for i := range 2 {
				writers.Go(func() { r.writer(i, stop) })
			}
			var steps []string
			for range 15 {
				steps = append(steps, r.step())
			}
			close(stop)
			writers.Wait()
			t.Log(len(r.mu.must), "answered writes;", steps)
			r.mustBeSound()
		})
	}
}

// mustBeSound waits until the map wants nothing more, and compares.
func (r *faultRun) mustBeSound() {
	r.t.Helper()
	r.await("the end of the moves", func() bool {
		r.testCluster.mu.Lock()
		defer r.testCluster.mu.Unlock()
		return !slices.ContainsFunc(r.testCluster.mu.m.Rows, func(row shardmap.Row) bool { return row.Intended != nil })
	})
	got := r.read()
	for name, value := range r.mu.must {
		if v, ok := got[name]; !ok || v != value {
			r.t.Errorf("%s was answered and is %v (%v), want %v", name, v, ok, value)
		}
	}
	for name, value := range got {
		if want, ok := r.mu.may[name]; !ok || want != value {
			r.t.Errorf("%s is %v, which nobody wrote", name, value)
		}
	}
	r.testCluster.mu.Lock()
	rows := r.testCluster.mu.m.Rows
	r.testCluster.mu.Unlock()
	for shard := range rows {
		r.mustBeEqual(uint16(shard), rows[shard].Members)
	}
}

// mustBeEqual compares the digests of a shard's full voters at the same entry.
func (r *faultRun) mustBeEqual(shard uint16, members []shardmap.Member) {
	r.t.Helper()
	var digests []string
	r.await(fmt.Sprintf("all copies of shard %d to be at one entry", shard), func() bool {
		digests = digests[:0]
		var at uint64
		for _, m := range members {
			if m.Role != shardmap.Full {
				continue
			}
			n := r.reach("", m.Node)
			before := n.Applied(shard)
			d, err := n.engine.ShardDigest(context.Background(), shard, scan.TimeMsMin, scan.TimeMsMax)
			if err != nil || n.Applied(shard) != before || len(digests) > 0 && at != before {
				return false
			}
			at = before
			digests = append(digests, fmt.Sprintf("entry %d: %+v", at, d))
		}
		return true
	})
	for _, d := range digests {
		if d != digests[0] {
			r.t.Errorf("copies of shard %d differ: %s", shard, digests)
		}
	}
}
