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

// leaderProbe finds out who leads the shards of a silent node while calls wait for it. It
// probes the node and, if that is not answered, asks all other nodes who leads: when a
// process was stopped, others have taken over within an election timeout. If the others
// say that the silent node still leads, then only this router cannot reach it, and an
// up-to-date full voter is asked to take the lead over. What a probe learns are guesses of
// who leads: wrong ones cost time, never correctness.
type leaderProbe struct {
	silent atomic.Bool // the node did not answer the last probe

	mu struct {
		sync.Mutex
		wanted  map[uint16]time.Time // by shard: when a call last said that it waits
		running bool
		calm    time.Time // the node has just answered and is not probed before
		closed  bool
	}
}

const (
	leaderProbePause = 50 * time.Millisecond // between two questions to one node, and two looks at the answers
	// wantedFor is how long a shard is probed for after a call said that it waits.
	wantedFor = time.Second
	// takeOverAfter is how long a leader must be silent before another node is asked to
	// take over: longer than an election takes.
	takeOverAfter = time.Second
	// takeOverPause is the time between two requests for one shard. A leader that has
	// taken over itself refuses for 10 s.
	takeOverPause = 3 * time.Second
)

// close ends the probing for good.
func (p *leaderProbe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.closed = true
}

// wants reports whether a call waits for a shard.
func (p *leaderProbe) wants(shard uint16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.mu.wanted[shard]
	return ok && time.Since(at) < wantedFor
}

// wantsAny reports whether a call waits for any shard, and forgets expired ones.
func (p *leaderProbe) wantsAny() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard, at := range p.mu.wanted {
		if time.Since(at) >= wantedFor {
			delete(p.mu.wanted, shard)
		}
	}
	return len(p.mu.wanted) > 0
}

// doubt starts probing for the leaders of shards, because calls wait for n longer than
// they should. It does not block.
func (c *Cluster) doubt(n *node, shards ...uint16) {
	s := &n.leaders
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
		n.run.Go(func() { c.probeLeaders(n) })
	}
}

// moved reports whether n is silent and no longer believed to lead one of the shards.
func (c *Cluster) moved(n *node, shards ...uint16) bool {
	if !n.leaders.silent.Load() {
		return false
	}
	for _, shard := range shards {
		if guess := c.leaders[shard].Load(); guess != nil && *guess != n.id {
			return true
		}
	}
	return false
}

func (c *Cluster) probeLeaders(n *node) {
	s := &n.leaders
	defer func() {
		s.silent.Store(false)
		s.mu.Lock()
		s.mu.running, s.mu.calm = false, time.Now().Add(c.options.Limits.ProbeAfter)
		s.mu.Unlock()
	}()
	since := time.Now()
	if n.hello(n.life, c, n.presence.probeAfter(&c.options.Limits, since)) {
		return
	}
	s.silent.Store(true)
	c.metrics.leaderProbes.Inc()
	ctx, cancel := context.WithCancel(n.life)
	var others sync.WaitGroup
	for id, other := range c.current.Load().nodes {
		if id != n.id {
			others.Go(func() { c.probeVia(ctx, n, other, since) })
		}
	}
	for s.wantsAny() && !n.hello(ctx, c, n.presence.allowed(time.Now())) && pause(ctx, leaderProbePause) {
	}
	cancel()
	others.Wait()
}

// probeAfter returns how long a node may be silent before it is probed.
func (c *Cluster) probeAfter(n *node) time.Duration {
	if n.leaders.silent.Load() {
		return min(leaderProbePause, c.options.Limits.ProbeAfter)
	}
	return n.presence.probeAfter(&c.options.Limits, time.Now())
}

// probeVia asks another node, again and again, about the shards that calls wait for. A
// busy node is given longer, and is left alone for as long as it took to answer.
func (c *Cluster) probeVia(ctx context.Context, silent, via *node, since time.Time) {
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
				c.heard(ctx, silent, via, g, report.GetRefusal() == "", since)
			}
		}
		pause(ctx, max(leaderProbePause, took))
	}
}

// heard handles the report of the node via about a shard. One that takes no writes is not asked to take over: it would refuse, and
// another one that serves would not be asked for a takeOverPause.
func (c *Cluster) heard(ctx context.Context, silent, via *node, g *nodev1.GroupReport, takesWrites bool, since time.Time) {
	if g.GetShard() >= shardmap.ShardsMax || !silent.leaders.wants(uint16(g.GetShard())) {
		return
	}
	shard := uint16(g.GetShard())
	switch {
	case g.GetLeads():
		if c.terms[shard].raise(g.GetEra(), g.GetTerm()) {
			c.leads(shard, via)
		}
	case takesWrites && g.GetLeader() == silent.id && g.GetRole() == tickmeshv1.ReplicaRole_REPLICA_ROLE_FULL && g.GetAppliedIndex() >= g.GetCommitIndex() &&
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

// shardTerm is what is known of a shard's leadership.
type shardTerm struct {
	mu    sync.Mutex
	era   uint32    // guarded by mu: the greatest in which a node said that it leads
	term  uint64    // guarded by mu: the greatest of that era
	asked time.Time // guarded by mu: when another leader was asked for last
}

// raise records the era and term of a leader, and reports whether no later one is known:
// two nodes may both claim to lead. A shard that resumes in a new era may do so from a
// replica that has missed terms.
func (t *shardTerm) raise(era uint32, term uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if era < t.era || era == t.era && term < t.term {
		return false
	}
	t.era, t.term = era, term
	return true
}

// mayAsk reports whether another node may be asked to take over: true at most once in a
// takeOverPause.
func (t *shardTerm) mayAsk() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked.IsZero() && time.Since(t.asked) < takeOverPause {
		return false
	}
	t.asked = time.Now()
	return true
}

// pause waits for d, and reports whether ctx has not ended.
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
