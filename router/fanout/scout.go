package fanout

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// scout finds out who leads the shards of a node that says nothing, while calls wait
// for it. It asks the node whether it is there, and when there is no answer all others
// who leads: of a process that was stopped, others have taken the lead within an
// election timeout. When the others say that the silent node still leads, and so only
// this router cannot reach it, a full voter that is up to date is asked to have the
// lead handed over to it. What a scout learns are guesses of who leads: wrong ones cost
// time, never correctness.
type scout struct {
	silent atomic.Bool // the node did not answer when it was asked last

	mu struct {
		sync.Mutex
		wanted  map[uint16]time.Time // by shard: when a call said last that it waits
		running bool
		calm    time.Time // until then the node counts as there: it has just answered
		closed  bool
	}
}

const (
	scoutPause = 50 * time.Millisecond // between two questions to one node, and two looks at what was learnt
	// wantedFor is how long a shard is looked after since a call said that it waits.
	wantedFor = time.Second
	// takeOverAfter is how long a leader has to be silent before another is asked for:
	// longer than an election takes.
	takeOverAfter = time.Second
	// takeOverPause is the time between two requests for one shard. A leader that has
	// taken over itself refuses for 10 s.
	takeOverPause = 3 * time.Second
)

// close ends it. The node's life has ended.
func (s *scout) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
}

// wants says whether a shard is waited for.
func (s *scout) wants(shard uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.mu.wanted[shard]
	return ok && time.Since(at) < wantedFor
}

// wantsAny says whether any shard is, and forgets the others.
func (s *scout) wantsAny() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for shard, at := range s.mu.wanted {
		if time.Since(at) >= wantedFor {
			delete(s.mu.wanted, shard)
		}
	}
	return len(s.mu.wanted) > 0
}

// doubt says that calls wait for a node, for some shards, longer than they should. It
// does not block.
func (c *Cluster) doubt(n *node, shards ...uint16) {
	s := &n.scout
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.mu.closed || len(shards) == 0 || now.Before(s.mu.calm) {
		return
	}
	if s.mu.wanted == nil {
		s.mu.wanted = map[uint16]time.Time{}
	}
	for _, shard := range shards {
		s.mu.wanted[shard] = now
	}
	if !s.mu.running {
		s.mu.running = true
		n.run.Go(func() { c.scout(n) })
	}
}

// moved says whether a silent node is not taken for the leader of one of the shards any
// more.
func (c *Cluster) moved(n *node, shards ...uint16) bool {
	if !n.scout.silent.Load() {
		return false
	}
	for _, shard := range shards {
		if guess := c.leaders[shard].Load(); guess != nil && *guess != n.id {
			return true
		}
	}
	return false
}

func (c *Cluster) scout(n *node) {
	s := &n.scout
	defer func() {
		s.silent.Store(false)
		s.mu.Lock()
		s.mu.running, s.mu.calm = false, time.Now().Add(c.options.Limits.Patience)
		s.mu.Unlock()
	}()
	since := time.Now()
	if n.hello(n.life, c, n.presence.patience(&c.options.Limits, since)) {
		return
	}
	s.silent.Store(true)
	c.metrics.scouts.Inc()
	ctx, cancel := context.WithCancel(n.life)
	var others sync.WaitGroup
	for id, other := range c.current.Load().nodes {
		if id != n.id {
			others.Go(func() { c.scoutVia(ctx, n, other, since) })
		}
	}
	for s.wantsAny() && !n.hello(ctx, c, n.presence.allowed(time.Now())) && pause(ctx, scoutPause) {
	}
	cancel()
	others.Wait()
}

// patienceWith gives how long a node may say nothing before it is looked at.
func (c *Cluster) patienceWith(n *node) time.Duration {
	if n.scout.silent.Load() {
		return min(scoutPause, c.options.Limits.Patience)
	}
	return n.presence.patience(&c.options.Limits, time.Now())
}

// scoutVia asks another node, again and again, about the shards that calls wait for. One
// that is busy is given longer, and is left alone for as long as it took.
func (c *Cluster) scoutVia(ctx context.Context, silent, via *node, since time.Time) {
	for ctx.Err() == nil {
		limit, start := via.reports.Allowed(), time.Now()
		asked, cancel := context.WithTimeout(ctx, limit)
		report, err := via.client.Report(asked, &nodev1.ReportRequest{WithoutMap: true})
		took := time.Since(start)
		if err != nil && asked.Err() != nil && ctx.Err() == nil {
			via.reports.Expired(limit)
		}
		cancel()
		if err == nil {
			via.reports.Took(took)
			for _, g := range report.GetGroups() {
				c.heard(ctx, silent, via, g, since)
			}
		}
		pause(ctx, max(scoutPause, took))
	}
}

// heard takes what a node says of a shard.
func (c *Cluster) heard(ctx context.Context, silent, via *node, g *nodev1.GroupReport, since time.Time) {
	if g.GetShard() >= shardmap.ShardsMax || !silent.scout.wants(uint16(g.GetShard())) {
		return
	}
	shard := uint16(g.GetShard())
	switch {
	case g.GetLeads():
		if c.terms[shard].raise(g.GetEra(), g.GetTerm()) {
			c.leads(shard, via)
		}
	case g.GetLeader() == silent.id && g.GetRole() == tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL && g.GetAppliedIndex() >= g.GetCommitIndex() &&
		time.Since(since) >= takeOverAfter && c.terms[shard].mayAsk():
		c.metrics.takeOvers.Inc()
		c.options.Logger.Warn("this router does not reach the leader of a shard; another node is asked to take over",
			"shard", shard, "leader", silent.id, "node", via.id)
		ctx, cancel := context.WithTimeout(ctx, c.options.Limits.ProbeTimeout)
		defer cancel()
		_, err := via.client.TransferLeader(ctx, &nodev1.TransferLeaderRequest{Shard: uint32(shard), ToNode: via.id})
		if err != nil {
			c.options.Logger.Debug("a node does not take over", "shard", shard, "node", via.id, "error", err)
		}
	}
}

// shardTerm is what scouts know of a shard.
type shardTerm struct {
	mu    sync.Mutex
	era   uint32    // guarded by mu: the greatest in which a node said that it leads
	term  uint64    // guarded by mu: the greatest of that era
	asked time.Time // guarded by mu: when another leader was asked for last
}

// raise notes the era and term of a leader, and says whether none is known of a later one:
// two nodes may both say that they lead. A shard that goes on in a new era may do so from
// a replica that has missed terms.
func (t *shardTerm) raise(era uint32, term uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if era < t.era || era == t.era && term < t.term {
		return false
	}
	t.era, t.term = era, term
	return true
}

// mayAsk says, once in a takeOverPause, that another leader may be asked for.
func (t *shardTerm) mayAsk() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked.IsZero() && time.Since(t.asked) < takeOverPause {
		return false
	}
	t.asked = time.Now()
	return true
}

// pause gives false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
