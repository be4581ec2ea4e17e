package rpc

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// Scan sends samples or windows of series.
func (s *Server) Scan(m *nodev1.ScanRequest, stream grpc.ServerStreamingServer[nodev1.ScanResponse]) error {
	if _, err := caller(stream.Context()); err != nil {
		return err
	}
	request, err := toScanRequest(m)
	if err != nil {
		return wire.Status(err)
	}
	account := s.scanAccount(stream.Context(), request.Selector.Database)
	defer account.lease.Close()
	request.Limits.Account = account
	sink := newScanSink(stream.Send, request.Selector.Shards, request.Steps)
	if request.Steps != nil {
		request.SamplesRead = sink.SamplesRead
	}
	if err := s.node.Scan(stream.Context(), request, sink); err != nil {
		return wire.Status(err)
	}
	return sink.finish()
}

// Last sends the newest samples of series.
func (s *Server) Last(m *nodev1.LastRequest, stream grpc.ServerStreamingServer[nodev1.LastResponse]) error {
	if _, err := caller(stream.Context()); err != nil {
		return err
	}
	request, err := toLastRequest(m)
	if err != nil {
		return wire.Status(err)
	}
	account := s.scanAccount(stream.Context(), request.Selector.Database)
	defer account.lease.Close()
	request.Limits.Account = account
	sink := newLastSink(stream.Send, request.Selector.Shards)
	if err := s.node.Last(stream.Context(), request, sink); err != nil {
		return wire.Status(err)
	}
	return sink.finish()
}

// ListSeries sends keys.
func (s *Server) ListSeries(m *nodev1.ListSeriesRequest, stream grpc.ServerStreamingServer[nodev1.ListSeriesResponse]) error {
	if _, err := caller(stream.Context()); err != nil {
		return err
	}
	request, err := toSeriesRequest(m)
	if err != nil {
		return wire.Status(err)
	}
	sink := newSeriesSink(stream.Send, request.Selector.Shards)
	if err := s.node.ListSeries(stream.Context(), request, sink); err != nil {
		return wire.Status(err)
	}
	return sink.finish()
}

// ListNames sends names.
func (s *Server) ListNames(m *nodev1.ListNamesRequest, stream grpc.ServerStreamingServer[nodev1.ListNamesResponse]) error {
	if _, err := caller(stream.Context()); err != nil {
		return err
	}
	request, err := toNamesRequest(m)
	if err != nil {
		return wire.Status(err)
	}
	names, ends, err := s.node.ListNames(stream.Context(), request)
	if err != nil {
		return wire.Status(err)
	}
	response := &nodev1.ListNamesResponse{}
	size := 0
	for _, name := range names {
		response.Names = append(response.Names, []byte(name))
		if size += len(name) + fieldBytes; size < flushBytes {
			continue
		}
		if err := stream.Send(response); err != nil {
			return err
		}
		response, size = &nodev1.ListNamesResponse{}, 0
	}
	open := newOpenShards(request.Shards)
	for _, end := range ends {
		if err := open.end(end.Shard); err != nil {
			return wire.Status(err)
		}
		response.Ends = append(response.Ends, wire.FromShardEnd(end.Shard, end.Err))
	}
	for _, shard := range open.left(request.Shards) {
		response.Ends = append(response.Ends, wire.FromShardEnd(shard, errNotEnded))
	}
	return stream.Send(response)
}

const (
	flushBytes = 64 << 10 // an answer is sent in messages of about so much
	fieldBytes = 4        // what a short field costs besides its bytes, about
)

// errNotEnded replaces the end that a Node has not sent.
var errNotEnded = fmt.Errorf("%w: the answer for the shard has no end", wire.ErrInternal)

// openShards are the shards of a request that have not ended yet.
type openShards map[uint16]*openShard

// openShard is where the answer for one shard is.
type openShard struct {
	id   uint32        // the series of the last chunk; 0: none yet
	last *nodev1.Chunk // the last chunk while it waits to be sent
}

func newOpenShards(shards []uint16) openShards {
	list := make([]openShard, len(shards))
	o := make(openShards, len(shards))
	for i, shard := range shards {
		o[shard] = &list[i]
	}
	return o
}

func (o openShards) get(shard uint16) (*openShard, error) {
	if at := o[shard]; at != nil {
		return at, nil
	}
	return nil, fmt.Errorf("%w: something of shard %d, which has ended or was not asked for", wire.ErrInternal, shard)
}

func (o openShards) end(shard uint16) error {
	if _, err := o.get(shard); err != nil {
		return err
	}
	delete(o, shard)
	return nil
}

// left returns those of shards that have not ended.
func (o openShards) left(shards []uint16) []uint16 {
	var left []uint16
	for _, shard := range shards {
		if o[shard] != nil {
			left = append(left, shard)
		}
	}
	return left
}
