package apitest

import (
	"context"
	"fmt"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Storage takes frames, resolves and answers, for any number of servers at once. It
// remembers every batch id for ever.
type Storage struct {
	*scantest.Memory
	shards int

	mu struct {
		sync.Mutex
		ids     map[string]series.ID   // by key
		keys    []map[uint32]string    // by shard, by id
		applied map[appliedID]struct{} // parts of batches
		// generation is that of the ids.
		generation uint64
		points     int // that were applied, repeated ones not
		frames     []series.BatchID
		hook       func(*series.Frame, func() (series.Outcome, error)) (series.Outcome, error)
	}
}

type appliedID struct {
	batch series.BatchID
	shard uint16
}

// NewStorage returns an empty Storage.
func NewStorage(shards int) *Storage {
	s := &Storage{Memory: scantest.NewMemory(), shards: shards}
	s.mu.applied = map[appliedID]struct{}{}
	s.Renumber()
	return s
}

// Renumber assigns other ids to all series, from the next write on, and begins another
// generation. Frames with older ids are refused with series.ErrEra.
func (s *Storage) Renumber() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.generation++
	s.mu.ids, s.mu.keys = map[string]series.ID{}, make([]map[uint32]string, s.shards)
	for i := range s.mu.keys {
		s.mu.keys[i] = map[uint32]string{}
	}
}

// Generation returns the generation of the ids.
func (s *Storage) Generation() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.generation
}

// SetHook makes every Write call hook, which applies the frame by calling apply, or
// does not, and says what the writer is told. Nil: none.
func (s *Storage) SetHook(hook func(frame *series.Frame, apply func() (series.Outcome, error)) (series.Outcome, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.hook = hook
}

// Write implements ingest.Writer.
func (s *Storage) Write(ctx context.Context, frame *series.Frame) (series.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return series.Outcome{}, err
	}
	s.mu.Lock()
	hook := s.mu.hook
	s.mu.frames = append(s.mu.frames, frame.ID)
	s.mu.Unlock()
	apply := func() (series.Outcome, error) { return s.apply(frame) }
	if hook != nil {
		return hook(frame, apply)
	}
	return apply()
}

func (s *Storage) apply(frame *series.Frame) (series.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if frame.Generation != 0 && frame.Generation != s.mu.generation {
		return series.Outcome{}, series.ErrEra
	}
	points := 0
	for i := range frame.Parts {
		n, err := s.applyPartLocked(frame, &frame.Parts[i])
		if err != nil {
			return series.Outcome{}, err
		}
		points += n
	}
	if points != frame.Points {
		return series.Outcome{}, fmt.Errorf("%w: %d points in a frame of %d", series.ErrBatch, points, frame.Points)
	}
	return series.Outcome{Copies: 1}, nil
}

func (s *Storage) applyPartLocked(frame *series.Frame, part *series.Part) (points int, err error) {
	if int(part.Shard) >= s.shards {
		return 0, fmt.Errorf("%w: shard %d", series.ErrBatch, part.Shard)
	}
	id := frame.ID
	applied := appliedID{id, part.Shard}
	_, repeated := s.mu.applied[applied]
	if !id.IsZero() {
		s.mu.applied[applied] = struct{}{}
	}
	var r series.BatchReader
	r.Reset(part.Batch)
	keys := s.mu.keys[part.Shard]
	var defined []string
	for key, ok := r.NextDefinition(); ok; key, ok = r.NextDefinition() {
		if key.Shard(s.shards) != part.Shard {
			return 0, fmt.Errorf("%w: %v is not of shard %d", series.ErrBatch, key, part.Shard)
		}
		if _, known := s.mu.ids[string(key)]; !known {
			id := series.ID(len(keys))
			s.mu.ids[string(key)], keys[uint32(id)] = id, string(key)
		}
		defined = append(defined, string(key))
	}
	for r.NextPoint() {
		points++
		key, ok := "", false
		if id := series.ID(r.Ref); id >= series.SlotBase {
			if n := int(id - series.SlotBase); n < len(defined) {
				key, ok = defined[n], true
			}
		} else if frame.Generation != 0 {
			key, ok = keys[r.Ref]
		}
		if !ok {
			return 0, fmt.Errorf("%w: reference %d names no series", series.ErrBatch, r.Ref)
		}
		if repeated {
			continue
		}
		s.mu.points++
		if err := s.Put(series.Key(key), series.Sample{TimeMs: r.TimeMs, Value: series.Float64(r.Mantissa, r.Scale)}); err != nil {
			return 0, err
		}
	}
	return points, r.Err()
}

// Resolve implements split.Resolver.
func (s *Storage) Resolve(_ uint32, keys []series.Key, refs []series.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		refs[i] = series.Ref{Hint: series.HintNone}
		if id, ok := s.mu.ids[string(key)]; ok {
			refs[i] = series.Ref{Hint: 0, Shard: key.Shard(s.shards), ID: id}
		}
	}
}

// Points returns the number of points that were applied, those of repeated batches not.
func (s *Storage) Points() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.points
}

// Frames returns the batch ids of all frames that came, in their order.
func (s *Storage) Frames() []series.BatchID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]series.BatchID(nil), s.mu.frames...)
}

// NodeName is the only node of the Cluster that a Storage plays.
const NodeName = "node-1"

// Status returns the status of one node.
func (s *Storage) Status(_ context.Context, withoutShards bool) (*tickmeshv1.GetStatusResponse, error) {
	m := &tickmeshv1.GetStatusResponse{
		Cluster: "test", MapEpoch: 3, Shards: uint32(s.shards), Replication: 1, StoreReachable: true,
		Nodes: []*tickmeshv1.NodeStatus{{Node: NodeName, Alive: true, Leads: uint32(s.shards), CapacityBytes: 1000, UsedBytes: 250}},
	}
	for shard := range s.shards {
		if !withoutShards {
			m.ShardStatuses = append(m.ShardStatuses, &tickmeshv1.ShardStatus{Shard: uint32(shard), Leader: NodeName, Members: []*tickmeshv1.ReplicaStatus{
				{Node: NodeName, RaftId: 1, Role: tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL, Active: true},
			}})
		}
	}
	return m, nil
}

// Drain refuses to drain the only node, but returns what it would move.
func (s *Storage) Drain(_ context.Context, node string, dryRun bool) (*tickmeshv1.DrainResponse, error) {
	if node != NodeName {
		return nil, fmt.Errorf("%w: node %q", wire.ErrNotFound, node)
	}
	if !dryRun {
		return nil, fmt.Errorf("%w: it is the only node", wire.ErrRefused)
	}
	return &tickmeshv1.DrainResponse{
		Moves: []*tickmeshv1.Move{{Shard: 1, FromNode: node, ToNode: "node-2", TotalBytes: 10}}, TotalBytes: 10, DurationMs: 7,
	}, nil
}

// Forecast returns that of a drain as Drain does, and that a new node would get shard 0.
func (s *Storage) Forecast(_ context.Context, request *tickmeshv1.ForecastRequest) (*tickmeshv1.ForecastResponse, error) {
	m := &tickmeshv1.ForecastResponse{}
	for _, n := range request.GetAdded() {
		m.Moves = append(m.Moves, &tickmeshv1.Move{ToNode: n.GetNode(), TotalBytes: 10, Phase: "planned"})
		m.TotalBytes, m.DurationMs = m.GetTotalBytes()+10, m.GetDurationMs()+7
	}
	for _, node := range request.GetDrained() {
		if node != NodeName {
			return nil, fmt.Errorf("%w: node %q", wire.ErrNotFound, node)
		}
		m.Refusal, m.RefusedShards, m.UnderReplicated = "it is the only node", []uint32{0, 1}, uint32(s.shards)
	}
	return m, nil
}

// Recover finds nothing to recover.
func (s *Storage) Recover(_ context.Context, request *tickmeshv1.RecoverRequest) (*tickmeshv1.RecoverResponse, error) {
	if len(request.GetShards()) > 0 {
		return nil, fmt.Errorf("%w: shard %d has a leader", wire.ErrRefused, request.GetShards()[0])
	}
	return &tickmeshv1.RecoverResponse{}, nil
}

// Undrain takes nothing back.
func (s *Storage) Undrain(_ context.Context, node string) error {
	if node != NodeName {
		return fmt.Errorf("%w: node %q", wire.ErrNotFound, node)
	}
	return nil
}
