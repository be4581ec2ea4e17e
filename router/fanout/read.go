package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// shardRead is where a read is with one shard.
type shardRead struct {
	shard     uint16
	done      bool
	node      *node     // that is being asked; nil: none
	tries     int       // calls after which it waited
	redirects int       // calls after which another node was asked at once
	due       time.Time // of the next call
	since     time.Time // the first failure since there was progress; zero: none
	err       error     // of the last call

	// Of a scan. A series of which more came than is held is given before it is
	// complete; when its node is lost then, another one's answer goes on behind
	// what was given.
	after   uint32 // the last series given in full
	partial uint32 // the series after it of which something was given; 0: none
	givenTo int64  // time of the last of that
	worker  int    // the visitor that waits for the rest
}

// gather makes calls to nodes until all shards of a read have ended.
type gather struct {
	cluster  *Cluster
	source   *Source
	parallel int // calls to make at least, where there are so many shards
	// ask makes one call for some shards, in growing order, and ends each of them
	// with end. Those that it has not ended when it returns have failed.
	// It waits for the node by await.
	ask func(ctx context.Context, o *group) error

	offset int           // for stale reads: which of the servers is asked first
	wake   chan struct{} // has one element when a call has ended
	mu     struct {
		sync.Mutex
		reads []*shardRead
		left  int // not done
		calls int // under way
		first bool
		err   error // the read fails with it
	}
}

// run reads shards, sorted; nil: all. Its error is the first one that no other call
// mends, or that of ctx.
func (g *gather) run(ctx context.Context, shards []uint16) error {
	processor.Of(ctx).Idle() // others work meanwhile
	v, err := g.cluster.viewNow(ctx)
	if err != nil {
		return err
	}
	if err := g.begin(v, shards); err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer func() {
		cancel()
		calls.Wait()
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		groups, next, ended := g.plan(g.cluster.current.Load(), now)
		if ended {
			break
		}
		for _, group := range groups {
			calls.Go(func() { g.call(inner, group) })
		}
		timer.Reset(next.Sub(now))
		select {
		case <-g.wake:
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	cancel()
	calls.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return g.mu.err
}

func (g *gather) begin(v *view, shards []uint16) error {
	g.wake = make(chan struct{}, 1)
	g.offset = rand.IntN(1 << 16)
	g.mu.first = true
	if shards == nil {
		shards = make([]uint16, len(v.rows))
		for i := range shards {
			shards[i] = uint16(i)
		}
	}
	for _, shard := range shards {
		if int(shard) >= len(v.rows) {
			return fmt.Errorf("%w: shard %d of %d", wire.ErrInvalid, shard, len(v.rows))
		}
		if !g.source.misses(shard) {
			g.mu.reads = append(g.mu.reads, &shardRead{shard: shard})
		}
	}
	g.mu.left = len(g.mu.reads)
	return nil
}

// group is a call: a node and the shards that it is asked for, in growing order.
type group struct {
	node  *node
	reads []*shardRead
	ended map[uint16]bool // the call has nothing to do with them any more

	watchdog *callWatchdog // of the call
}

func newGroup(n *node, reads ...*shardRead) *group {
	return &group{node: n, reads: reads, ended: make(map[uint16]bool, len(reads))}
}

func (o *group) shards() []uint16 {
	shards := make([]uint16, len(o.reads))
	for i, r := range o.reads {
		shards[i] = r.shard
	}
	return shards
}

// find returns the shard that a part of the answer belongs to.
func (o *group) find(shard uint32) (*shardRead, error) {
	at, found := slices.BinarySearchFunc(o.reads, shard, func(r *shardRead, shard uint32) int { return cmp.Compare(uint32(r.shard), shard) })
	if !found || o.ended[o.reads[at].shard] {
		return nil, fmt.Errorf("%w: an answer for shard %d, which was not asked for or has ended", wire.ErrInternal, shard)
	}
	return o.reads[at], nil
}

// findEnd returns the shard that an end belongs to, and the error that it ends with.
func (o *group) findEnd(e *nodev1.ShardEnd) (r *shardRead, shardErr, err error) {
	_, shardErr, err = wire.ToShardEnd(e)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", wire.ErrInternal, err)
	}
	r, err = o.find(e.GetShard())
	return r, shardErr, err
}

// plan returns the calls to make now, the time at which there may be others, and
// whether the read has ended.
func (g *gather) plan(v *view, now time.Time) (groups []*group, next time.Time, ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.left == 0 || g.mu.err != nil {
		return nil, now, true
	}
	next = now.Add(time.Minute)
	var urgent []*group // others may wait for the visitors that wait for these
	for _, r := range g.mu.reads {
		switch {
		case r.done || r.node != nil:
		case r.due.After(now):
			if r.due.Before(next) {
				next = r.due
			}
		default:
			n := g.serverOf(v, r)
			if n == nil {
				g.againLocked(r, fmt.Errorf("%w: no node is known for shard %d", series.ErrUnavailable, r.shard), now)
				if r.due.Before(next) {
					next = r.due
				}
				continue
			}
			if r.partial != 0 {
				urgent = append(urgent, newGroup(n, r))
				continue
			}
			i := slices.IndexFunc(groups, func(o *group) bool { return o.node == n && g.source.partOf(o) == g.source.partOfShard(r.shard) })
			if i < 0 {
				groups, i = append(groups, newGroup(n)), len(groups)
			}
			groups[i].reads = append(groups[i].reads, r)
		}
	}
	if g.mu.first {
		groups, g.mu.first = spread(groups, g.parallel), false
	}
	if room := max(0, g.cluster.options.Limits.ReadCallsMax-g.mu.calls); len(groups) > room {
		groups = groups[:room] // the others are found again when a call has ended
	}
	groups = append(groups, urgent...)
	for _, group := range groups {
		g.mu.calls++
		for _, r := range group.reads {
			r.node = group.node
		}
	}
	return groups, next, g.mu.left == 0 || g.mu.err != nil
}

// spread splits groups so that there are about so many.
func spread(groups []*group, parallel int) (more []*group) {
	if len(groups) == 0 || parallel <= len(groups) {
		return groups
	}
	each := (parallel + len(groups) - 1) / len(groups)
	for _, o := range groups {
		size := max(1, (len(o.reads)+each-1)/each)
		for reads := range slices.Chunk(o.reads, size) {
			more = append(more, newGroup(o.node, reads...))
		}
	}
	return more
}

func (g *gather) serverOf(v *view, r *shardRead) *node {
	if p := g.source.partOfShard(r.shard); p != nil {
		return v.holder(p)
	}
	if g.source.fromLeaders() {
		return g.cluster.serverOf(v, r.shard)
	}
	var servers []*node
	v.servers(r.shard, func(n *node) bool {
		servers = append(servers, n)
		return true
	})
	if len(servers) == 0 {
		return nil
	}
	return servers[(g.offset+r.tries+r.redirects)%len(servers)]
}

// call makes one call and sees to the shards that it has not ended.
func (g *gather) call(ctx context.Context, o *group) {
	g.cluster.metrics.calls.Inc()
	var led []uint16 // that another node may come to lead, which ends the call
	if g.source.parts == nil {
		led = o.shards()
	}
	watched, p, done := g.cluster.watch(ctx, o.node, led...)
	o.watchdog = p
	err := g.ask(watched, o)
	done()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil && ctx.Err() == nil {
		g.cluster.metrics.callsLost.Inc()
		if passes(err) {
			g.cluster.options.Logger.Debug("a call to a node has failed; its shards are asked for again", "node", o.node.id, "error", err)
		}
	}
	if err == nil {
		err = fmt.Errorf("%w: node %s has left the answer incomplete", series.ErrUnavailable, o.node.id)
	}
	for _, r := range o.reads {
		if !o.ended[r.shard] {
			g.end(o, r, err)
		}
	}
	g.mu.Lock()
	g.mu.calls--
	g.mu.Unlock()
	g.signal()
}

func (g *gather) signal() {
	select {
	case g.wake <- struct{}{}:
	default: // it was said already
	}
}

// leave notes that a node, which does not know the call, has nothing of a shard. It does not say that it leads the shard.
func (g *gather) leave(o *group, r *shardRead) {
	o.ended[r.shard] = true
	g.mu.Lock()
	defer g.mu.Unlock()
	r.node, r.done = nil, true
	g.mu.left--
}

// end notes the end of a call's answer for a shard; nil: it is complete.
func (g *gather) end(o *group, r *shardRead, err error) {
	n := o.node
	o.ended[r.shard] = true
	g.mu.Lock()
	defer g.mu.Unlock()
	r.node = nil
	if err == nil {
		r.done = true
		g.mu.left--
		if g.source.fromLeaders() {
			g.cluster.leads(r.shard, n)
		}
		return
	}
	now, v := time.Now(), g.cluster.current.Load()
	var notLeader *wire.NotLeaderError
	switch {
	case g.source.parts != nil && errors.Is(err, wire.ErrWrongNode):
		g.failLocked(fmt.Errorf("%w: %v", errSnapshotEnded, err)) // of one kind: callers repeat what the cause stands for
	case errors.As(err, &notLeader):
		if g.cluster.pointed(v, r.shard, n, notLeader.Leader) && r.redirects < redirectsMax {
			r.err, r.due = err, now
			r.redirects++
			return
		}
		if notLeader.Leader != n.id {
			g.cluster.passOver(v, r.shard, n)
		}
		g.againLocked(r, err, now)
	case passes(err):
		if errors.Is(err, series.ErrUnavailable) {
			g.cluster.doubt(n, r.shard)
		}
		if g.source.fromLeaders() && !errors.Is(err, series.ErrOverloaded) {
			g.cluster.passOver(v, r.shard, n)
		}
		if g.source.parts != nil && g.cluster.lost(n, r, now) {
			g.failLocked(fmt.Errorf("%w: the node that holds shard %d does not answer, and another one leads it: %v", errSnapshotEnded, r.shard, err))
			return
		}
		g.againLocked(r, err, now)
	default:
		g.failLocked(err)
	}
}

// againLocked has a shard asked for again, unless nobody has answered for too long.
func (g *gather) againLocked(r *shardRead, err error, now time.Time) {
	g.cluster.metrics.shardsAgain.Inc()
	if r.since.IsZero() {
		r.since = now
	}
	r.tries++
	r.err, r.due = err, now.Add(g.cluster.options.Limits.backoff().Delay(r.tries))
	if now.Sub(r.since) < g.cluster.options.Limits.ReadTimeout {
		return
	}
	if g.source.parts != nil {
		g.failLocked(fmt.Errorf("%w: the node that holds shard %d has not answered in %v: %v", errSnapshotEnded, r.shard, g.cluster.options.Limits.ReadTimeout, err))
		return
	}
	err = fmt.Errorf("%w: nobody has answered for shard %d in %v: %w", series.ErrUnavailable, r.shard, g.cluster.options.Limits.ReadTimeout, err)
	if !g.source.options.Partial || r.partial != 0 {
		g.failLocked(err)
		return
	}
	g.cluster.metrics.missing.Inc()
	g.cluster.options.Logger.Warn("an answer is partial", "shard", r.shard, "error", err)
	g.source.miss(r.shard)
	r.done = true
	g.mu.left--
}

// progressed notes that a shard's answer has brought something.
func (g *gather) progressed(r *shardRead) {
	g.mu.Lock()
	r.since, r.tries, r.redirects = time.Time{}, 0, 0
	g.mu.Unlock()
}

func (g *gather) failLocked(err error) {
	if g.mu.err == nil {
		g.mu.err = err
	}
}

// failed returns the error that the read fails with; nil: none yet.
func (g *gather) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.err
}

// fail ends the read.
func (g *gather) fail(err error) {
	g.mu.Lock()
	g.failLocked(err)
	g.mu.Unlock()
	g.signal()
}
