package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

func frameOf(sequence uint64, shards ...uint32) *nodev1.Frame {
	m := &nodev1.Frame{Sequence: sequence, BatchId: &tickmeshv1.BatchId{Session: 9, Counter: sequence}}
	for _, shard := range shards {
		m.Parts = append(m.Parts, &nodev1.Part{Shard: shard, Era: 2, Batch: fmt.Append(nil, "batch of ", shard), Points: 3})
	}
	return m
}

func requestOf(frames ...*nodev1.Frame) *nodev1.WriteRequest {
	return &nodev1.WriteRequest{Frames: frames}
}

func TestWriteAnswersEachPart(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a")}
	node.write = func(_ context.Context, frame *series.Frame) ([]wire.PartOutcome, error) {
		if frame.ID.Counter == 2 {
			return nil, fmt.Errorf("%w: disk", series.ErrReadOnly)
		}
		if frame.ID.Counter == 3 {
			return nil, nil // forgets the parts
		}
		outcomes := make([]wire.PartOutcome, len(frame.Parts))
		for i, p := range frame.Parts {
			if want := fmt.Sprint("batch of ", p.Shard); string(p.Batch) != want || p.Era != 2 || frame.ID.Session != 9 || frame.Points != 9 {
				return nil, fmt.Errorf("%w: part %+v of %+v", wire.ErrInvalid, p, frame.ID)
			}
			switch p.Shard {
			case 1:
				outcomes[i] = wire.PartOutcome{
					Copies:  2,
					Refused: []series.Refusal{{Part: i, Definition: 4, Err: fmt.Errorf("%w: full", series.ErrSeriesLimit)}},
					Defined: []series.Defined{{Part: i, Definition: 5, ID: 77, Era: 2}},
				}
			case 2:
				outcomes[i].Err = &wire.NotLeaderError{Shard: 2, Leader: "b"}
			case 3:
				outcomes[i].Err = fmt.Errorf("%w: now it is 3", series.ErrEra)
			}
		}
		return outcomes, nil
	}
	address, _ := serve(t, node, Options{})
	stream, err := dial(t, address, nodeHello("b")).Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(m *nodev1.Frame) *nodev1.FrameResult {
		t.Helper()
		if err := stream.Send(requestOf(m)); err != nil {
			t.Fatal(err)
		}
		response, err := stream.Recv()
		if err != nil || len(response.GetResults()) != 1 || response.GetResults()[0].GetSequence() != m.GetSequence() {
			t.Fatal(response, err)
		}
		return response.GetResults()[0]
	}
	response := ask(frameOf(1, 3, 1, 2))
	outcomes, err := wire.ToPartOutcomes(response.GetResults(), []uint16{3, 1, 2})
	if err != nil || response.GetError() != nil {
		t.Fatal(err, response.GetError())
	}
	var notLeader *wire.NotLeaderError
	if !errors.Is(outcomes[0].Err, series.ErrEra) || outcomes[0].Err.Error() != series.ErrEra.Error()+": now it is 3" ||
		!errors.As(outcomes[2].Err, &notLeader) || *notLeader != (wire.NotLeaderError{Shard: 2, Leader: "b"}) {
		t.Fatalf("got %+v", outcomes)
	}
	if o := outcomes[1]; o.Err != nil || o.Copies != 2 || !errors.Is(o.Refused[0].Err, series.ErrSeriesLimit) ||
		o.Refused[0].Part != 1 || o.Refused[0].Definition != 4 || !slices.Equal(o.Defined, []series.Defined{{Part: 1, Definition: 5, ID: 77, Era: 2}}) {
		t.Fatalf("got %+v", outcomes[1])
	}
	for _, bad := range []struct {
		frame *nodev1.Frame
		want  error
	}{
		{frameOf(2, 1), series.ErrReadOnly},
		{frameOf(3, 1), wire.ErrInternal},
		{frameOf(4, 1, 1), wire.ErrInvalid},
		{frameOf(5, 1<<16), wire.ErrInvalid},
		{frameOf(6), wire.ErrInvalid},
		{&nodev1.Frame{Sequence: 7, BatchId: &tickmeshv1.BatchId{Counter: 7}, Parts: frameOf(1, 1).Parts}, wire.ErrInvalid},
	} {
		if response := ask(bad.frame); !errors.Is(wire.ToError(response.GetError()), bad.want) || len(response.GetResults()) > 0 {
			t.Errorf("frame %d: got %v, expected %v", bad.frame.GetSequence(), response, bad.want)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("the stream ended with %v", err)
	}
}

// TestWriteBounds: no more frames are in work than the bounds allow, by number and
// by bytes, of which one caller has half, and all are answered in the end.
func TestWriteBounds(t *testing.T) {
	for i, o := range []Options{{WritesMax: 5}, {WriteBytesMax: 400}, {WritesMax: 5}} {
		var inWork, most atomic.Int64
		release := make(chan struct{})
		node := &fakeNode{hello: nodeHello("a")}
		node.write = func(_ context.Context, frame *series.Frame) ([]wire.PartOutcome, error) {
			n := inWork.Add(1)
			defer inWork.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			<-release
			return []wire.PartOutcome{{Copies: 1}}, nil
		}
		address, _ := serve(t, node, o)
		stream, err := dial(t, address, nodeHello("b")).Write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const frames = 100
		request := requestOf()
		for n := range uint64(frames) {
			request.Frames = append(request.Frames, frameOf(n+1, 1))
			if i == 2 && n+1 < frames {
				continue // all in one
			}
			if err := stream.Send(request); err != nil { // they fit into the stream's window
				t.Fatal(err)
			}
			request = requestOf()
		}
		eventually(t, "work", func() bool { return inWork.Load() >= 5 })
		close(release)
		seen := map[uint64]bool{}
		for len(seen) < frames {
			response, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range response.GetResults() {
				if r.GetCopies() != 1 || seen[r.GetSequence()] {
					t.Fatalf("got %v", r)
				}
				seen[r.GetSequence()] = true
			}
		}
		if len(seen) != frames || o.WritesMax == 5 && most.Load() > 5 || most.Load() > 10 {
			t.Fatalf("%d answers; %d frames were in work at once", len(seen), most.Load())
		}
		_ = stream.CloseSend()
	}
}

// TestFramesOfOneRequest: what becomes of a frame does not wait for the others of its
// request, nor for wrong ones; their memory is their own until they are answered.
func TestFramesOfOneRequest(t *testing.T) {
	release := make(chan struct{})
	node := &fakeNode{hello: nodeHello("a")}
	node.write = func(_ context.Context, frame *series.Frame) ([]wire.PartOutcome, error) {
		if frame.ID.Counter == 2 {
			<-release
		}
		if want := fmt.Sprint("batch of ", frame.Parts[0].Shard); string(frame.Parts[0].Batch) != want {
			return nil, fmt.Errorf("%w: %q", series.ErrBatch, frame.Parts[0].Batch)
		}
		return []wire.PartOutcome{{Copies: int(frame.ID.Counter)}}, nil
	}
	address, _ := serve(t, node, Options{})
	stream, err := dial(t, address, nodeHello("b")).Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answers := map[uint64]*nodev1.FrameResult{}
	await := func(number int) {
		t.Helper()
		for len(answers) < number {
			response, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range response.GetResults() {
				answers[r.GetSequence()] = r
			}
		}
	}
	if err := stream.Send(requestOf(frameOf(1, 5), frameOf(2, 6), frameOf(3, 7, 7), frameOf(4, 8))); err != nil {
		t.Fatal(err)
	}
	await(3)
	for i := range uint64(50) { // they would be written over the memory of the first request
		if err := stream.Send(requestOf(frameOf(100+i, 9))); err != nil {
			t.Fatal(err)
		}
	}
	await(53)
	if answers[2] != nil || answers[1].GetCopies() != 1 || answers[4].GetCopies() != 4 || !errors.Is(wire.ToError(answers[3].GetError()), wire.ErrInvalid) {
		t.Fatalf("got %v", answers)
	}
	close(release)
	await(54)
	if answers[2].GetCopies() != 2 {
		t.Fatalf("got %v", answers[2])
	}
	_ = stream.CloseSend()
}

// TestBadRequest: a request that is no message ends its stream, and no other.
func TestBadRequest(t *testing.T) {
	address, _ := serve(t, &fakeNode{hello: nodeHello("a")}, Options{})
	client := dial(t, address, nodeHello("b"))
	for range 2 {
		stream, err := client.Write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		bad := []byte{1<<3 | 2, 200, 1}
		if err := stream.SendMsg(&transport.Message{Slice: mem.BufferSlice{mem.SliceBuffer(bad)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, wire.ErrInvalid) {
			t.Fatalf("the stream ended with %v", err)
		}
	}
}

func TestWriteTimeout(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a")}
	node.write = func(ctx context.Context, _ *series.Frame) ([]wire.PartOutcome, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	address, _ := serve(t, node, Options{})
	stream, err := dial(t, address, nodeHello("b")).Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := frameOf(1, 1)
	m.TimeoutMs = 1
	if err := stream.Send(requestOf(m)); err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil || !errors.Is(wire.ToError(response.GetResults()[0].GetError()), context.DeadlineExceeded) {
		t.Fatal(response, err)
	}
	_ = stream.CloseSend()
}

func TestSingleCalls(t *testing.T) {
	address, _ := serve(t, &fakeNode{hello: nodeHello("a")}, Options{})
	client := dial(t, address, nodeHello("b"))
	var notLeader *wire.NotLeaderError
	_, err := client.TransferLeader(t.Context(), &nodev1.TransferLeaderRequest{Shard: 4})
	if !errors.As(err, &notLeader) || *notLeader != (wire.NotLeaderError{Shard: 4, Leader: "c"}) || !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("TransferLeader: %v", err)
	}
	if _, err := client.AdoptMap(t.Context(), &nodev1.AdoptMapRequest{Map: []byte("any")}); err == nil {
		t.Error("a node takes a map from a caller; only the placement store has maps")
	}
	if m, err := client.Report(t.Context(), &nodev1.ReportRequest{}); err != nil || m.GetMapEpoch() != 5 || m.GetHello().GetNode() != "a" {
		t.Errorf("Report: %v, %v", m, err)
	}
	if m, err := client.Digest(t.Context(), &nodev1.DigestRequest{Shard: 3, FromMs: 1, ToMs: 2}); err != nil || m.GetAppliedIndex() != 3 || string(m.GetDigest()) != "1 2" || m.GetUnchangedSinceIndex() != 2 {
		t.Errorf("Digest: %v, %v", m, err)
	}
	if _, err := client.RepairShard(t.Context(), &nodev1.RepairShardRequest{Shard: 2, ToMs: 5}); err != nil {
		t.Errorf("RepairShard: %v", err)
	}
	if _, err := client.RepairShard(t.Context(), &nodev1.RepairShardRequest{Shard: 1, ToMs: 5}); !errors.Is(wire.FromStatus(err), wire.ErrNotFound) {
		t.Errorf("RepairShard: %v", err)
	}
	m, err := client.Delete(t.Context(), &nodev1.DeleteRequest{
		Selector: wire.FromSelector(&scan.Selector{Metric: "m"}), Shards: []uint32{2, 13}, ToMs: 5,
	})
	if err != nil || !slices.Equal(m.GetSeriesTouched(), []int64{2, 13}) || m.GetEnds()[0].GetError() != nil {
		t.Fatalf("Delete: %v, %v", m, err)
	}
	shard, shardErr, err := wire.ToShardEnd(m.GetEnds()[1])
	if !errors.As(shardErr, &notLeader) || notLeader.Leader != "b" || shard != 13 || err != nil {
		t.Errorf("Delete: %v, %v", shardErr, err)
	}
	for name, err := range map[string]error{
		"shard too large": second(client.TransferLeader(t.Context(), &nodev1.TransferLeaderRequest{Shard: 1 << 16})),
		"no selector":     second(client.Delete(t.Context(), &nodev1.DeleteRequest{Shards: []uint32{1}})),
		"no shards":       second(client.Delete(t.Context(), &nodev1.DeleteRequest{Selector: &tickmeshv1.Selector{}})),
		"digest":          second(client.Digest(t.Context(), &nodev1.DigestRequest{Shard: 1 << 20})),
		"repair":          second(client.RepairShard(t.Context(), &nodev1.RepairShardRequest{Shard: 1, FromMs: 5, ToMs: 4})),
	} {
		if !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestServerWithoutHandshake: a server that was made without its interceptors serves
// nobody.
func TestServerWithoutHandshake(t *testing.T) {
	s := NewServer(&fakeNode{hello: nodeHello("a")}, Options{})
	if _, err := s.Report(t.Context(), nil); status.Code(err) != codes.Internal {
		t.Fatal(err)
	}
}

// TestTooManyFrames: a message of empty frames is small, and still is refused when there
// are more of them than anybody sends.
func TestTooManyFrames(t *testing.T) {
	address, _ := serve(t, &fakeNode{hello: nodeHello("a")}, Options{})
	for _, extra := range []int{0, 1} {
		stream, err := dial(t, address, nodeHello("b")).Write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := &nodev1.WriteRequest{}
		for range requestFramesMax + extra {
			m.Frames = append(m.Frames, &nodev1.Frame{})
		}
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
		answers := 0
		for err == nil && answers < requestFramesMax {
			var response *nodev1.WriteResponse
			response, err = stream.Recv()
			answers += len(response.GetResults())
		}
		if extra == 0 && (err != nil || answers != requestFramesMax) || extra > 0 && !errors.Is(wire.FromStatus(err), wire.ErrInvalid) {
			t.Errorf("%d frames too many: %d answers, %v", extra, answers, err)
		}
	}
}
