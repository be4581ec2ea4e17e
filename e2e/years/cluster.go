package years

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// machine has a disk through all ends of its process.
type machine struct {
	name string
	disk Disk
	*process
}

// process is one life of a machine's node.
type process struct {
	node *node.Node
	life *atomic.Bool // false: nothing of it is heard any more
}

// cluster is nodes of one process, each with a copy of every shard, whose envelopes and files travel by function calls. Elections and
// heartbeats go by the real clock, all that goes by dates by the virtual one. It asks and writes as a router does: each shard at
// its leader, which confirms that it leads.
type cluster struct {
	clock    *Clock
	machines []*machine

	mu struct {
		sync.Mutex
		running map[string]*process
		leaders map[uint16]*process // as they were last found
		m       *shardmap.Map
	}
}

func newCluster(clock *Clock, machines []*machine) *cluster {
	c := &cluster{clock: clock, machines: machines}
	c.mu.running, c.mu.leaders = map[string]*process{}, map[uint16]*process{}
	return c
}

// confirmMax bounds one question to a node whether it leads; leaderRest is between two rounds of these.
const confirmMax, leaderRest = 2 * time.Second, 5 * time.Millisecond

var errOutOfReach = errors.New("the node cannot be reached")

// join is told of a process that has started.
func (c *cluster) join(m *machine) error {
	c.mu.Lock()
	c.mu.running[m.name] = m.process
	present := c.mu.m
	c.mu.Unlock()
	if present == nil {
		return nil
	}
	if err := m.node.AdoptMap(present); err != nil {
		return fmt.Errorf("%s adopts the map: %w", m.name, err)
	}
	return nil
}

// leave is told of a process that ends.
func (c *cluster) leave(m *machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.running, m.name)
}

// create places a copy of each shard on each node, and returns when all have leaders.
func (c *cluster) create(shards int) error {
	var members []shardmap.Member
	for i, m := range c.machines {
		members = append(members, shardmap.Member{Node: m.name, Incarnation: m.node.Incarnation(), RaftID: uint64(i + 1), Role: shardmap.Full})
	}
	m := &shardmap.Map{Format: shardmap.Format, Cluster: "years", ID: c.machines[0].node.Incarnation(), Epoch: 1,
		Settings: shardmap.Settings{Shards: shards, Replication: len(members)}}
	for range shards {
		m.Rows = append(m.Rows, shardmap.Row{Version: 1, RaftIDLast: uint64(len(members)), Era: 1, Fresh: true, Members: members})
	}
	if err := c.adopt(m); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	for shard := range shards {
		leader, err := c.leader(ctx, uint16(shard))
		if err != nil {
			return err
		}
		for _, config := range leader.node.Unpublished(ctx) {
			if row, changed := m.Rows[config.Shard].Published(config.Config); changed {
				next := m.WithRow(config.Shard, row)
				m = &next
			}
		}
	}
	return c.adopt(m)
}

func (c *cluster) adopt(m *shardmap.Map) error {
	c.mu.Lock()
	c.mu.m = m
	c.mu.Unlock()
	for _, machine := range c.machines {
		if err := machine.node.AdoptMap(m); err != nil {
			return fmt.Errorf("%s adopts the map: %w", machine.name, err)
		}
	}
	return nil
}

// reach returns the process of a node; nil: none runs.
func (c *cluster) reach(name string) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.running[name]
}

// leader returns who leads a shard, which it has just confirmed.
func (c *cluster) leader(ctx context.Context, shard uint16) (*process, error) {
	for {
		for _, p := range c.candidates(shard) {
			if !p.life.Load() || !c.confirms(ctx, p, shard) {
				continue
			}
			c.mu.Lock()
			c.mu.leaders[shard] = p
			c.mu.Unlock()
			return p, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("nobody leads shard %d: %w", shard, ctx.Err())
		case <-time.After(leaderRest):
		}
	}
}

// candidates returns the processes that run, first of them the one that led last.
func (c *cluster) candidates(shard uint16) (all []*process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.mu.leaders[shard]; last != nil {
		all = append(all, last)
	}
	for _, m := range c.machines {
		if p := c.mu.running[m.name]; p != nil && p != c.mu.leaders[shard] {
			all = append(all, p)
		}
	}
	return all
}

func (c *cluster) confirms(ctx context.Context, m *process, shard uint16) bool {
	ctx, cancel := context.WithTimeout(ctx, confirmMax)
	defer cancel()
	return m.node.Confirm(ctx, []uint16{shard}, 0)[0] == nil
}

// ofLeaders calls a function for each of a selector's shards with its leader.
func (c *cluster) ofLeaders(ctx context.Context, selector *scan.Selector, do func(n *node.Node, of *scan.Selector) error) error {
	for shard := range uint16(c.Sharding().Shards) {
		m, err := c.leader(ctx, shard)
		if err != nil {
			return err
		}
		of := *selector
		of.Shards = []uint16{shard}
		if err := do(m.node, &of); err != nil {
			return err
		}
	}
	return nil
}

// Sharding implements Store.
func (c *cluster) Sharding() series.Sharding { return c.machines[0].node.Sharding() }

// Scan implements Store.
func (c *cluster) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	return c.ofLeaders(ctx, &request.Selector, func(n *node.Node, of *scan.Selector) error {
		r := *request
		r.Selector = *of
		return n.Scan(ctx, &r, visit)
	})
}

// Last implements Store.
func (c *cluster) Last(ctx context.Context, selector *scan.Selector, fromMs int64, limits scan.Limits, visit func(scan.Point) error) error {
	return c.ofLeaders(ctx, selector, func(n *node.Node, of *scan.Selector) error { return n.Last(ctx, of, fromMs, limits, visit) })
}

// SeriesBetween implements Store.
func (c *cluster) SeriesBetween(ctx context.Context, selector *scan.Selector, fromMs, toMs int64, limit int, visit func(series.Key) error) (total int64, err error) {
	err = c.ofLeaders(ctx, selector, func(n *node.Node, of *scan.Selector) error {
		count, err := n.SeriesBetween(ctx, of, fromMs, toMs, limit, visit)
		total += count
		return err
	})
	return total, err
}

// DigestRange implements Store.
func (c *cluster) DigestRange(ctx context.Context, shard uint16, fromMs, toMs int64) (transfer.RangeDigest, error) {
	m, err := c.leader(ctx, shard)
	if err != nil {
		return transfer.RangeDigest{}, err
	}
	return m.node.Repair().DigestRange(ctx, shard, fromMs, toMs)
}

// ResolveIn implements Store. Where nobody is found that leads, nothing is known.
func (c *cluster) ResolveIn(shard uint16, keys []series.Key, refs []series.Ref) (era uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	m, err := c.leader(ctx, shard)
	if err != nil {
		return 0
	}
	era = m.node.Era(shard) // before the ids are learnt
	m.node.Resolve(series.HintNone, keys, refs)
	return era
}

// WriteFrame implements Store: each part is sent until a leader has it, by the same id.
func (c *cluster) WriteFrame(ctx context.Context, frame *series.Frame) error {
	errs := make([]error, len(frame.Parts))
	var parts sync.WaitGroup
	for i := range frame.Parts {
		part := *frame
		part.Parts = frame.Parts[i : i+1]
		parts.Go(func() { errs[i] = c.writePart(ctx, &part) })
	}
	parts.Wait()
	return errors.Join(errs...)
}

func (c *cluster) writePart(ctx context.Context, part *series.Frame) error {
	for {
		m, err := c.leader(ctx, part.Parts[0].Shard)
		if err != nil {
			return err
		}
		_, err = m.node.Write(ctx, part)
		// What a process says whose disk was lost meanwhile is not heard.
		if m.life.Load() && !errors.Is(err, series.ErrUnavailable) && !errors.Is(err, series.ErrOverloaded) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(leaderRest)
	}
}

// Delete implements Store.
func (c *cluster) Delete(ctx context.Context, selector *scan.Selector, fromMs, toMs int64) (touched int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err = c.ofLeaders(ctx, selector, func(n *node.Node, of *scan.Selector) error {
		for {
			count, err := n.Delete(ctx, of, fromMs, toMs)
			touched += count
			if !errors.Is(err, series.ErrUnavailable) && !errors.Is(err, series.ErrOverloaded) {
				return err
			}
			m, err := c.leader(ctx, of.Shards[0])
			if err != nil {
				return err
			}
			n = m.node
		}
	})
	return touched, err
}

// awaitCopies waits until each node has applied all that leaders have.
func (c *cluster) awaitCopies() error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	for shard := range uint16(c.Sharding().Shards) {
		leader, err := c.leader(ctx, shard)
		if err != nil {
			return err
		}
		for _, m := range c.machines {
			for m.node.Applied(shard) < leader.node.Applied(shard) {
				if ctx.Err() != nil {
					return fmt.Errorf("%w: %s stays behind in shard %d", ErrWrong, m.name, shard)
				}
				time.Sleep(leaderRest)
			}
		}
	}
	return nil
}

// link is what one process sees of the others.
type link struct {
	c    *cluster
	self string
	life *atomic.Bool
}

func (l link) Send(to string, envelope []byte) {
	m := l.c.reach(to)
	if m == nil || !l.life.Load() {
		return
	}
	m.node.Receive(l.self, bytes.Clone(envelope))
	m.node.HeardClock(l.self, l.c.clock.NowMs())
	if self := l.c.reach(l.self); self != nil {
		m.node.HeardEntries(l.self, self.node.Entries())
	}
}

func (l link) QueueBytes() int64 { return 0 }

func (l link) Fetch(_ context.Context, from string, shard uint16) (io.ReadCloser, error) {
	m := l.c.reach(from)
	if m == nil {
		return nil, errOutOfReach
	}
	files, err := m.node.Transfer().Open(shard)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{files.OpenAt(0), files}, nil
}

func (l link) Group(_ context.Context, name string, shard uint16) (commit.GroupView, error) {
	m := l.c.reach(name)
	if m == nil {
		return commit.GroupView{}, errOutOfReach
	}
	return m.node.GroupView(shard)
}

func (l link) Digest(ctx context.Context, name string, shard uint16, fromMs, toMs int64) (transfer.RangeDigest, error) {
	m := l.c.reach(name)
	if m == nil {
		return transfer.RangeDigest{}, errOutOfReach
	}
	return m.node.Repair().DigestRange(ctx, shard, fromMs, toMs)
}

func (l link) OpenRange(ctx context.Context, name string, shard uint16, fromMs, toMs int64, indexMin uint64) (io.ReadCloser, error) {
	m := l.c.reach(name)
	if m == nil {
		return nil, errOutOfReach
	}
	var b bytes.Buffer
	if err := m.node.Repair().GiveRange(ctx, shard, fromMs, toMs, indexMin, &b); err != nil {
		return nil, err
	}
	return io.NopCloser(&b), nil
}

func (l link) Repair(_ context.Context, name string, shard uint16, fromMs, toMs int64) error {
	m := l.c.reach(name)
	if m == nil {
		return errOutOfReach
	}
	return m.node.Repair().Suspect(shard, fromMs, toMs)
}
