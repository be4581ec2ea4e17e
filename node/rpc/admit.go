package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// kind is a kind of calls with bounds of its own: writes wait for envelopes of other nodes,
// so that they must not take their room, and neither may wait for reads.
type kind int

const (
	kindControl kind = iota
	kindWrite
	kindRequest
	kinds
)

func kindOf(method string) kind {
	switch method {
	case nodev1.NodeService_Exchange_FullMethodName, nodev1.NodeService_Handshake_FullMethodName,
		nodev1.NodeService_Report_FullMethodName, nodev1.NodeService_TransferLeader_FullMethodName:
		return kindControl
	case nodev1.NodeService_Write_FullMethodName:
		return kindWrite
	}
	return kindRequest
}

// memoryWaitMax is how long a message waits for room. Frames are answered in that time, and
// messages have arrived.
const memoryWaitMax = 30 * time.Second

// bound is what all calls of a kind share.
type bound struct{ calls, bytes *budget.Pool }

func newBounds(o *Options) (b [kinds]bound) {
	b[kindControl] = bound{budget.New(int64(o.ControlCallsMax), 0), budget.New(o.ControlBytesMax, memoryWaitMax)}
	b[kindWrite] = bound{budget.New(int64(o.WriteCallsMax), 0), budget.New(o.WriteBytesMax, memoryWaitMax)}
	b[kindRequest] = bound{budget.New(int64(o.RequestCallsMax), 0), budget.New(o.RequestBytesMax, memoryWaitMax)}
	return b
}

// PoolScans is the pool of what scans hold. All others are of messages.
const PoolScans = "rpc_scans"

// Pools returns the bounds of bytes by names for metrics.
func (s *Server) Pools() map[string]*budget.Pool {
	return map[string]*budget.Pool{
		"rpc_control": s.bounds[kindControl].bytes, "rpc_writes": s.bounds[kindWrite].bytes, "rpc_requests": s.bounds[kindRequest].bytes,
		PoolScans: s.scans,
	}
}

// ownerOf returns whom a call is charged to. Nodes are told apart by their names, other
// processes by what they have drawn when they started, and requests that a router makes for somebody
// by who that is.
func ownerOf(ctx context.Context, caller *handshake.Hello, k kind) (o budget.Owner) {
	if p, ok := grpcpeer.FromContext(ctx); ok {
		o.Address = budget.AddressOf(p.Addr)
	}
	owner := ""
	if k == kindRequest {
		owner = handshake.OwnerOf(ctx)
	}
	switch {
	case caller.Node != "":
		o.Tenant = "node " + caller.Node
	case owner != "":
		o.Tenant = "owner " + owner
	default:
		o.Tenant = strconv.FormatUint(caller.Process, 36)
	}
	return o
}

// admit bounds the calls that run at once, and what they hold. The handshake comes before it.
func (s *Server) admit(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	hello, err := caller(stream.Context())
	if err != nil {
		return err
	}
	k := kindOf(info.FullMethod)
	owner, b := ownerOf(stream.Context(), &hello, k), &s.bounds[k]
	place := b.calls.Lease(owner)
	if !place.TryAcquire(1) {
		return wire.Status(fmt.Errorf("%w: %d calls of the kind of %s run at once at most, those of one caller at most half; try again later",
			series.ErrOverloaded, b.calls.BytesMax(), info.FullMethod))
	}
	defer place.Close()
	a := &admitted{ServerStream: stream, single: !info.IsClientStream, buffers: s.buffers, bytes: b.bytes, owner: owner}
	defer func() { a.memory.Close() }()
	a.receiver = transport.Receiver{Buffers: s.buffers, BytesMax: transport.MessageBytesMax, Timeout: s.options.MessageTimeout, Reserve: a.reserve}
	return handle(server, a)
}

// admitted is a call that was let in. Its messages are charged before they are read.
type admitted struct {
	grpc.ServerStream
	receiver transport.Receiver
	buffers  *transport.Buffers
	bytes    *budget.Pool
	owner    budget.Owner
	memory   *budget.Lease // of the last message; each has its own, as many may be in work
	single   bool          // the caller sends one message
}

func (a *admitted) reserve(bytes int) error {
	err := a.memory.Acquire(a.Context(), int64(bytes))
	if errors.Is(err, budget.ErrTooLarge) {
		return wire.Status(fmt.Errorf("%w: a message of %d bytes, this node has room for %d (--memory-limit)", series.ErrBatch, bytes, a.bytes.BytesMax()))
	}
	if err != nil {
		return wire.Status(fmt.Errorf("%w: %w", series.ErrOverloaded, err))
	}
	return nil
}

// RecvMsg receives a message. A *transport.Message is charged until it is freed, any other
// until the call ends.
func (a *admitted) RecvMsg(m any) error {
	lease := a.bytes.Lease(a.owner)
	a.memory = &lease
	var err error
	switch m := m.(type) {
	case *transport.Message:
		err = a.receive(m)
	case proto.Message:
		err = a.decode(m)
	default:
		return status.Errorf(codes.Internal, "BUG: a message of type %T", m)
	}
	if err != nil {
		a.memory.Close()
		if a.single && errors.Is(err, io.EOF) {
			return status.Error(codes.Internal, "the call has no message")
		}
		return err
	}
	if a.single {
		return a.expectEnd()
	}
	return nil
}

func (a *admitted) receive(m *transport.Message) error {
	if a.receiver.Buffers = a.buffers; m.Keep {
		a.receiver.Buffers = nil
	}
	content, err := a.receiver.Receive(a.Context())
	if err != nil {
		return err
	}
	lease, pooled := a.memory, a.receiver.Buffers
	m.Received(content, func() {
		lease.Close()
		if pooled != nil {
			pooled.Put(content)
		}
	})
	return nil
}

func (a *admitted) decode(m proto.Message) error {
	content, err := a.receiver.Receive(a.Context())
	if err != nil {
		return err
	}
	defer a.buffers.Put(content)
	sent := a.memory.Held()
	if err := a.reserve(transport.DecodedBytes(m.ProtoReflect().Descriptor(), *content)); err != nil {
		return err
	}
	if err := proto.Unmarshal(*content, m); err != nil {
		return status.Errorf(codes.Internal, "the message cannot be read: %v", err)
	}
	a.memory.Release(sent)
	return nil
}

// expectEnd reports an error unless the caller has sent its last message.
func (a *admitted) expectEnd() error {
	behind := transport.Receiver{Buffers: a.buffers, Reserve: func(int) error { return nil }}
	switch _, err := behind.Receive(a.Context()); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil || status.Code(err) == codes.ResourceExhausted:
		return status.Error(codes.Internal, "the call has more than one message")
	default:
		return err
	}
}
