package shardmap

import (
	"fmt"
	"testing"
)

// BenchmarkCheckDrain forecasts a drain of one node.
func BenchmarkCheckDrain(b *testing.B) {
	for _, c := range []struct{ nodes, shards, replication int }{{5, 128, 2}, {5, 128, 3}, {5, 1024, 2}, {5, 1024, 3}, {30, 1024, 2}} {
		b.Run(fmt.Sprintf("nodes=%d/shards=%d/replication=%d", c.nodes, c.shards, c.replication), func(b *testing.B) {
			s := grown(b, c.nodes, Settings{Shards: c.shards, Replication: c.replication})
			delete(s.Nodes, fmt.Sprintf("node-%d", c.nodes))
			for b.Loop() {
				if _, err := CheckDrain(s, DefaultLimits(), Rates{}, "node-0"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
