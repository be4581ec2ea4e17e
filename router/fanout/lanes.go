package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
)

const (
	// laneCallsMax bounds the reads on one connection. The rest of transport.StreamsMax is for
	// what must not wait behind reads: streams of writes, and probes, of which a router
	// has a few for each node.
	laneCallsMax = transport.StreamsMax * 2 / 3
	// LanesMax bounds the connections to one node: 64 queries (--query-running-max) make
	// Limits.ReadCallsMax calls each at most.
	LanesMax = 16
)

// laneIdleMax is how long a connection beside the first stays open without a call.
const laneIdleMax = time.Minute

// errLanesFull refuses a call that no connection has room for. It does not wait, as it may be
// what the calls that have the room wait for: a visitor that needs the rest of its series.
var errLanesFull = fmt.Errorf("%w: %d calls to the node run at once at most", series.ErrOverloaded, LanesMax*laneCallsMax)

// lanes carry the calls of a router to one node that may be many. A connection runs a bounded
// number of calls, so more of them are opened as they are needed. Calls go to the first one
// that has room: the others rest, and gRPC closes connections that do. It implements
// grpc.ClientConnInterface.
type lanes struct {
	open func() (*grpc.ClientConn, error)

	mu     sync.Mutex
	list   []*lane // guarded by mu; the first is the node's own connection
	closed bool    // guarded by mu
}

// lane is one connection.
type lane struct {
	conn  *grpc.ClientConn
	calls int // guarded by lanes.mu
}

// newLanes returns lanes of which the first is given; open makes others.
func newLanes(first *grpc.ClientConn, open func() (*grpc.ClientConn, error)) *lanes {
	return &lanes{open: open, list: []*lane{{conn: first}}}
}

// acquire returns a connection with room for a call, and what the end of the call frees it by.
// Errors: errLanesFull, errClosed.
func (l *lanes) acquire() (conn *grpc.ClientConn, release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, errClosed
	}
	at := slices.IndexFunc(l.list, func(lane *lane) bool { return lane.calls < laneCallsMax })
	if at < 0 {
		if len(l.list) == LanesMax {
			return nil, nil, errLanesFull
		}
		conn, err := l.open()
		if err != nil {
			return nil, nil, err
		}
		at, l.list = len(l.list), append(l.list, &lane{conn: conn})
	}
	free := l.list[at]
	free.calls++
	return free.conn, sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		free.calls--
	}), nil
}

// counts returns the connections and the calls on them.
func (l *lanes) counts() (connections, calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range l.list {
		calls += lane.calls
	}
	return len(l.list), calls
}

// Invoke implements grpc.ClientConnInterface.
func (l *lanes) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	conn, release, err := l.acquire()
	if err != nil {
		return wire.Status(err)
	}
	defer release()
	return conn.Invoke(ctx, method, request, reply, options...)
}

// NewStream implements grpc.ClientConnInterface.
func (l *lanes) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	conn, release, err := l.acquire()
	if err != nil {
		return nil, wire.Status(err)
	}
	options = append(slices.Clone(options), grpc.OnFinish(func(error) { release() }))
	return conn.NewStream(ctx, d, method, options...)
}

// close closes all connections. Its calls end.
func (l *lanes) close() error {
	l.mu.Lock()
	l.closed = true
	list := slices.Clone(l.list)
	l.mu.Unlock()
	var problems []error
	for _, lane := range list {
		problems = append(problems, lane.conn.Close())
	}
	return errors.Join(problems...)
}
