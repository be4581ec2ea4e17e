package storage

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
)

// TestDamageOfShardsThatAreNotHere: a segment that cannot be opened is damage of the
// shards that have a replica here, and is forgotten when these have been repaired.
func TestDamageOfShardsThatAreNotHere(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 22))
	logs := newLabLogs()
	good, bad := newLabNode(t, logs), newLabNode(t, logs)
	defer good.end()
	for shard := range labShards {
		for range 10 {
			logs[shard].write(rng)
		}
		good.hosts[shard] = true
		good.apply(shard, math.MaxInt)
		if shard != 1 { // shards 0 and 2, so that segments seem to have shard 1
			bad.hosts[shard] = true
			bad.apply(shard, math.MaxInt)
		}
	}
	for _, s := range bad.e.shards {
		s.mu.Lock()
		err := s.mu.set.SealAll()
		s.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := bad.e.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := bad.checkpoint(); err != nil {
		t.Fatal(err)
	}
	bad.end()
	bad.damaged = true
	for _, name := range bad.segmentFiles() {
		f, err := bad.fs.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("not a segment"), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	bad.open()
	defer bad.end()
	for len(bad.e.Damages()) > 0 {
		d := bad.e.Damages()[0]
		if d.Shard == 1 {
			t.Fatalf("%+v is of a shard that is not here", d)
		}
		if _, err := bad.e.RepairRange(context.Background(), d.Shard, d.FromMs, d.ToMs, &labSource{from: good, to: bad}); err != nil {
			t.Fatal(err)
		}
	}
	bad.check("after all repairs")
	if v := bad.e.files.Current(); len(v.Missing) > 0 {
		t.Errorf("%d segments are still missed", len(v.Missing))
	}
}
