package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/series"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// ownerLab is a node whose scans hold what they ask for until they are told to end.
type ownerLab struct {
	t       *testing.T
	client  nodev1.NodeServiceClient
	holding chan string   // databases of scans that hold their memory
	release chan struct{} // closed: scans end
	all     sync.WaitGroup
}

func newOwnerLab(t *testing.T, o Options, self handshake.Hello) *ownerLab {
	l := &ownerLab{t: t, holding: make(chan string, 100), release: make(chan struct{})}
	node := &fakeNode{hello: nodeHello("a")}
	node.scan = func(ctx context.Context, r *ScanRequest, _ ScanSink) error {
		if err := r.Limits.Account.Take(r.Limits.BytesMax); err != nil {
			return err
		}
		l.holding <- r.Selector.Database
		select {
		case <-l.release:
		case <-ctx.Done():
		}
		return nil
	}
	address, _ := serve(t, node, o)
	l.client = dial(t, address, self)
	return l
}

// scan begins a scan of a user, and returns its error when it has ended.
func (l *ownerLab) scan(ctx context.Context, user string, bytes int64) error {
	stream, err := l.client.Scan(handshake.WithOwner(ctx, user), &nodev1.ScanRequest{
		Selector: &tickmeshv1.Selector{Metric: []byte("m"), Database: []byte("shared")}, Shards: []*nodev1.ShardFrom{{Shard: 1}},
		Limits: &tickmeshv1.ScanLimits{BytesMax: bytes},
	})
	if err != nil {
		return err
	}
	_, err = gather(l.t, stream)
	return err
}

// hold begins a scan and waits until it holds its memory.
func (l *ownerLab) hold(user string, bytes int64) error {
	ended := make(chan error, 1)
	l.all.Go(func() { ended <- l.scan(l.t.Context(), user, bytes) })
	select {
	case <-l.holding:
		return nil
	case err := <-ended:
		return fmt.Errorf("%s: not held: %w", user, err)
	case <-time.After(waitBound):
		return fmt.Errorf("%s: waits for memory", user)
	}
}

func (l *ownerLab) end() {
	close(l.release)
	l.all.Wait()
}

// TestScansAreFairToUsers: who has as much memory of scans as one user may have leaves some to another user of the database.
func TestScansAreFairToUsers(t *testing.T) {
	const part = 1 << 20
	l := newOwnerLab(t, Options{ScanBytesMax: 16 * part}, handshake.New("home", identity("c"), "", "", 7))
	defer l.end()
	for range 8 {
		if err := l.hold("greedy", part); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.scan(ctx, "greedy", part); err == nil {
		t.Error("one user has more than half")
	}
	if err := l.hold("modest", 4*part); err != nil {
		t.Error(err)
	}
}

// TestCallsAreFairToUsers: likewise of the calls that run at once.
func TestCallsAreFairToUsers(t *testing.T) {
	l := newOwnerLab(t, Options{RequestCallsMax: 16}, handshake.New("home", identity("c"), "", "", 7))
	defer l.end()
	for range 8 {
		if err := l.hold("greedy", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.scan(t.Context(), "greedy", 1); !errors.Is(err, series.ErrOverloaded) {
		t.Error("one user has more than half:", err)
	}
	if err := l.hold("modest", 1); err != nil {
		t.Error(err)
	}
}

// TestOwnersOfNodes: whom a call is made for is the word of routers: nodes have what they have by their names.
func TestOwnersOfNodes(t *testing.T) {
	l := newOwnerLab(t, Options{RequestCallsMax: 16}, nodeHello("b"))
	defer l.end()
	for i := range 8 {
		if err := l.hold(fmt.Sprint("user", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.scan(t.Context(), "another", 1); !errors.Is(err, series.ErrOverloaded) {
		t.Error("a node has more than half by names of users:", err)
	}
}
