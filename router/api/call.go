package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// openMessageBytesMax bounds the messages of callers whom nobody asks who they are.
const openMessageBytesMax = 1 << 10

// memory is what a call, a session or a batch holds of a budget.
type memory struct {
	lease budget.Lease
	total *atomic.Int64 // of all that write; nil: it is a read
}

// acquire waits for n bytes more. Errors: errMemory, and one for what is too large ever.
func (m *memory) acquire(ctx context.Context, n int64) error {
	if err := m.lease.Acquire(ctx, n); err != nil {
		if errors.Is(err, budget.ErrTooLarge) {
			return fmt.Errorf("%w: %w", series.ErrOverloaded, err)
		}
		return errMemory
	}
	m.count(n)
	return nil
}

// take takes n bytes more, if there is room now.
func (m *memory) take(n int64) bool {
	if !m.lease.TryAcquire(n) {
		return false
	}
	m.count(n)
	return true
}

func (m *memory) release(n int64) {
	m.lease.Release(n)
	m.count(-n)
}

func (m *memory) close() {
	m.count(-m.lease.Held())
	m.lease.Close()
}

func (m *memory) count(n int64) {
	if m.total != nil {
		m.total.Add(n)
	}
}

// call is one call that is let in.
type call struct {
	s        *Server
	owner    budget.Owner
	memory   memory // of its messages
	receiver transport.Receiver
	unary    bool  // the client sends one message
	charged  int64 // for the last message; see takeCharge

	// mu guards the memory's end: who receives for a stream may still do so when its handler
	// has returned, as only that ends the receiving.
	mu    sync.Mutex
	ended bool
}

type callKey struct{}

// callOf returns the call of a context; nil: it was not let in by admitStream.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func (s *Server) newCall(o budget.Owner, info *grpc.StreamServerInfo, open bool) *call {
	c := &call{s: s, owner: o, unary: !info.IsClientStream}
	c.receiver = transport.Receiver{
		Buffers: s.buffers, BytesMax: s.options.Limits.MessageBytesMax, Timeout: s.options.Limits.MessageTimeout,
	}
	if isWrite(info.FullMethod) {
		c.memory = memory{s.options.Writes.Lease(o), &s.held}
	} else {
		c.memory = memory{s.options.Reads.Lease(o), nil}
	}
	if open {
		c.receiver.BytesMax = openMessageBytesMax
	}
	return c
}

// writes returns memory for what a write becomes.
func (s *Server) writes(ctx context.Context) memory {
	m := memory{s.options.Writes.Lease(budget.Owner{}), &s.held}
	if c := callOf(ctx); c != nil {
		m.lease = s.options.Writes.Lease(c.owner)
	}
	return m
}

// takeCharge hands over what the last message is charged for: its receiver releases it. What
// is not taken is released at the end of the call.
func (c *call) takeCharge() int64 {
	if c == nil {
		return 0
	}
	n := c.charged
	c.charged = 0
	return n
}

// release releases a charge that was taken.
func (c *call) release(charge int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended { // else it was released with all
		c.memory.release(charge)
	}
}

// end releases all that the call holds. It holds nothing from then on.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.memory.close()
}

// reserve charges the message that is being received.
func (c *call) reserve(ctx context.Context, bytes int) error {
	if err := c.memory.acquire(ctx, int64(bytes)); err != nil {
		return statusOf(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		c.memory.close() // end may have come before or behind the bytes
		return status.Error(codes.Canceled, "the call has ended")
	}
	c.charged += int64(bytes)
	return nil
}

// receive reads the next message. What it takes is charged before.
func (c *call) receive(ctx context.Context, m proto.Message) error {
	c.charged = 0
	c.receiver.Reserve = func(bytes int) error { return c.reserve(ctx, bytes) }
	buffer, err := c.receiver.Receive(ctx)
	if err != nil {
		c.release(c.takeCharge())
		return err
	}
	defer c.s.buffers.Put(buffer)
	sent := c.charged // of the buffers, which are not needed behind this
	if err = c.receiver.Reserve(transport.DecodedBytes(m.ProtoReflect().Descriptor(), *buffer)); err == nil {
		if err = proto.Unmarshal(*buffer, m); err != nil {
			err = status.Errorf(codes.Internal, "the message cannot be read: %v", err)
		}
	}
	if err != nil {
		c.release(c.takeCharge())
		return err
	}
	c.release(sent)
	c.charged -= sent
	return nil
}

// admitted is a stream of a caller who is known.
type admitted struct {
	grpc.ServerStream
	ctx  context.Context
	call *call
}

// Context returns the context with the caller.
func (a *admitted) Context() context.Context { return a.ctx }

// RecvMsg receives a message for which there is room. Where the client sends one only, no
// other may follow.
func (a *admitted) RecvMsg(m any) error {
	var err error
	switch message := m.(type) {
	case proto.Message:
		err = a.call.receive(a.ctx, message)
	case *rawMessage:
		err = a.call.receiveRaw(a.ctx, message)
	default:
		return status.Errorf(codes.Internal, "a message of type %T", m)
	}
	if !a.call.unary {
		return err
	}
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Internal, "the call has no message")
	}
	if err != nil {
		return err
	}
	behind := transport.Receiver{Buffers: a.call.s.buffers, Reserve: func(int) error { return nil }}
	switch _, err := behind.Receive(a.ctx); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil || status.Code(err) == codes.ResourceExhausted:
		return status.Error(codes.Internal, "the call has more than one message")
	default:
		return err
	}
}

func isWrite(method string) bool {
	return method == methodExport || strings.HasPrefix(method, "/"+tickmeshv1.WriteService_ServiceDesc.ServiceName+"/")
}
