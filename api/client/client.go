package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/transport"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// apiLevel is the level of the API that this package is built for; see
// proto/README.md.
const apiLevel = 2

// levelHours is the level of the API with hours and their rollups.
const levelHours = 2

// Client is a connection to a cluster. All methods may be called from many
// goroutines.
type Client struct {
	options   Options
	endpoints []*endpoint
	window    *window // of Client.Write

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu struct {
		sync.Mutex
		next int // the endpoint to begin with
	}
}

// New makes a Client. It connects when something is asked. Errors: ErrOptions.
func New(o Options) (*Client, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &Client{options: o, window: newWindow()}
	for _, address := range o.Endpoints {
		conn, err := grpc.NewClient(address, append(transport.ClientDialOptions(o.Credentials), o.dialOptions()...)...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: endpoint %q: %w", ErrOptions, address, err), c.closeConnections())
		}
		c.endpoints = append(c.endpoints, &endpoint{address: address, conn: conn})
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.mu.next = rand.IntN(len(c.endpoints))
	return c, nil
}

// Close ends calls that run and closes the connections. Close writers before.
func (c *Client) Close() error {
	c.cancel()
	return c.closeConnections()
}

func (c *Client) closeConnections() error {
	var problems []error
	for _, e := range c.endpoints {
		problems = append(problems, e.conn.Close())
	}
	return errors.Join(problems...)
}

// endpoint is one router.
type endpoint struct {
	address string
	conn    *grpc.ClientConn

	mu struct {
		sync.Mutex
		failures int       // without a success between
		restsTo  time.Time // it is left alone until then
		info     *tickmeshv1.GetServerInfoResponse
	}
}

// pick returns the endpoint for the next call: in turn, one that rests only when all
// do, and then the one that rests the shortest.
func (c *Client) pick() *endpoint {
	c.mu.Lock()
	first := c.mu.next
	c.mu.next = (first + 1) % len(c.endpoints)
	c.mu.Unlock()
	var best *endpoint
	var bestRest time.Time
	now := time.Now()
	for i := range c.endpoints {
		e := c.endpoints[(first+i)%len(c.endpoints)]
		e.mu.Lock()
		rest := e.mu.restsTo
		e.mu.Unlock()
		if !rest.After(now) {
			return e
		}
		if best == nil || rest.Before(bestRest) {
			best, bestRest = e, rest
		}
	}
	return best
}

// Bounds of how long an endpoint that fails is left alone.
const (
	restMin = 100 * time.Millisecond
	restMax = 5 * time.Second
)

// told notes how a call ended. A server that answers, even with an error of ours, is
// well, unless it cannot reach its nodes.
func (e *endpoint) told(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !errors.Is(err, ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		e.mu.failures, e.mu.restsTo = 0, time.Time{}
		return
	}
	rest := min(restMin<<min(e.mu.failures, 10), restMax)
	e.mu.failures++
	e.mu.restsTo = time.Now().Add(rest)
}

// serverInfo returns what the server can do; it is asked once. Errors: ErrVersion where
// the server does not serve this client.
func (e *endpoint) serverInfo(ctx context.Context, name string) (*tickmeshv1.GetServerInfoResponse, error) {
	e.mu.Lock()
	info := e.mu.info
	e.mu.Unlock()
	if info != nil {
		return info, nil
	}
	info, err := tickmeshv1.NewClusterServiceClient(e.conn).GetServerInfo(ctx, &tickmeshv1.GetServerInfoRequest{Client: name, ApiLevel: apiLevel})
	if err != nil {
		return nil, errorOf(err)
	}
	e.mu.Lock()
	e.mu.info = info
	e.mu.Unlock()
	return info, nil
}

// needLevel returns an error unless the server has a level of the API. Errors: ErrVersion.
func (e *endpoint) needLevel(ctx context.Context, name string, level uint32) error {
	info, err := e.serverInfo(ctx, name)
	if err == nil && info.GetApiLevel() < level {
		err = fmt.Errorf("%w: %s is of an older version, which knows no rollups of hours", ErrVersion, e.address)
	}
	return err
}

// withClose returns a context that also ends with the client.
func (c *Client) withClose(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// call makes attempts, each with another endpoint, until one succeeds, one fails in a
// way that stays, or the context ends. Each attempt has attemptTimeout; 0: none.
func (c *Client) call(ctx context.Context, attemptTimeout time.Duration, attempt func(context.Context, *endpoint) error) error {
	ctx, cancel := c.withClose(ctx)
	defer cancel()
	delays := c.newDelays()
	for {
		e := c.pick()
		err := bounded(ctx, attemptTimeout, func(ctx context.Context) error {
			if _, err := e.serverInfo(ctx, c.options.Name); err != nil {
				return err
			}
			return attempt(ctx, e)
		})
		if cause := context.Cause(ctx); cause != nil && err != nil {
			delays.failed(err)
			return delays.ended(cause)
		}
		e.told(err)
		if err == nil || !mayPass(err) {
			return err
		}
		if err := delays.wait(ctx, err); err != nil {
			return err
		}
	}
}

// bounded runs f with a timeout; 0: none.
func bounded(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return f(ctx)
}

// callOnce is call for what answers at once: within CallTimeout where the context has
// no deadline.
func (c *Client) callOnce(ctx context.Context, attempt func(context.Context, *endpoint) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.CallTimeout)
		defer cancel()
	}
	return c.call(ctx, c.options.AttemptTimeout, attempt)
}

// Reach waits until a server has said who it is. What streams goes on trying as long as its
// context lasts; this tells sooner that nobody is there. It ends within CallTimeout where the
// context has no deadline. Errors: the kinds of this package, or the context's.
func (c *Client) Reach(ctx context.Context) error {
	return c.callOnce(ctx, func(context.Context, *endpoint) error { return nil })
}
