package rollout

import (
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// A volume that may have data that the store knows nothing of is not replaced: a cluster that is
// made again, with another storage class, finds those of the one before.
func TestVolumeOfUnknownContentsStays(t *testing.T) {
	for _, test := range []struct {
		name     string
		bound    bool
		change   func(*Facts)
		replaced bool
	}{
		{"no map, a volume", true, func(f *Facts) { f.State.Map, f.Shards = nil, nil }, false},
		{"no map, no volume yet", false, func(f *Facts) { f.State.Map, f.Shards = nil, nil }, true},
		{"a map, a node that never joined", true, func(*Facts) {}, false},
		{"a map, a node that joined", true, func(f *Facts) {
			f.State.Incarnations[f.NodeName(3)] = []shardmap.Incarnation{{ID: folder(3)}}
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, drained := range []bool{false, true} {
				f := scene(3)
				f.Groups[0].Count, f.Groups[0].Replicas = 4, 4
				f.Groups[0].Pods = append(f.Groups[0].Pods, Pod{Ordinal: 3, UID: "p3"})
				f.Groups[0].Claims = append(f.Groups[0].Claims, Claim{Ordinal: 3, Name: "data-demo-node-3", UID: "c3", Outdated: true, Bound: test.bound})
				if drained {
					f.State.Desired[f.NodeName(3)], f.EmptyForMs[f.NodeName(3)] = shardmap.Draining, EmptyForMs
				}
				test.change(&f)
				done := strings.Join(kinds(Decide(f)), "; ")
				want := map[bool]string{false: "desire demo-node-3 draining", true: "delete claim demo-node-3"}[drained]
				if is := strings.Contains(done, want); is != test.replaced || strings.Contains(done, "delete claim") && !test.replaced {
					t.Errorf("drained %v: %q", drained, done)
				}
			}
		})
	}
}

// Without a StatefulSet nobody would make a pod again that is ended for another volume.
func TestVolumeWaitsForStatefulSet(t *testing.T) {
	for _, ending := range []bool{false, true} {
		f := scene(4)
		f.State.Map.Rows = f.State.Map.Rows[:1] // node 3 has nothing
		f.Shards = f.Shards[:1]
		f.State.Desired[f.NodeName(3)], f.EmptyForMs[f.NodeName(3)] = shardmap.Draining, EmptyForMs
		f.claim(3).Terminating, f.claim(3).Outdated = true, true
		f.Groups[0].ClaimTemplate.Ending = ending
		if done := strings.Join(kinds(Decide(f)), "; "); strings.Contains(done, "delete pod demo-node-3") == ending {
			t.Errorf("ending %v: %q", ending, done)
		}
	}
}

// A node whose volume comes while it is kept empty for another one, before there is a shard map,
// is put to use again: otherwise no map would ever be made, and the volume never be replaced.
func TestVolumeThatComesBeforeTheMap(t *testing.T) {
	f := scene(1)
	f.State.Map, f.Shards = nil, nil
	f.State.Desired[f.NodeName(0)], f.EmptyForMs[f.NodeName(0)] = shardmap.Draining, EmptyForMs
	f.claim(0).Outdated, f.claim(0).Bound = true, true
	if done := strings.Join(kinds(Decide(f)), "; "); done != "desire demo-node-0 active" {
		t.Errorf("%q", done)
	}
}
