package node

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// ofShard returns the part of a model that lies in one shard.
func (m model) ofShard(shard int) model {
	part := model{}
	for k, samples := range m {
		if int(series.Key(k).Shard(testShards)) == shard && len(samples) > 0 {
			part[k] = samples
		}
	}
	return part
}

// TestKilledProcessLosesNothing ends the process, not the power, between any two
// steps: what was answered is there, in every mode.
func TestKilledProcessLosesNothing(t *testing.T) {
	for _, mode := range []SyncMode{SyncAlways, SyncInterval, SyncOff} {
		for seed := range uint64(storagetest.Seeds(2)) {
			t.Run(fmt.Sprintf("%s/%d", mode, seed), func(t *testing.T) {
				t.Parallel()
				crashes(t, mode, seed, vfs.CrashOptions{BlockPercent: 100, NamePercent: 100})
			})
		}
	}
}

// TestPowerCutWithAlways drops everything that was not synced: what was answered
// is there.
func TestPowerCutWithAlways(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			percent := int(seed*7) % 60
			crashes(t, SyncAlways, seed, vfs.CrashOptions{BlockPercent: percent, NamePercent: percent, ReorderNames: seed%2 == 0})
		})
	}
}

// crashes runs random steps and takes the machine down between some of them.
func crashes(t *testing.T, mode SyncMode, seed uint64, options vfs.CrashOptions) {
	rng := rand.New(rand.NewPCG(seed, 2))
	fs := vfs.NewMemFS()
	n := mustOpen(t, testOptions(fs, mode))
	m := model{}
	now := int64(1_700_000_000_000)
	for step := range 100 {
		now += rng.Int64N(120_000)
		act(t, rng, n, m, now)
		if rng.IntN(6) != 0 {
			continue
		}
		options.Seed = rng.Uint64()
		after := fs.CrashClone(options)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		fs = after
		n = mustOpen(t, testOptions(fs, mode))
		if diff := differences(m, contents(t, n)); len(diff) > 0 {
			t.Fatalf("seed %d, step %d: %q", seed, step, diff)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPowerCutWithInterval drops what was not synced, with the log synced only
// now and then: each shard comes back as it was at some step after the last sync.
func TestPowerCutWithInterval(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 3))
			fs := vfs.NewMemFS()
			n := mustOpen(t, testOptions(fs, SyncOff))
			m := model{}
			states := []model{m.clone()} // since the last sync, that included
			now := int64(1_700_000_000_000)
			for range 80 {
				now += rng.Int64N(120_000)
				act(t, rng, n, m, now)
				states = append(states, m.clone())
				switch rng.IntN(8) {
				case 0:
					if _, err := n.log.Sync(); err != nil {
						t.Fatal(err)
					}
					states = states[len(states)-1:]
				case 1:
					after := fs.CrashClone(vfs.CrashOptions{Seed: rng.Uint64(), BlockPercent: rng.IntN(100), NamePercent: rng.IntN(101)})
					if err := n.Close(); err != nil {
						t.Fatal(err)
					}
					fs = after
					n = mustOpen(t, testOptions(fs, SyncOff))
					m = oneOfStates(t, contents(t, n), states)
					states = []model{m.clone()}
				}
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// oneOfStates checks that each shard is as in one of the states, and returns what
// is there.
func oneOfStates(t *testing.T, got model, states []model) model {
	t.Helper()
	now := model{}
	for shard := range testShards {
		part := got.ofShard(shard)
		matched := false
		for _, s := range states {
			matched = matched || len(differences(s.ofShard(shard), part)) == 0
		}
		if !matched {
			t.Fatalf("shard %d is as in none of %d states; beside the last: %q", shard, len(states),
				differences(states[len(states)-1].ofShard(shard), part))
		}
		maps.Copy(now, part)
	}
	return now.clone()
}
