package fanout

import (
	"slices"
	"sync"
	"time"

	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// ReadOptions say what a reader puts up with. The zero value: nothing, answers have
// every write that was answered before the read began.
type ReadOptions struct {
	// StalenessMax lets any full voter answer that is at most so far behind.
	StalenessMax time.Duration
	// Partial leaves shards out that nobody answers for, and tells them by Missing,
	// instead of failing.
	Partial bool
}

// Source is a scan.Source over the cluster. With ReadOptions.Partial it serves one
// read, else any number.
type Source struct {
	cluster *Cluster
	options ReadOptions

	mu      sync.Mutex
	missing []uint16 // guarded by mu
}

// Source gives a source for readers who put up with o.
func (c *Cluster) Source(o ReadOptions) *Source { return &Source{cluster: c, options: o} }

// Missing gives the shards that the answer is without, sorted, once the read has
// ended.
func (s *Source) Missing() []uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.missing)
}

func (s *Source) miss(shard uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, found := slices.BinarySearch(s.missing, shard); !found {
		s.missing = slices.Insert(s.missing, at, shard)
	}
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
