package sim

import (
	"flag"
	"testing"
)

var (
	seeds = flag.Uint64("sim.seeds", 0, "seeds to run; 0: as many as fit into a test run")
	first = flag.Uint64("sim.start", 1, "first seed")
	mode  = flag.String("sim.mode", "", "")
)

func TestSeeds(t *testing.T) {
	n := *seeds
	if n == 0 {
		n = 300
	}
	var total Stats
	for seed := *first; seed < *first+n; seed++ {
		o := Draw(seed)
		if *mode != "" {
			o.Always = *mode == "always"
			o.Rescue = *mode == "rescue"
		}
		r := Run(o)
		total.add(&r.Stats)
		if r.Err != nil {
			t.Errorf("seed %d: %v\nnodes %d shards %d replication %d always %v faults %v", seed, r.Err, o.Nodes, o.Shards, o.Replication, o.Always, o.Faults)
		}
	}
	t.Logf("%+v", total)
}
