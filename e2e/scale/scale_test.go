package scale

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

var long = flag.Bool("long", false, "all sizes: minutes")

// TestPlace holds what the planner and the codec make of each size against what does not know them.
func TestPlace(t *testing.T) {
	for _, c := range Cases(!*long) {
		t.Run(fmt.Sprintf("nodes=%d/shards=%d/copies=%d", c.Nodes, c.Shards, c.Copies), func(t *testing.T) {
			p, err := Place(c)
			if err != nil {
				t.Fatal(err)
			}
			for name, change := range map[string]Change{"one node more": p.Grow, "a node lost": p.LoseNode, "a zone lost": p.LoseZone} {
				if most := change.Least + change.Least/20 + 1; change.Moves > most {
					t.Errorf("%s: %d moves, %d are needed, and %d allowed", name, change.Moves, change.Least, most)
				}
			}
			if allowed := c.Shards <= shardmap.ShardsMax; allowed != (p.Refused == nil) {
				t.Errorf("%d shards: %v", c.Shards, p.Refused)
			}
			if p.Refused != nil && !errors.Is(p.Refused, shardmap.ErrMap) {
				t.Error(p.Refused)
			}
			t.Logf("%+v", []any{p.Create, p.Grow, p.LoseNode, p.LoseZone, p.Leads, p.LeadPlan, p.MapBytes, p.MapBytesMoving, p.Encode, p.Decode})
		})
	}
}

// TestBeats holds what hosts say at rest against the promise of package replica: an empty envelope
// each HeartbeatTicks, however many groups rest.
func TestBeats(t *testing.T) {
	b, err := MeasureBeats()
	if err != nil {
		t.Fatal(err)
	}
	if b.PerSecond < 9.9 || b.PerSecond > 10.1 || b.RestingBytes > 10*32 || b.GroupBytes < 10*4 || b.GroupBytes > 10*64 {
		t.Fatalf("%+v", b)
	}
}
