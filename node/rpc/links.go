package rpc

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
)

// twinIdle is how long a node's stream must have been silent before another process
// of that node may take its place. Nodes beat many times in it.
const twinIdle = 2 * time.Second

// links are the nodes whose Exchange streams come in, one for each.
type links struct {
	now func() time.Time
	mu  struct {
		sync.Mutex
		byNode map[string]*link
	}
}

// link is the incoming stream of one node.
type link struct {
	caller     handshake.Hello
	heardNs    atomic.Int64
	superseded atomic.Bool
}

func newLinks(now func() time.Time) *links {
	l := &links{now: now}
	l.mu.byNode = map[string]*link{}
	return l
}

// open makes a stream the node's link. The same process' stream before it is given
// up; a living one of another process stays, and the new one is refused: two
// processes with one data folder, or one node id, would spoil the groups. Errors:
// wire.ErrInvalid, wire.ErrTwin.
func (l *links) open(caller handshake.Hello) (*link, error) {
	if caller.Node == "" {
		return nil, fmt.Errorf("%w: only nodes exchange envelopes", wire.ErrInvalid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UnixNano()
	if old := l.mu.byNode[caller.Node]; old != nil {
		if old.caller.Process != caller.Process && now-old.heardNs.Load() < int64(twinIdle) {
			return nil, fmt.Errorf("%w: node %s is here already, with data folder %s", wire.ErrTwin, caller.Node, old.caller.Incarnation)
		}
		old.superseded.Store(true)
	}
	opened := &link{caller: caller}
	opened.heardNs.Store(now)
	l.mu.byNode[caller.Node] = opened
	return opened, nil
}

// close forgets the link, unless a newer one has its place.
func (l *links) close(closed *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.byNode[closed.caller.Node] == closed {
		delete(l.mu.byNode, closed.caller.Node)
	}
}

// heard notes a sign of life. Errors: series.ErrUnavailable when a newer stream has
// its place.
func (l *links) heard(from *link) error {
	if from.superseded.Load() {
		return fmt.Errorf("%w: a newer stream of node %s has taken over", series.ErrUnavailable, from.caller.Node)
	}
	from.heardNs.Store(l.now().UnixNano())
	return nil
}
