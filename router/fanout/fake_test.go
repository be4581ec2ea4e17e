package fanout

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	"github.com/tickmesh/tickmesh/node/rpc"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

const waitBound = 60 * time.Second // far above what any condition needs

func identity(digit string) string { return strings.Repeat(digit, 32) }

// world is a cluster of fake nodes that share one memory of each shard: what is
// written on one is at once on all. Only the leader serves.
type world struct {
	t      testing.TB
	shards []*fakeShard
	nodes  []*fakeNode
	m      shardmap.Map

	oldAsked func() // called when a node of an earlier version is asked for exemplars; nil: nothing is

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	leader []int      // guarded by mu, by shard: index into nodes; −1: none
	faults faults     // guarded by mu
	term   uint64     // guarded by mu, of all leaders
	asked  []int      // guarded by mu, by shard: how often a node was asked to take over
}

// faults are chances of one in n; 0: never.
type faults struct {
	refuse, forget, slow, move, hideLeader, cut int
}

type fakeShard struct {
	memory *scantest.Memory

	mu       sync.Mutex
	era      uint32
	ids      map[string]series.ID
	keys     []string // by id−1
	sessions map[uint64]*fakeSession
	applied  map[string]int // key and time → how often it was applied
	deleted  map[series.BatchID]bool
	least    []int64 // the first time that each change has touched
	traces   []series.Exemplar
}

// fakeSession is a session's past, with the nodes' window.
type fakeSession struct {
	last uint64
	seen map[uint64]bool
}

type fakeNode struct {
	rpc.Node // what routers do not call
	world    *world
	index    int
	id       string
	address  string
	hung     atomic.Bool // scans and writes do not begin
	frozen   atomic.Bool // the process is stopped: its connections live and nothing comes
	refuses  atomic.Bool // it takes no writes, and leads nothing that it does not lead
	waits    atomic.Bool // writes of level all wait for a full voter that does not come
	served   atomic.Int64
	stop     func()
	onOwner  func(owner string)                     // whom a scan is for, as nodes tell; nil: nothing
	onScan   func()                                 // before a scan begins; nil: nothing
	onChunk  func()                                 // before each chunk of a scan; nil: nothing
	old      atomic.Bool                            // of a version without History and snapshots
	kept     atomic.Int64                           // snapshots that are held
	onTaken  func(ctx context.Context)              // before the answer that a snapshot was taken; nil: nothing
	plain    atomic.Bool                            // of a version that does not know of steps
	stale    atomic.Bool                            // answers reads that accept staleness
	write    func(*series.Frame) []wire.PartOutcome // instead of the memory; nil: not
	deleted  func(shard uint16) error               // after a delete was done; nil: nothing
}

func (w *world) chance(n func(*faults) int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := n(&w.faults)
	return most > 0 && w.random.IntN(most) == 0
}

func newWorld(t testing.TB, nodes, shards int) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(1, 2))}
	w.m = shardmap.Map{
		Format: shardmap.Format, Cluster: "home", ID: identity("c"), Epoch: 1,
		Settings: shardmap.Settings{Shards: shards, Replication: nodes},
	}
	for i := range nodes {
		w.nodes = append(w.nodes, &fakeNode{world: w, index: i, id: string(rune('a' + i))})
	}
	for s := range shards {
		w.shards = append(w.shards, &fakeShard{
			memory: scantest.NewMemory(), era: 1, ids: map[string]series.ID{}, sessions: map[uint64]*fakeSession{}, applied: map[string]int{},
			deleted: map[series.BatchID]bool{},
		})
		w.leader, w.asked = append(w.leader, s%nodes), append(w.asked, 0)
		row := shardmap.Row{Version: 1, RaftIDLast: uint64(nodes), Era: 1}
		for i, n := range w.nodes {
			row.Members = append(row.Members, shardmap.Member{Node: n.id, Incarnation: identity(n.id), RaftID: uint64(i + 1), Role: shardmap.Full})
		}
		w.m.Rows = append(w.m.Rows, row)
	}
	for _, n := range w.nodes {
		n.start()
	}
	return w
}

func (n *fakeNode) start() {
	t := n.world.t
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.address = listener.Addr().String()
	server := rpc.NewServer(n, rpc.Options{})
	g := grpc.NewServer(append(transport.ServerOptions(nil), server.GRPCOptions()...)...)
	server.Register(g)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(&cuttingListener{Listener: listener, node: n})
	}()
	n.stop = sync.OnceFunc(func() {
		n.hung.Store(false)
		n.frozen.Store(false)
		g.Stop()
		<-served
	})
	t.Cleanup(n.stop)
}

// cuttingListener makes connections that may break at any byte.
type cuttingListener struct {
	net.Listener
	node *fakeNode
}

func (l *cuttingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cuttingConn{Conn: c, node: l.node}, nil
}

type cuttingConn struct {
	net.Conn
	node *fakeNode
}

// Read returns nothing that came to a node that is stopped.
func (c *cuttingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.thaw()
	return n, err
}

// thaw blocks while the node is stopped.
func (c *cuttingConn) thaw() {
	for c.node.frozen.Load() {
		time.Sleep(time.Millisecond)
	}
}

func (c *cuttingConn) Write(p []byte) (int, error) {
	c.thaw()
	if !c.node.world.chance(func(f *faults) int { return f.cut }) {
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:rand.IntN(len(p)+1)])
	_ = c.Close()
	return n, net.ErrClosed
}

func (w *world) infos() map[string]shardmap.NodeInfo {
	infos := map[string]shardmap.NodeInfo{}
	for _, n := range w.nodes {
		infos[n.id] = shardmap.NodeInfo{ID: n.id, Incarnation: identity(n.id), RPCAddress: n.address}
	}
	return infos
}

// open returns a Cluster of the world.
func (w *world) open(limits Limits) *Cluster {
	w.t.Helper()
	if limits.ResolverBytesMax == 0 {
		limits.ResolverBytesMax = 1
	}
	c := New(Options{
		Self:   func() handshake.Hello { return handshake.New("home", identity("c"), "", "", 7) },
		Logger: slog.New(slog.DiscardHandler), Limits: limits,
	})
	w.t.Cleanup(c.Close)
	if err := c.SetView(&w.m, w.infos()); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) setFaults(f faults) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = f
}

func (w *world) lead(shard, node int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leader[shard] = node
}

// serves reports why a node does not serve a shard.
func (n *fakeNode) serves(shard uint16, staleness uint64) error {
	w := n.world
	if w.chance(func(f *faults) int { return f.move }) {
		w.lead(int(shard), rand.IntN(len(w.nodes)))
	}
	if w.chance(func(f *faults) int { return f.refuse }) {
		return fmt.Errorf("%w: by chance", series.ErrUnavailable)
	}
	w.mu.Lock()
	leader := w.leader[shard]
	w.mu.Unlock()
	switch {
	case leader == n.index, staleness > 0 && n.stale.Load():
		n.served.Add(1)
		return nil
	case leader < 0 || w.chance(func(f *faults) int { return f.hideLeader }):
		return &wire.NotLeaderError{Shard: shard}
	}
	return &wire.NotLeaderError{Shard: shard, Leader: w.nodes[leader].id}
}

// hang blocks while the node hangs.
func (n *fakeNode) hang(ctx context.Context) error {
	for n.hung.Load() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func (n *fakeNode) Hello() handshake.Hello {
	return handshake.New("home", identity("c"), n.id, identity(n.id), uint64(n.index))
}
func (n *fakeNode) Admit(handshake.Hello) error { return nil }

// fakeEnd is a frame that a fake node is done with.
type fakeEnd struct {
	outcomes []wire.PartOutcome
	err      error
}

func (e fakeEnd) Outcomes() ([]wire.PartOutcome, error) { return e.outcomes, e.err }

func (n *fakeNode) Write(ctx context.Context, frame *series.Frame, done func(rpc.WriteEnd)) {
	if n.write != nil && !n.hung.Load() {
		done(fakeEnd{n.write(frame), nil})
		return
	}
	go func() {
		outcomes, err := n.writeFrame(ctx, frame)
		done(fakeEnd{outcomes, err})
	}()
}

func (n *fakeNode) writeFrame(ctx context.Context, frame *series.Frame) ([]wire.PartOutcome, error) {
	if err := n.hang(ctx); err != nil {
		return nil, err
	}
	if n.write != nil {
		return n.write(frame), nil
	}
	if n.waits.Load() && frame.Level == series.LevelAll {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	outcomes := make([]wire.PartOutcome, len(frame.Parts))
	for i := range frame.Parts {
		p := &frame.Parts[i]
		if outcomes[i].Err = n.serves(p.Shard, 0); outcomes[i].Err != nil {
			continue
		}
		if n.world.chance(func(f *faults) int { return f.slow }) {
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
		}
		outcomes[i] = n.world.shards[p.Shard].write(frame.ID, p)
		outcomes[i].Copies = 2 + n.index
		if n.world.chance(func(f *faults) int { return f.forget }) { // the answer is lost
			outcomes[i] = wire.PartOutcome{Err: fmt.Errorf("%w: nobody knows", series.ErrUnavailable)}
		}
	}
	return outcomes, nil
}

// write applies a part once.
func (s *fakeShard) write(id series.BatchID, p *series.Part) (o wire.PartOutcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var r series.BatchReader
	var slots []series.ID
	for r.Reset(p.Batch); ; {
		key, ok := r.NextDefinition()
		if !ok {
			break
		}
		if strings.Contains(string(key), "refused") {
			o.Refused = append(o.Refused, series.Refusal{Definition: len(slots), Err: series.ErrSeriesLimit})
			slots = append(slots, 0)
			continue
		}
		known, ok := s.ids[string(key)]
		if !ok {
			s.keys = append(s.keys, string(key))
			known = series.ID(len(s.keys))
			s.ids[string(key)] = known
		}
		o.Defined = append(o.Defined, series.Defined{Definition: len(slots), ID: known, Era: s.era})
		slots = append(slots, known)
	}
	switch verdict := s.judge(id); {
	case p.Era != 0 && p.Era != s.era:
		return wire.PartOutcome{Err: series.ErrEra}
	case verdict != nil:
		return wire.PartOutcome{Err: verdict}
	case s.sessions[id.Session].seen[id.Counter]:
		return o
	}
	for r.NextPoint() {
		ref := series.ID(r.Ref)
		if ref >= series.SlotBase {
			ref = slots[ref-series.SlotBase]
		}
		if ref == 0 {
			continue
		}
		if int(ref) > len(s.keys) {
			return wire.PartOutcome{Err: fmt.Errorf("%w: series %d", series.ErrBatch, ref)}
		}
		key := s.keys[ref-1]
		s.applied[fmt.Sprint(key, r.TimeMs)]++
		s.least = append(s.least, r.TimeMs)
		if err := s.memory.Put(series.Key(key), series.Sample{TimeMs: r.TimeMs, Value: series.Float64(r.Mantissa, r.Scale)}); err != nil {
			return wire.PartOutcome{Err: err}
		}
	}
	if r.Err() != nil {
		return wire.PartOutcome{Err: r.Err()}
	}
	session := s.sessions[id.Session]
	session.seen[id.Counter] = true
	session.last = max(session.last, id.Counter)
	return o
}

func (s *fakeShard) judge(id series.BatchID) error {
	if id.IsZero() {
		return fmt.Errorf("%w: a frame without an id", wire.ErrInvalid)
	}
	session := s.sessions[id.Session]
	if session == nil {
		session = &fakeSession{seen: map[uint64]bool{}}
		s.sessions[id.Session] = session
	}
	if session.last >= 128 && id.Counter <= session.last-128 {
		return series.ErrBatchOld
	}
	return nil
}

// newEra assigns other ids to all series.
func (s *fakeShard) newEra() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.era++
	slices.Reverse(s.keys)
	for i, key := range s.keys {
		s.ids[key] = series.ID(i + 1)
	}
}

func (n *fakeNode) Scan(ctx context.Context, r *rpc.ScanRequest, sink rpc.ScanSink) error {
	if err := n.hang(ctx); err != nil {
		return err
	}
	if n.onOwner != nil {
		n.onOwner(handshake.OwnerOf(ctx))
	}
	if n.onScan != nil {
		n.onScan()
	}
	for i, shard := range r.Selector.Shards {
		err := n.servesContents(shard, r.Freshness.StalenessMaxMs, r.Snapshot)
		if err == nil {
			err = n.scanShard(ctx, r, shard, r.AfterIDs[i], sink)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := sink.ShardEnd(shard, err); err != nil {
			return err
		}
	}
	return nil
}

func (n *fakeNode) scanShard(ctx context.Context, r *rpc.ScanRequest, shard uint16, after series.ID, sink rpc.ScanSink) error {
	s := n.world.shards[shard]
	type part struct {
		*scan.Chunk
		send func(*scan.Chunk) error
	}
	chunks := map[series.ID][]part{}
	request := r.Request
	request.Parallel = 1
	rows := series.ID(0)
	keep := func(send func(*scan.Chunk) error) scan.Visitor {
		return func(_ int, c *scan.Chunk) error {
			s.mu.Lock()
			id := s.ids[string(c.Key)]
			s.mu.Unlock()
			if request.Steps != nil && request.Steps.Fold != nil {
				rows++
				id = rows
			}
			copied := &scan.Chunk{
				Key: slices.Clone(c.Key), Ref: series.Ref{Shard: shard, ID: id}, Times: slices.Clone(c.Times), Values: slices.Clone(c.Values),
				Sum: slices.Clone(c.Sum), Count: slices.Clone(c.Count), Min: slices.Clone(c.Min), Max: slices.Clone(c.Max),
				First: slices.Clone(c.First), Last: slices.Clone(c.Last), Digest: slices.Clone(c.Digest), Sums: slices.Clone(c.Sums), Series: c.Series,
			}
			chunks[id] = append(chunks[id], part{copied, send})
			return nil
		}
	}
	var err error
	if n.plain.Load() {
		request.Steps = nil
	}
	if request.Steps != nil {
		err = steps.ScanShort(ctx, s.memory, &request, keep(sink.Steps), keep(sink.Chunk))
	} else {
		err = s.memory.Scan(ctx, &request, keep(sink.Chunk))
	}
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(chunks)) {
		if id <= after {
			continue
		}
		for _, c := range chunks[id] {
			if n.world.chance(func(f *faults) int { return f.forget }) {
				return fmt.Errorf("%w: in the middle", series.ErrUnavailable)
			}
			if n.onChunk != nil {
				n.onChunk()
			}
			if err := c.send(c.Chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *fakeNode) Last(ctx context.Context, r *rpc.LastRequest, sink rpc.LastSink) error {
	for _, shard := range r.Selector.Shards {
		err := n.serves(shard, r.Freshness.StalenessMaxMs)
		if err == nil {
			err = n.world.shards[shard].memory.Last(ctx, &r.Selector, r.FromMs, r.Limits, func(p scan.Point) error { return sink.Point(shard, p) })
		}
		if err := sink.ShardEnd(shard, err); err != nil {
			return err
		}
	}
	return nil
}

func (n *fakeNode) ListSeries(ctx context.Context, r *rpc.SeriesRequest, sink rpc.SeriesSink) error {
	for _, shard := range r.Selector.Shards {
		err, total := n.serves(shard, r.Freshness.StalenessMaxMs), int64(0)
		if err == nil {
			total, err = n.world.shards[shard].memory.Series(ctx, &r.Selector, r.Limit, func(k series.Key) error { return sink.Key(shard, k) })
		}
		if err := sink.ShardEnd(shard, total, err); err != nil {
			return err
		}
	}
	return nil
}

func (n *fakeNode) ListNames(ctx context.Context, r *rpc.NamesRequest) (names []string, ends []rpc.ShardEnd, err error) {
	for _, shard := range r.Shards {
		end := rpc.ShardEnd{Shard: shard, Err: n.servesContents(shard, r.Freshness.StalenessMaxMs, r.Snapshot)}
		if end.Err == nil {
			var some []string
			m := n.world.shards[shard].memory
			switch r.Kind {
			case tickmeshv1.NameKind_NAME_KIND_DATABASE:
				some, end.Err = m.Databases(ctx)
			case tickmeshv1.NameKind_NAME_KIND_METRIC:
				some, end.Err = m.Metrics(ctx, r.Database, r.StartWith, r.Limit)
			case tickmeshv1.NameKind_NAME_KIND_TAG_NAME:
				some, end.Err = m.TagNames(ctx, r.Database, r.Metric, r.StartWith, r.Limit)
			default:
				some, end.Err = m.TagValues(ctx, r.Database, r.Metric, r.Tag, r.StartWith, r.Limit)
			}
			names = append(names, some...)
		}
		ends = append(ends, end)
	}
	slices.Sort(names)
	return slices.Compact(names), ends, nil
}

func (n *fakeNode) Delete(ctx context.Context, r *rpc.DeleteRequest) (deleted []rpc.ShardDeleted, _ error) {
	for _, shard := range r.Selector.Shards {
		d := rpc.ShardDeleted{ShardEnd: rpc.ShardEnd{Shard: shard, Err: n.serves(shard, 0)}}
		if d.Err == nil {
			d.SeriesTouched, d.Err = n.world.shards[shard].remove(ctx, r)
		}
		if n.deleted != nil && d.Err == nil {
			d.Err = n.deleted(shard)
		}
		deleted = append(deleted, d)
	}
	return deleted, nil
}

func (s *fakeShard) remove(ctx context.Context, r *rpc.DeleteRequest) (touched int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted[r.ID] {
		return s.memory.Series(ctx, &r.Selector, 1, func(series.Key) error { return nil })
	}
	s.deleted[r.ID] = !r.ID.IsZero()
	s.least = append(s.least, r.FromMs)
	return s.memory.Delete(ctx, &r.Selector, r.FromMs, r.ToMs)
}

// frameOf makes a frame of samples, as a splitter does.
func frameOf(c *Cluster, shards int, samples map[string][]series.Sample) *series.Frame {
	frame := &series.Frame{Generation: c.Generation()}
	encoders := map[uint16]*series.BatchEncoder{}
	for key, list := range samples {
		shard := series.Key(key).Shard(shards)
		e := encoders[shard]
		if e == nil {
			e = &series.BatchEncoder{}
			encoders[shard] = e
		}
		refs := make([]series.Ref, 1)
		c.Resolver().Resolve(series.HintNone, []series.Key{series.Key(key)}, refs)
		id := refs[0].ID
		if refs[0].Hint == series.HintNone {
			id = e.Define(series.Key(key))
		}
		for _, s := range list {
			n := series.FloatNumber(s.Value)
			e.Append(id, s.TimeMs, n.Mantissa, n.Scale)
			frame.Points++
		}
	}
	for shard, e := range encoders {
		frame.Parts = append(frame.Parts, series.Part{Shard: shard, Batch: e.AppendTo(nil)})
	}
	return frame
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitBound); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
