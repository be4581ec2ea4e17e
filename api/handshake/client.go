package handshake

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tickmesh/tickmesh/api/wire"
)

// DialOptions are the interceptors for a connection of the process self to a node:
// they add the Hello, and turn an answer of someone else into wire.ErrWrongNode or
// what else Check returns. They also turn gRPC's statuses into errors as
// wire.FromStatus does.
func DialOptions(self func() Hello, toNode, toIncarnation string) []grpc.DialOption {
	c := &client{self: func() Hello { return self().To(toNode, toIncarnation) }}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream)}
}

type processKey struct{}

// WithProcess returns the context of calls that mean one process of a node: an answer of another one is
// wire.ErrWrongNode. Nodes of all versions tell their process.
func WithProcess(ctx context.Context, process uint64) context.Context {
	return context.WithValue(ctx, processKey{}, process)
}

type client struct{ self func() Hello }

func (c *client) hello(ctx context.Context) (context.Context, Hello, error) {
	self := c.self()
	encoded, err := self.Encode()
	if err != nil {
		return ctx, self, fmt.Errorf("%w: own Hello: %w", wire.ErrInternal, err)
	}
	return metadata.AppendToOutgoingContext(ctx, Header, encoded), self, nil
}

func (c *client) unary(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, self, err := c.hello(ctx)
	if err != nil {
		return err
	}
	var header metadata.MD
	if err := invoke(ctx, method, request, reply, cc, append(options, grpc.Header(&header))...); err != nil {
		return wire.FromStatus(err)
	}
	return checkHeader(ctx, self, header)
}

func (c *client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, self, err := c.hello(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s, err := open(ctx, desc, cc, method, options...)
	if err != nil {
		cancel()
		return nil, wire.FromStatus(err)
	}
	return &clientStream{ClientStream: s, self: self, cancel: cancel}, nil
}

func checkHeader(ctx context.Context, self Hello, header metadata.MD) error {
	values := header.Get(Header)
	if len(values) != 1 {
		return fmt.Errorf("%w: whoever answered does not say who it is", wire.ErrWrongNode)
	}
	answer, err := Decode(values[0])
	if err != nil {
		return err
	}
	if process, meant := ctx.Value(processKey{}).(uint64); meant && answer.Process != process {
		return fmt.Errorf("%w: %s has been restarted", wire.ErrWrongNode, answer)
	}
	return CheckAnswer(self, answer)
}

// clientStream checks who answers before it returns what was answered.
type clientStream struct {
	grpc.ClientStream
	self    Hello
	cancel  context.CancelFunc // ends the stream below when the caller is told that it has ended
	checked bool               // by RecvMsg's one caller
}

// RecvMsg receives the next message of the node that was meant.
func (s *clientStream) RecvMsg(m any) error {
	err := s.receive(m)
	if err != nil {
		s.cancel()
	}
	return err
}

func (s *clientStream) receive(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return wire.FromStatus(err)
	}
	if s.checked {
		return nil
	}
	header, err := s.ClientStream.Header()
	if err != nil {
		return wire.FromStatus(err)
	}
	if err := checkHeader(s.Context(), s.self, header); err != nil {
		return err
	}
	s.checked = true
	return nil
}

// SendMsg sends a message; io.EOF says that RecvMsg has the reason.
func (s *clientStream) SendMsg(m any) error { return wire.FromStatus(s.ClientStream.SendMsg(m)) }

// Header waits for the response header and reports whether the right node has sent it.
// A stream that ended without one returns nil: RecvMsg has the reason.
func (s *clientStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	if err == nil && header != nil {
		err = checkHeader(s.Context(), s.self, header)
	}
	if err != nil {
		s.cancel()
		return nil, wire.FromStatus(err)
	}
	return header, nil
}
