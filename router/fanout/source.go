package fanout

import (
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Source is a scan.Source over the cluster. With Consistency.Partial it serves the reads
// of one answer, else any number.
type Source struct {
	cluster *Cluster
	options scan.Consistency
	parts   []*nodev1.SnapshotPart // by shard: of the snapshot that is read; nil: what there is now

	mu      sync.Mutex
	missing []uint16 // guarded by mu
}

// Source returns a source with the read consistency o.
func (c *Cluster) Source(o scan.Consistency) *Source { return &Source{cluster: c, options: o} }

// Missing returns the shards that the answer is without, sorted, once its reads have
// ended. A shard that one read has missed is not asked for by later ones.
func (s *Source) Missing() []uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.missing)
}

// fromLeaders reports whether reads are answered by the shards' leaders.
func (s *Source) fromLeaders() bool { return s.options.StalenessMax == 0 && s.parts == nil }

func (s *Source) miss(shard uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, found := slices.BinarySearch(s.missing, shard); !found {
		s.missing = slices.Insert(s.missing, at, shard)
	}
}

func (s *Source) misses(shard uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := slices.BinarySearch(s.missing, shard)
	return found
}

func (s *Source) freshness() *tickmeshv1.Freshness {
	if s.options.StalenessMax <= 0 {
		return nil
	}
	return &tickmeshv1.Freshness{StalenessMaxMs: uint64(max(1, s.options.StalenessMax.Milliseconds()))}
}

func shardsOf(reads []*shardRead) []uint32 {
	shards := make([]uint32, len(reads))
	for i, r := range reads {
		shards[i] = uint32(r.shard)
	}
	return shards
}

func fromOf(reads []*shardRead) []*nodev1.ShardFrom {
	from := make([]*nodev1.ShardFrom, len(reads))
	for i, r := range reads {
		from[i] = &nodev1.ShardFrom{Shard: uint32(r.shard), AfterId: r.after}
	}
	return from
}
