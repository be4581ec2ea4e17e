package storage

import (
	"context"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// TestDigest changes one thing at a time.
func TestDigest(t *testing.T) {
	key := func(s string) series.Key { return series.AppendKey(nil, nil, []byte(s), nil) }
	digest := func(n *labNode, fromMs, toMs int64) transfer.Digest {
		d := transfer.Digest{}
		for shard := range uint16(labShards) {
			one, err := n.e.ShardDigest(context.Background(), shard, fromMs, toMs)
			if err != nil {
				t.Fatal(err)
			}
			d.Sum, d.Series, d.Samples = d.Sum+one.Sum, d.Series+one.Series, d.Samples+one.Samples
		}
		return d
	}
	type point struct {
		metric string
		timeMs int64
		bits   uint64
	}
	base := []point{{"a", 5, 1}, {"a", 6, 2}, {"b", 5, 1}, {"c", 5, 0x7ff8000000000001}}
	seen := map[uint64]string{}
	for _, change := range []struct {
		name   string
		points []point
		equal  bool
	}{
		{"none", base, false},
		{"order", []point{base[3], base[1], base[2], base[0]}, true},
		{"overwritten", append([]point{{"a", 6, 77}}, base...), true},
		{"value", []point{base[0], {"a", 6, 3}, base[2], base[3]}, false},
		{"time", []point{base[0], {"a", 7, 2}, base[2], base[3]}, false},
		{"series", []point{base[0], base[1], {"d", 5, 1}, base[3]}, false},
		{"swapped", []point{{"a", 5, 2}, {"a", 6, 1}, base[2], base[3]}, false},
		{"bits of NaN", []point{base[0], base[1], base[2], {"c", 5, 0x7ff8000000000002}}, false},
		{"fewer", base[:3], false},
	} {
		n := newLabNode(t, newLabLogs())
		indexes := [labShards]uint64{}
		for i, p := range change.points {
			var e series.BatchEncoder
			e.Append(e.Define(key(p.metric)), p.timeMs, int64(p.bits), series.ScaleFloat)
			batch := e.AppendTo(nil)
			shard := key(p.metric).Shard(labShards)
			indexes[shard]++
			body := append(entry.AppendBatchHeader(entry.AppendTime(nil, 0), series.BatchID{}, len(batch)), batch...)
			if err := n.e.Apply(0, &entry.Entry{Kind: entry.Samples, Shard: shard, Index: indexes[shard], Body: body}); err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				if err := n.e.Checkpoint(Checkpoint{Applied: indexes[:], SealAll: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		d := digest(n, scan.TimeMsMin, scan.TimeMsMax)
		if other, twice := seen[d.Sum]; twice != change.equal {
			t.Errorf("%s: the digest is that of %q", change.name, other)
		}
		seen[d.Sum] = change.name
		if early, late := digest(n, scan.TimeMsMin, 5), digest(n, 6, scan.TimeMsMax); early.Sum+late.Sum != d.Sum || early.Samples+late.Samples != d.Samples {
			t.Errorf("%s: parts do not add up", change.name)
		}
		n.end()
	}
}
