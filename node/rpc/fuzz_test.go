package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// FuzzRequests sends the same bytes as every kind of request. What a Node would get
// is within its bounds; what is refused is wire.ErrInvalid.
func FuzzRequests(f *testing.F) {
	selector := wire.FromSelector(&scan.Selector{Metric: "m", Matchers: []scan.Matcher{{Name: "a", Values: []string{"b"}}}})
	for _, m := range []proto.Message{
		&nodev1.ScanRequest{Selector: selector, Shards: []*nodev1.ShardFrom{{Shard: 1, AfterId: 4}, {Shard: 9}}, ToMs: 5, Parallel: 4},
		&nodev1.ScanRequest{Selector: selector, Shards: []*nodev1.ShardFrom{{Shard: 1}}, ToMs: 5, Steps: &nodev1.Steps{LastMs: 9, StepMs: 3, RangeMs: 4, Function: 2, Fold: &nodev1.Fold{Kind: 1}}},
		&nodev1.LastRequest{Selector: selector, Shards: []uint32{1}},
		&nodev1.ListSeriesRequest{Selector: selector, Shards: []uint32{1}, Limit: 5},
		&nodev1.ListNamesRequest{Kind: tickmeshv1.NameKind_NAME_KIND_METRIC, Shards: []uint32{0, 65535}},
		&nodev1.DeleteRequest{Selector: selector, Shards: []uint32{1}, FromMs: -5},
		&nodev1.HistoryRequest{Since: []*nodev1.ShardMark{{Shard: 1, Run: 7, Index: 9}, {Shard: 4}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(shards []uint16, err error) {
			if err != nil {
				if !errors.Is(err, wire.ErrInvalid) {
					t.Fatalf("an error without a kind: %v", err)
				}
				return
			}
			if len(shards) == 0 || !slices.IsSorted(shards) || len(slices.Compact(slices.Clone(shards))) != len(shards) {
				t.Fatalf("shards %v", shards)
			}
		}
		fuzzScan(t, b, check)
		if m := new(nodev1.LastRequest); proto.Unmarshal(b, m) == nil {
			r, err := toLastRequest(m)
			check(shardsOf(r, err, func() []uint16 { return r.Selector.Shards }), err)
		}
		if m := new(nodev1.ListSeriesRequest); proto.Unmarshal(b, m) == nil {
			r, err := toSeriesRequest(m)
			check(shardsOf(r, err, func() []uint16 { return r.Selector.Shards }), err)
		}
		if m := new(nodev1.ListNamesRequest); proto.Unmarshal(b, m) == nil {
			r, err := toNamesRequest(m)
			check(shardsOf(r, err, func() []uint16 { return r.Shards }), err)
		}
		if m := new(nodev1.HistoryRequest); proto.Unmarshal(b, m) == nil {
			marks, err := toMarks(m.GetSince())
			shards := make([]uint16, len(marks))
			for i, mark := range marks {
				shards[i] = mark.Shard
			}
			check(shards, err)
		}
		if m := new(nodev1.DeleteRequest); proto.Unmarshal(b, m) == nil {
			r, err := toDeleteRequest(m)
			check(shardsOf(r, err, func() []uint16 { return r.Selector.Shards }), err)
		}
	})
}

// shardsOf returns the shards of a request that was taken.
func shardsOf[R any](_ *R, err error, shards func() []uint16) []uint16 {
	if err != nil {
		return nil
	}
	return shards()
}

func fuzzScan(t *testing.T, b []byte, check func([]uint16, error)) {
	m := new(nodev1.ScanRequest)
	if proto.Unmarshal(b, m) != nil {
		return
	}
	r, err := toScanRequest(m)
	if err != nil {
		check(nil, err)
		return
	}
	check(r.Selector.Shards, nil)
	if r.Steps != nil && (r.Windows != nil || r.Steps.Check() != nil || r.Steps.Fold != nil && slices.Max(r.AfterIDs) > 0) {
		t.Fatalf("%+v", r.Steps)
	}
	if len(r.AfterIDs) != len(r.Selector.Shards) || r.Parallel < 0 || r.Parallel > parallelMax || r.FromMs > r.ToMs {
		t.Fatalf("%+v", r)
	}
}

// FuzzWrites sends any bytes as a request to the write path: what protobuf's own
// library takes is answered, each frame once, with an error or for each part.
func FuzzWrites(f *testing.F) {
	for _, m := range []*nodev1.WriteRequest{requestOf(frameOf(1, 2, 3)), requestOf(frameOf(1, 2, 2), frameOf(3), frameOf(4, 1<<17))} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		node := &fakeNode{hello: nodeHello("a"), write: func(_ context.Context, frame *series.Frame) ([]wire.PartOutcome, error) {
			outcomes := make([]wire.PartOutcome, len(frame.Parts))
			for i, p := range frame.Parts {
				outcomes[i].Copies = 1
				var batch series.BatchReader
				batch.Reset(bytes.Clone(p.Batch))
				for batch.NextPoint() {
				}
				outcomes[i].Err = batch.Err()
			}
			return outcomes, nil
		}}
		stream := &fakeStream{ctx: t.Context(), requests: [][]byte{b}, answers: map[uint64][]*nodev1.FrameResult{}, t: t}
		err := NewServer(node, Options{}).serveWrites(stream)
		m := new(nodev1.WriteRequest)
		wrong := proto.Unmarshal(b, m) != nil
		if wrong != (err != nil) {
			t.Fatalf("protobuf finds it wrong: %t; the server: %v", wrong, err)
		}
		if wrong {
			return
		}
		for _, frame := range m.GetFrames() {
			results := stream.answers[frame.GetSequence()]
			if len(results) == 0 {
				t.Fatalf("frame %d has no answer", frame.GetSequence())
			}
			stream.answers[frame.GetSequence()] = results[1:]
		}
	})
}

// fakeStream has a caller's requests, and takes the answers.
type fakeStream struct {
	grpc.BidiStreamingServer[nodev1.WriteRequest, nodev1.WriteResponse]
	ctx      context.Context
	requests [][]byte
	answers  map[uint64][]*nodev1.FrameResult // by sequence
	t        testing.TB
}

func (s *fakeStream) Context() context.Context { return s.ctx }

func (s *fakeStream) RecvMsg(m any) error {
	if len(s.requests) == 0 {
		return io.EOF
	}
	m.(*transport.Message).Bytes = s.requests[0]
	s.requests = s.requests[1:]
	return nil
}

func (s *fakeStream) SendMsg(m any) error {
	var response nodev1.WriteResponse
	if err := proto.Unmarshal(m.(*transport.Message).Slice.Materialize(), &response); err != nil {
		s.t.Error(err)
	}
	for _, r := range response.GetResults() {
		s.answers[r.GetSequence()] = append(s.answers[r.GetSequence()], r)
	}
	return nil
}
