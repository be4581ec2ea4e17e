package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

const waitBound = time.Minute // far above what any condition needs

func identity(digit string) string { return strings.Repeat(digit, 32) }

// fakeNode is a Node that a test fills in.
type fakeNode struct {
	hello   handshake.Hello
	admit   func(handshake.Hello) error
	receive func(from string, envelopes [][]byte) error
	clock   func(from string, timeMs int64)
	write   func(ctx context.Context, frame *series.Frame) ([]wire.PartOutcome, error)
	scan    func(ctx context.Context, r *ScanRequest, sink ScanSink) error
	names   func(r *NamesRequest) ([]string, []ShardEnd, error)
	exports map[string][]byte
	keys    []series.Key
	failAt  func(read int64) error // of exports

	exemplars []series.Exemplar
}

func (n *fakeNode) Hello() handshake.Hello { return n.hello }
func (n *fakeNode) Admit(h handshake.Hello) error {
	if n.admit == nil {
		return nil
	}
	return n.admit(h)
}

func (n *fakeNode) Receive(from string, envelopes [][]byte) error {
	if n.receive == nil {
		return nil
	}
	return n.receive(from, envelopes)
}

// fakeEnd is a frame that a fake node is done with.
type fakeEnd struct {
	outcomes []wire.PartOutcome
	err      error
}

func (e fakeEnd) Outcomes() ([]wire.PartOutcome, error) { return e.outcomes, e.err }

func (n *fakeNode) Write(ctx context.Context, frame *series.Frame, done func(WriteEnd)) {
	if n.write == nil {
		done(fakeEnd{make([]wire.PartOutcome, len(frame.Parts)), nil})
		return
	}
	go func() {
		outcomes, err := n.write(ctx, frame)
		done(fakeEnd{outcomes, err})
	}()
}

func (n *fakeNode) Scan(ctx context.Context, r *ScanRequest, sink ScanSink) error {
	if n.scan == nil {
		return nil
	}
	return n.scan(ctx, r, sink)
}

func (n *fakeNode) Last(_ context.Context, r *LastRequest, sink LastSink) error {
	for _, shard := range r.Selector.Shards {
		for i, k := range n.keys {
			if err := sink.Point(shard, scan.Point{Key: k, Sample: series.Sample{TimeMs: int64(i), Value: float64(shard)}}); err != nil {
				return err
			}
		}
		if err := sink.ShardEnd(shard, nil); err != nil {
			return err
		}
	}
	return nil
}

func (n *fakeNode) ListSeries(_ context.Context, r *SeriesRequest, sink SeriesSink) error {
	for _, shard := range r.Selector.Shards {
		for _, k := range n.keys {
			if err := sink.Key(shard, k); err != nil {
				return err
			}
		}
		if err := sink.ShardEnd(shard, int64(len(n.keys)), nil); err != nil {
			return err
		}
	}
	return nil
}

func (n *fakeNode) ListNames(_ context.Context, r *NamesRequest) ([]string, []ShardEnd, error) {
	if n.names == nil {
		return nil, nil, nil
	}
	return n.names(r)
}

// WriteExemplars keeps those of even times.
func (n *fakeNode) WriteExemplars(_ context.Context, parts []ShardExemplars) (written []ExemplarsWritten, _ error) {
	for _, p := range parts {
		w := ExemplarsWritten{ShardEnd: ShardEnd{Shard: p.Shard}}
		for _, e := range p.Exemplars {
			if e.TimeMs%2 == 0 {
				w.Kept++
				n.exemplars = append(n.exemplars, e)
			} else {
				w.OutOfOrder++
			}
		}
		if p.Shard == 13 {
			w = ExemplarsWritten{ShardEnd: ShardEnd{Shard: 13, Err: &wire.NotLeaderError{Shard: 13, Leader: "b"}}}
		}
		written = append(written, w)
	}
	return written, nil
}

func (n *fakeNode) ListExemplars(_ context.Context, r *ExemplarsRequest, sink ExemplarSink) error {
	for _, shard := range r.Selector.Shards {
		for i := range n.exemplars {
			if e := &n.exemplars[i]; e.TimeMs >= r.FromMs && e.TimeMs <= r.ToMs {
				if err := sink.Exemplar(shard, e); err != nil {
					return err
				}
			}
		}
		if err := sink.ShardEnd(shard, nil); err != nil {
			return err
		}
	}
	return nil
}

func (n *fakeNode) Delete(_ context.Context, r *DeleteRequest) (deleted []ShardDeleted, _ error) {
	for _, shard := range r.Selector.Shards {
		d := ShardDeleted{ShardEnd: ShardEnd{Shard: shard}, SeriesTouched: int64(shard)}
		if shard == 13 {
			d.Err = &wire.NotLeaderError{Shard: 13, Leader: "b"}
		}
		deleted = append(deleted, d)
	}
	return deleted, nil
}

func (n *fakeNode) OpenExport(_ context.Context, shard uint16, export string, offset int64) (*Export, error) {
	if export == "" {
		export = fmt.Sprintf("export-%d", shard)
	}
	content, ok := n.exports[export]
	if !ok {
		return nil, fmt.Errorf("%w: export %s", wire.ErrNotFound, export)
	}
	if offset > int64(len(content)) {
		return nil, wire.ErrInvalid
	}
	return &Export{
		ID: export, TotalBytes: int64(len(content)), Index: 7, Term: 3,
		Bytes: &failingReader{Reader: bytes.NewReader(content[offset:]), at: offset, fail: n.failAt},
	}, nil
}

// failingReader provides small chunks, and an error where it is told to.
type failingReader struct {
	*bytes.Reader
	at   int64
	fail func(at int64) error
}

func (r *failingReader) Read(p []byte) (int, error) {
	if r.fail != nil {
		if err := r.fail(r.at); err != nil {
			return 0, err
		}
	}
	n, err := r.Reader.Read(p[:min(len(p), 10_000)])
	r.at += int64(n)
	return n, err
}

func (r *failingReader) WriteTo(io.Writer) (int64, error) { return 0, errors.New("not used") }
func (r *failingReader) Close() error                     { return nil }

func (n *fakeNode) History(_ context.Context, since []scan.Mark) (changes []scan.Change, ends []ShardEnd, err error) {
	for _, m := range since {
		if end := (ShardEnd{Shard: m.Shard}); m.Index > 5 {
			end.Err = series.ErrUnavailable
			ends = append(ends, end)
		} else {
			ends = append(ends, end)
			changes = append(changes, scan.Change{Mark: scan.Mark{Shard: m.Shard, Run: m.Run + 1, Index: m.Index + 1}, LeastMs: -int64(m.Index)})
		}
	}
	return changes, ends, nil
}

func (n *fakeNode) Digest(_ context.Context, shard uint16, fromMs, toMs int64) (*Digest, error) {
	return &Digest{AppliedIndex: uint64(shard), UnchangedSince: 2, Bytes: fmt.Append(nil, fromMs, toMs)}, nil
}

func (n *fakeNode) ExportRange(_ context.Context, shard uint16, fromMs, toMs int64, indexMin uint64, to io.Writer) error {
	if indexMin > 5 {
		return series.ErrUnavailable
	}
	_, err := to.Write(bytes.Repeat(fmt.Append(nil, shard, fromMs, toMs, indexMin, "|"), rangeRepeats))
	return err
}

func (n *fakeNode) RepairShard(_ context.Context, shard uint16, _, _ int64) error {
	if shard == 1 {
		return wire.ErrNotFound
	}
	return nil
}

func (n *fakeNode) HeardEntries(string, handshake.Entries) {}

func (n *fakeNode) HeardClock(from string, timeMs int64) {
	if n.clock != nil {
		n.clock(from, timeMs)
	}
}

const rangeRepeats = 50_000

func (n *fakeNode) Report(context.Context, *nodev1.ReportRequest) (*nodev1.ReportResponse, error) {
	return &nodev1.ReportResponse{MapEpoch: 5}, nil
}

func (n *fakeNode) TransferLeader(_ context.Context, shard uint16, _ string) error {
	return &wire.NotLeaderError{Shard: shard, Leader: "c"}
}

// serve starts a server over the node and returns its address. It is stopped at the
// end of the test, or by the function.
func serve(t testing.TB, node Node, o Options, extra ...grpc.ServerOption) (address string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String(), serveOn(t, listener, node, o, extra...)
}

func serveOn(t testing.TB, listener net.Listener, node Node, o Options, extra ...grpc.ServerOption) (stop func()) {
	t.Helper()
	server := NewServer(node, o)
	g := grpc.NewServer(append(append(transport.ServerOptions(nil), server.GRPCOptions()...), extra...)...)
	server.Register(g)
	var once sync.Once
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(listener)
	}()
	stop = func() {
		once.Do(func() {
			g.Stop()
			<-served
		})
	}
	t.Cleanup(stop)
	return stop
}

func nodeHello(node string) handshake.Hello {
	return handshake.New("home", identity("c"), node, identity(node[:1]), rand.Uint64())
}

// dial returns a client that says who it is and whom it means.
func dial(t testing.TB, address string, self handshake.Hello) nodev1.NodeServiceClient {
	t.Helper()
	return nodev1.NewNodeServiceClient(dialConn(t, address, self))
}

func dialConn(t testing.TB, address string, self handshake.Hello) *grpc.ClientConn {
	t.Helper()
	options := append(transport.DialOptions(nil),
		handshake.DialOptions(func() handshake.Hello { return self }, self.ToNode, self.ToIncarnation)...)
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
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

// TakeSnapshot has shard 13 led elsewhere.
func (n *fakeNode) TakeSnapshot(_ context.Context, shards []uint16) (name string, ends []ShardEnd, _ error) {
	for _, shard := range shards {
		end := ShardEnd{Shard: shard}
		if shard == 13 {
			end.Err = &wire.NotLeaderError{Shard: 13, Leader: "b"}
		}
		ends = append(ends, end)
	}
	return "kept", ends, nil
}

func (n *fakeNode) EndSnapshot(_ context.Context, name string) error {
	if name != "kept" {
		return wire.ErrInternal
	}
	return nil
}
