package promql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/node/service"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	"github.com/tickmesh/tickmesh/router/fanout"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

const (
	labNodes  = 3
	labShards = 6
)

// labCluster is nodes with real storage behind real connections. Shard s is of node s%labNodes; there is
// one copy of each.
type labCluster struct {
	t       testing.TB
	nodes   [labNodes]*labNode
	cluster *fanout.Cluster
	sent    sent
}

// sent counts bytes of messages from nodes. A message is counted after it is sent, when its receiver may long have gone on, so the
// counter is read when no call is under way.
type sent struct {
	mu    sync.Mutex
	bytes int64
	calls int
	ended *sync.Cond // of calls
}

// note counts what gRPC tells of a call.
func (s *sent) note(of stats.RPCStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch of := of.(type) {
	case *stats.Begin:
		s.calls++
	case *stats.OutPayload:
		s.bytes += int64(of.WireLength)
	case *stats.End:
		s.calls--
		s.ended.Broadcast()
	}
}

// take waits until no call is under way, and returns the bytes that were sent since it was called last.
func (s *sent) take() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.calls > 0 {
		s.ended.Wait()
	}
	bytes := s.bytes
	s.bytes = 0
	return bytes
}

// labNode is a node as routers see it.
type labNode struct {
	rpc.Node
	number  int
	storage *node.Node
	old     atomic.Bool   // of a version that does not know of steps
	foldMax atomic.Uint32 // the last kind of fold that its version knows; 0: all
}

func (n *labNode) Scan(ctx context.Context, r *rpc.ScanRequest, sink rpc.ScanSink) error {
	if n.old.Load() {
		plain := *r
		plain.Steps = nil
		r = &plain
	} else if most := n.foldMax.Load(); most > 0 && r.Steps != nil && r.Steps.Fold != nil && r.Steps.Fold.Kind > scan.FoldKind(most) {
		plain, at := *r, *r.Steps
		plain.Steps, at.Fold = &at, nil // as wire.ToSteps has it
		r = &plain
	}
	return n.Node.Scan(ctx, r, sink)
}

// Report leaves out the shards of other nodes, of which the storage has empty replicas: routers that ask who leads, as a node
// is silent for a moment, believe it.
func (n *labNode) Report(ctx context.Context, request *nodev1.ReportRequest) (*nodev1.ReportResponse, error) {
	report, err := n.Node.Report(ctx, request)
	if err == nil {
		report.Groups = slices.DeleteFunc(report.Groups, func(g *nodev1.GroupReport) bool { return int(g.GetShard())%labNodes != n.number })
	}
	return report, err
}

// TagRPC, HandleRPC, TagConn and HandleConn implement stats.Handler.
func (c *labCluster) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (c *labCluster) HandleRPC(_ context.Context, s stats.RPCStats)                     { c.sent.note(s) }
func (c *labCluster) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *labCluster) HandleConn(context.Context, stats.ConnStats)                       {}

func newLabCluster(t testing.TB) *labCluster {
	t.Helper()
	identity := func(digit string) string { return strings.Repeat(digit, 32) }
	hello := func(name string) func() handshake.Hello {
		return func() handshake.Hello {
			if name == "" {
				return handshake.New("home", identity("f"), "", "", 7)
			}
			return handshake.New("home", identity("f"), name, identity(name), 8)
		}
	}
	c := &labCluster{t: t}
	c.sent.ended = sync.NewCond(&c.sent.mu)
	infos := map[string]shardmap.NodeInfo{}
	m := shardmap.Map{Format: shardmap.Format, Cluster: "home", ID: identity("f"), Epoch: 1, Settings: shardmap.Settings{Shards: labShards, Replication: 1}}
	for i := range c.nodes {
		name := string(rune('a' + i))
		storage, err := node.Open(node.Options{FS: vfs.NewMemFS(), DataDir: "/data", Shards: labShards, Sync: node.SyncOff, LogFileBytes: 1 << 20, ExtentBytes: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		served := service.New(service.Options{Node: storage, Hello: hello(name), Map: func() *shardmap.Map { return nil }, Disk: func() (uint64, uint64) { return 0, 0 }, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		c.nodes[i] = &labNode{Node: served, number: i, storage: storage}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := rpc.NewServer(c.nodes[i], rpc.Options{})
		g := grpc.NewServer(append(append(transport.ServerOptions(nil), server.GRPCOptions()...), grpc.StatsHandler(c))...)
		server.Register(g)
		ended := make(chan error, 1)
		go func() { ended <- g.Serve(listener) }()
		t.Cleanup(func() {
			g.Stop()
			if err := errors.Join(<-ended, served.Close(), storage.Close()); err != nil {
				t.Error(err)
			}
		})
		infos[name] = shardmap.NodeInfo{ID: name, Incarnation: identity(name), RPCAddress: listener.Addr().String()}
	}
	for s := range labShards {
		name := string(rune('a' + s%labNodes))
		m.Rows = append(m.Rows, shardmap.Row{Version: 1, RaftIDLast: 1, Era: 1, Members: []shardmap.Member{{Node: name, Incarnation: identity(name), RaftID: 1, Role: shardmap.Full}}})
	}
	c.cluster = fanout.New(fanout.Options{Self: hello(""), Limits: fanout.Limits{ResolverBytesMax: 1}})
	t.Cleanup(c.cluster.Close)
	if err := c.cluster.SetView(&m, infos); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *labCluster) source() scan.Source { return c.cluster.Source(scan.Consistency{}) }

// labBatch is samples that are written at once.
type labBatch struct {
	encoders [labShards]series.BatchEncoder
	points   [labShards]int
}

func (b *labBatch) add(key series.Key, samples ...series.Sample) {
	shard := key.Shard(labShards)
	e := &b.encoders[shard]
	id := e.Define(key)
	for _, s := range samples {
		n := series.FloatNumber(s.Value)
		e.Append(id, s.TimeMs, n.Mantissa, n.Scale)
		b.points[shard]++
	}
}

// write writes each shard's samples to its node.
func (c *labCluster) write(b *labBatch) {
	for shard := range b.encoders {
		if b.points[shard] == 0 {
			continue
		}
		frame := &series.Frame{Points: b.points[shard], Parts: []series.Part{{Shard: uint16(shard), Batch: b.encoders[shard].AppendTo(nil)}}}
		outcome, err := c.nodes[shard%labNodes].storage.Write(context.Background(), frame)
		if err != nil || len(outcome.Refused) > 0 {
			c.t.Fatal(err, outcome.Refused)
		}
	}
}

// TestDirectInCluster: values that nodes have made, and groups that they have folded, are those of
// the engine; also while one of the nodes, or all, are of an older version and send samples, or of one that folds no sums.
func TestDirectInCluster(t *testing.T) {
	c := newLabCluster(t)
	draws := 0
	rapid.Check(t, func(t *rapid.T) {
		draws++
		database := fmt.Sprint("draw", draws)
		old := rapid.IntRange(0, labNodes).Draw(t, "old nodes")
		for i := range c.nodes {
			c.nodes[i].old.Store(i < old)
			c.nodes[i].foldMax.Store(uint32(rapid.SampledFrom([]scan.FoldKind{0, scan.FoldMax}).Draw(t, "fold")))
		}
		b := &labBatch{}
		memory := randomSeries(t, database, func(key series.Key, s series.Sample) { b.add(key, s) })
		c.write(b)
		checkDirect(t, c.source(), memory, database)
	})
}

// TestBytesMoved counts the bytes that nodes send for an answer: before there were steps, and now.
// They follow from the data, and from a few hundred bytes of probes where the machine is slow; those of
// rows do not grow with the number of series.
func TestBytesMoved(t *testing.T) {
	c := newLabCluster(t)
	const someSeries, manySeries, rows, manyRows, stepMs, startMs = 400, 4000, 390, 3, 10_000, 1_750_000_000_000
	const endMs = startMs + rows*stepMs
	b := &labBatch{}
	for i := range someSeries {
		samples := make([]series.Sample, rows)
		for row := range samples {
			samples[row] = series.Sample{TimeMs: startMs + int64(row)*stepMs, Value: float64(row*100 + row*row%97 + i)}
		}
		b.add(benchKey("requests_total", i), samples...)
	}
	for i := range manySeries {
		for row := range int64(manyRows) {
			b.add(benchKey("many", i), series.Sample{TimeMs: endMs - (manyRows-row)*stepMs, Value: float64(i)})
		}
	}
	c.write(b)
	h := newHandler(Options{Source: c.source(), Parallel: 2})
	hour := span{start: time.UnixMilli(endMs - 3600_000), end: time.UnixMilli(endMs), step: time.Minute}
	instant := span{start: time.UnixMilli(endMs), end: time.UnixMilli(endMs)}
	for _, q := range []struct {
		text     string
		s        span
		least    float64 // how many times fewer bytes are sent
		selector scan.Selector
		rangeMs  int64
	}{
		{`rate(requests_total[5m])`, hour, 6, scan.Selector{Metric: "requests_total"}, 300_000},
		{`requests_total`, hour, 5, scan.Selector{Metric: "requests_total"}, 300_000},
		{`max by (region) (rate(requests_total[5m]))`, hour, 15, scan.Selector{Metric: "requests_total"}, 300_000},
		{`sum by (region) (rate(requests_total[5m]))`, hour, 15, scan.Selector{Metric: "requests_total"}, 300_000},
		{`avg(requests_total)`, hour, 60, scan.Selector{Metric: "requests_total"}, 300_000},
		{`count(requests_total)`, hour, 200, scan.Selector{Metric: "requests_total"}, 300_000},
		{`count(many)`, instant, 30, scan.Selector{Metric: "many"}, 0},
		{`sum(many)`, instant, 30, scan.Selector{Metric: "many"}, 0},
		{`max by (region) (many)`, instant, 30, scan.Selector{Metric: "many"}, 0},
	} {
		c.sent.take()
		var err error
		if q.rangeMs == 0 {
			err = c.source().Last(t.Context(), &q.selector, endMs-300_000, scan.Limits{}, func(scan.Point) error { return nil })
		} else {
			request := &scan.Request{Selector: q.selector, FromMs: q.s.start.UnixMilli() - q.rangeMs + 1, ToMs: q.s.end.UnixMilli()}
			err = c.source().Scan(t.Context(), request, func(int, *scan.Chunk) error { return nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		before := c.sent.take()
		evaluated(t, h, "", q.text, "", 5*time.Minute, q.s)
		after := c.sent.take()
		t.Logf("%s: %d bytes, before %d", q.text, after, before)
		if after == 0 || float64(before) < q.least*float64(after) {
			t.Errorf("%s: %d bytes are sent, not %v times fewer than the %d of samples", q.text, after, q.least, before)
		}
	}
}

// TestSamplesOfPushdown: a query costs the samples that are read for it, whether nodes make values of them, fold them, or send them.
func TestSamplesOfPushdown(t *testing.T) {
	const manySeries, rows, stepMs, startMs = 40, 390, 10_000, 1_750_000_000_000
	c := newLabCluster(t)
	b := &labBatch{}
	for i := range manySeries {
		for row := range int64(rows) {
			b.add(benchKey("requests_total", i), series.Sample{TimeMs: startMs + row*stepMs, Value: float64(row)})
		}
	}
	c.write(b)
	ask := func(query string, samplesMax int64) (samples int64, status int, body string) {
		limiter := admission.New(admission.Options{SlowerThan: 1, Limits: admission.Limits{SamplesMax: samplesMax}})
		h := New(Options{Source: limiter.Source(c.source()), Admission: limiter, Parallel: 2})
		values := url.Values{"query": {query}, "start": {fmt.Sprint(startMs / 1000)}, "end": {fmt.Sprint((startMs + rows*stepMs) / 1000)}, "step": {"60"}}
		got := get(h, "query_range?"+values.Encode())
		return limiter.Slow()[0].Samples, got.status, got.body
	}
	for _, query := range []string{
		`rate(requests_total[5m])`, `requests_total`, `max by (region) (rate(requests_total[5m]))`, `count(requests_total)`, `sum(max_over_time(requests_total[1h]))`,
	} {
		first := ""
		for _, old := range []int{0, 1, labNodes} { // older nodes send samples
			for i := range c.nodes {
				c.nodes[i].old.Store(i < old)
			}
			const all = manySeries * rows
			samples, status, body := ask(query, 0)
			if samples != all || status != 200 {
				t.Errorf("%s, %d nodes send samples: %d samples, want %d; status %d", query, old, samples, all, status)
			}
			if first = cmp.Or(first, body); body != first {
				t.Errorf("%s, %d nodes send samples: %s\nwant %s", query, old, body, first)
			}
			for samplesMax, want := range map[int64]int{all: 200, all - 1: 422} {
				if samples, status, body := ask(query, samplesMax); status != want || status == 200 && body != first {
					t.Errorf("%s, %d nodes send samples: %d samples of at most %d: status %d, want %d: %s", query, old, samples, samplesMax, status, want, body)
				}
			}
		}
	}
}
