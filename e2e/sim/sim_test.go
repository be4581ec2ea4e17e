package sim

import (
	"flag"
	"fmt"
	"testing"
)

var (
	seeds = flag.Uint64("sim.seeds", 0, "seeds to run; 0: as many as fit into a test run")
	first = flag.Uint64("sim.start", 1, "first seed")
)

func TestSeeds(t *testing.T) {
	n := *seeds
	if n == 0 {
		n = 20
	}
	var total Stats
	for seed := *first; seed < *first+n; seed++ {
		o := Draw(seed)
		r := Run(o)
		total.add(&r.Stats)
		if r.Err != nil {
			t.Errorf("seed %d: %v\nnodes %d shards %d replication %d always %v faults %v", seed, r.Err, o.Nodes, o.Shards, o.Replication, o.Always, o.Faults)
		}
	}
	t.Logf("%+v", total)
}

func TestOne(t *testing.T) {
	o := Draw(*first)
	o.Trace = 200
	r := Run(o)
	for _, l := range r.Trace {
		fmt.Println(l)
	}
	fmt.Printf("%+v\n", r.Stats)
	if r.Err != nil {
		t.Error(r.Err)
	}
}
