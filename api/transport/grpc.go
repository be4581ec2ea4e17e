package transport

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
)

// Settings of gRPC that both sides have to agree on.
const (
	// MessageBytesMax is the largest message that is read. Frames, chunks and pieces
	// of files are made much smaller.
	MessageBytesMax = 32 << 20
	// StreamsMax bounds the calls of one connection that run at once, whoever makes it. Who may
	// need more of them, as a router of a node, opens more connections. What calls hold is
	// bounded by the servers, whatever the number of connections.
	StreamsMax = 100
	// HeaderBytesMax bounds the headers of a call.
	HeaderBytesMax = 32 << 10

	// clientStreamWindowBytes is how far a server may be ahead of a client that reads. It is
	// fixed, because gRPC's estimate starts low and pauses streams that begin.
	clientStreamWindowBytes = 1 << 20
	// ServerStreamWindowBytes is how far callers may be ahead of a server, whoever they are:
	// it is held before anybody asks for room. gRPC has no smaller one. For a larger message
	// the sender is allowed more as soon as its reader asks for it.
	ServerStreamWindowBytes = 64 << 10

	connectionWindowBytes = 4 << 20

	// A side that hears nothing for keepaliveTime asks, and takes the other for dead
	// when it does not answer in keepaliveTimeout. gRPC allows no shorter time. Nothing
	// waits for it: Raft and routers notice a silent process within a second. A process
	// that only gets little of a busy machine must not lose its connections to it, as
	// making them again is what it can afford least.
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 10 * time.Second
	keepaliveTimeMin = 5 * time.Second // servers take more frequent questions as an attack

	// unacknowledgedTimeout is how long the kernel of a peer may leave bytes without an
	// acknowledgement, which needs no process: then its machine is gone.
	unacknowledgedTimeout = 3 * time.Second

	// handshakeTimeout is what a server allows a client, which is as busy as itself: longer
	// than any client waits (connectTimes), or the work of both would be thrown away.
	handshakeTimeout = 25 * time.Second

	backoffBase   = 50 * time.Millisecond
	backoffMax    = time.Second
	backoffFactor = 1.6
	backoffJitter = 0.2
)

// ServerOptions are for gRPC servers; nil credentials: no TLS.
func ServerOptions(c credentials.TransportCredentials) []grpc.ServerOption {
	if c == nil {
		c = insecure.NewCredentials()
	}
	buffers := new(Buffers)
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec(buffers)),
		experimental.BufferPool(buffers),
		grpc.Creds(c),
		grpc.MaxRecvMsgSize(MessageBytesMax),
		grpc.MaxSendMsgSize(MessageBytesMax),
		grpc.MaxConcurrentStreams(StreamsMax),
		grpc.MaxHeaderListSize(HeaderBytesMax),
		grpc.InitialWindowSize(ServerStreamWindowBytes),
		grpc.InitialConnWindowSize(connectionWindowBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTimeMin, PermitWithoutStream: true}),
	}
}

// DialOptions are for gRPC clients; nil credentials: no TLS. gRPC itself never
// repeats a call that may have reached the server: whoever calls knows what may be
// repeated. How long a connection may take to make adapts to each address.
func DialOptions(c credentials.TransportCredentials) []grpc.DialOption {
	return dialOptions(c, defaultConnectTimes())
}

// ClientDialOptions are DialOptions for clients of the public API, whose connections may lead to one of several
// servers, by chance, of which some may be on machines that are gone: they are given up sooner, and several attempts to
// connect run at once.
func ClientDialOptions(c credentials.TransportCredentials) []grpc.DialOption {
	return dialOptions(c, clientConnectTimes())
}

func dialOptions(c credentials.TransportCredentials, times connectTimes) []grpc.DialOption {
	if c == nil {
		c = insecure.NewCredentials()
	}
	buffers := new(Buffers)
	dialer := &hedgedDialer{dialer: net.Dialer{Timeout: times.dial, KeepAliveConfig: times.keepAlive}, every: times.another}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(newAdaptiveHandshake(c, &times)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.dial(ctx, address)
		}),
		experimental.WithBufferPool(buffers),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec(buffers)), grpc.MaxCallRecvMsgSize(MessageBytesMax), grpc.MaxCallSendMsgSize(MessageBytesMax)),
		grpc.WithMaxHeaderListSize(HeaderBytesMax),
		grpc.WithInitialWindowSize(clientStreamWindowBytes),
		grpc.WithInitialConnWindowSize(connectionWindowBytes),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: backoffBase, Multiplier: backoffFactor, Jitter: backoffJitter, MaxDelay: backoffMax},
			MinConnectTimeout: times.total(),
		}),
	}
}
