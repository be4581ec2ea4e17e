package nodesim

import (
	"flag"
	"testing"
)

var (
	seedsFlag = flag.Uint64("nodesim.seeds", 0, "seeds to run; 0: as many as fit into a test run")
	startFlag = flag.Uint64("nodesim.start", 1, "first seed")
)

func seedCount(most uint64) uint64 {
	switch {
	case *seedsFlag > 0:
		return *seedsFlag
	case testing.Short():
		return most / 10
	}
	return most
}

func TestSeeds(t *testing.T) {
	var total Stats
	count, failures := seedCount(100), 0
	for seed := *startFlag; seed < *startFlag+count && failures < 5; seed++ {
		r := Run(Options{Seed: seed})
		if r.Err != nil {
			failures++
			t.Errorf("seed %d: %v\nagain: go test ./e2e/nodesim -run TestSeeds -nodesim.start %d -nodesim.seeds 1", seed, r.Err, seed)
		}
		s := &r.Stats
		total.Writes, total.Reads, total.Starts, total.PowerCuts = total.Writes+s.Writes, total.Reads+s.Reads, total.Starts+s.Starts, total.PowerCuts+s.PowerCuts
		total.Checkpoints, total.Installs, total.Drops, total.Moves = total.Checkpoints+s.Checkpoints, total.Installs+s.Installs, total.Drops+s.Drops, total.Moves+s.Moves
	}
	t.Logf("%d seeds: %+v", count, total)
	if total.Writes < int(count) || total.Reads < int(count) || count > 20 && (total.Installs == 0 || total.Drops == 0 || total.Checkpoints == 0) {
		t.Error("hardly anything happened")
	}
}

func TestSameSeedSameHistory(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		a, b := Run(Options{Seed: seed}), Run(Options{Seed: seed})
		if a.Hash != b.Hash || a.Stats != b.Stats {
			t.Errorf("seed %d: %x %+v and %x %+v", seed, a.Hash, a.Stats, b.Hash, b.Stats)
		}
	}
}

// variantSeeds is in how many seeds each variant has to show.
const variantSeeds = 100

func TestVariantsAreCaught(t *testing.T) {
	for v := Sound + 1; v < variants; v++ {
		t.Run(v.String(), func(t *testing.T) {
			for seed := uint64(1); seed <= variantSeeds; seed++ {
				if err := Run(Options{Seed: seed, Variant: v}).Err; err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("not caught in %d seeds", variantSeeds)
		})
	}
}
