package rpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// ShardExemplars are exemplars of series of one shard.
type ShardExemplars struct {
	Shard     uint16
	Exemplars []series.Exemplar
}

// ExemplarsWritten is what has become of the exemplars of one shard.
type ExemplarsWritten struct {
	ShardEnd
	series.ExemplarOutcomes
}

// ExemplarsRequest asks for exemplars in [FromMs, ToMs]. Selector.Shards is never empty.
type ExemplarsRequest struct {
	Selector     scan.Selector
	FromMs, ToMs int64
}

// ExemplarSink takes exemplars, as ScanSink takes chunks.
type ExemplarSink interface {
	Exemplar(shard uint16, e *series.Exemplar) error
	ShardEnd(shard uint16, err error) error
}

// WriteExemplars keeps exemplars of some shards.
func (s *Server) WriteExemplars(ctx context.Context, m *nodev1.WriteExemplarsRequest) (*nodev1.WriteExemplarsResponse, error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	parts, err := toShardExemplars(m)
	if err != nil {
		return nil, wire.Status(err)
	}
	written, err := s.node.WriteExemplars(ctx, parts)
	if err != nil {
		return nil, wire.Status(err)
	}
	response := &nodev1.WriteExemplarsResponse{}
	for _, w := range written {
		response.Ends = append(response.Ends, wire.FromShardEnd(w.Shard, w.Err))
		response.Kept = append(response.Kept, uint64(w.Kept))
		response.OutOfOrder = append(response.OutOfOrder, uint64(w.OutOfOrder))
		response.Refused = append(response.Refused, uint64(w.Refused))
	}
	return response, nil
}

func toShardExemplars(m *nodev1.WriteExemplarsRequest) ([]ShardExemplars, error) {
	numbers := make([]uint32, len(m.GetParts()))
	for i, p := range m.GetParts() {
		numbers[i] = p.GetShard()
	}
	shards, err := wire.ToShards(numbers)
	if err != nil {
		return nil, err
	}
	parts := make([]ShardExemplars, len(shards))
	for i, p := range m.GetParts() {
		parts[i].Shard = shards[i]
		if parts[i].Exemplars, err = series.ReadExemplars(p.GetExemplars()); err != nil {
			return nil, fmt.Errorf("%w: %w", wire.ErrInvalid, err)
		}
	}
	return parts, nil
}

// ListExemplars sends exemplars.
func (s *Server) ListExemplars(m *nodev1.ListExemplarsRequest, stream grpc.ServerStreamingServer[nodev1.ListExemplarsResponse]) error {
	if _, err := caller(stream.Context()); err != nil {
		return err
	}
	request, err := toExemplarsRequest(m)
	if err != nil {
		return wire.Status(err)
	}
	sink := &exemplarSink{newOutbox(stream.Send, request.Selector.Shards)}
	if err := s.node.ListExemplars(stream.Context(), request, sink); err != nil {
		return wire.Status(err)
	}
	return sink.finish(sink.ShardEnd)
}

func toExemplarsRequest(m *nodev1.ListExemplarsRequest) (*ExemplarsRequest, error) {
	r := &ExemplarsRequest{FromMs: m.GetFromMs(), ToMs: m.GetToMs()}
	var err error
	if r.Selector, err = toSelector(m.GetSelector(), m.GetShards()); err != nil {
		return nil, err
	}
	return r, toRange(r.FromMs, r.ToMs)
}

type exemplarSink struct {
	outbox[nodev1.ListExemplarsResponse]
}

// Exemplar adds a copy of an exemplar.
func (s *exemplarSink) Exemplar(shard uint16, e *series.Exemplar) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.open.get(shard); err != nil {
		return err
	}
	list := s.pending.GetExemplars()
	if n := len(list); n == 0 || list[n-1].GetShard() != uint32(shard) {
		list = append(list, &nodev1.ShardExemplars{Shard: uint32(shard)})
		s.pending.Exemplars = list
	}
	of := list[len(list)-1]
	before := len(of.GetExemplars())
	of.Exemplars = series.AppendExemplar(of.GetExemplars(), e)
	return s.addedLocked(len(of.GetExemplars()) - before)
}

// ShardEnd ends a shard.
func (s *exemplarSink) ShardEnd(shard uint16, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open.end(shard); err != nil {
		return err
	}
	s.pending.Ends = append(s.pending.GetEnds(), wire.FromShardEnd(shard, err))
	return s.addedLocked(fieldBytes)
}
