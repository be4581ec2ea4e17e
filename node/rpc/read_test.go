package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// gathered is what a caller has made of an answer, by shard and series.
type gathered struct {
	samples map[string][]byte // "shard/id" → key and samples
	ended   map[string]bool   // series with their end
	ends    map[uint16]error
}

func everything[M any](t testing.TB, stream grpc.ServerStreamingClient[M], visit func(*M)) error {
	t.Helper()
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		visit(m)
	}
}

func gather(t testing.TB, stream grpc.ServerStreamingClient[nodev1.ScanResponse]) (*gathered, error) {
	t.Helper()
	g := &gathered{samples: map[string][]byte{}, ended: map[string]bool{}, ends: map[uint16]error{}}
	lastID := map[uint32]uint32{}
	err := everything(t, stream, func(m *nodev1.ScanResponse) {
		for _, c := range m.GetChunks() {
			if _, over := g.ends[uint16(c.GetShard())]; over || c.GetId() < lastID[c.GetShard()] {
				t.Errorf("series %d of shard %d out of order", c.GetId(), c.GetShard())
			}
			lastID[c.GetShard()] = c.GetId()
			name := fmt.Sprintf("%d/%d", c.GetShard(), c.GetId())
			if _, known := g.samples[name]; known == (len(c.GetKey()) > 0) || g.ended[name] {
				t.Errorf("chunk of %s: key %q", name, c.GetKey())
			}
			var chunk scan.Chunk
			if err := wire.SetChunk(&chunk, c.GetColumns()); err != nil {
				t.Error(err)
			}
			g.samples[name] = append(g.samples[name], c.GetKey()...)
			for i, at := range chunk.Times {
				g.samples[name] = appendSample(g.samples[name], at, chunk.Values[i])
			}
			g.ended[name] = c.GetSeriesEnd()
		}
		for _, e := range m.GetEnds() {
			shard, shardErr, err := wire.ToShardEnd(e)
			if err != nil {
				t.Error(err)
			}
			g.ends[shard] = shardErr
		}
	})
	return g, err
}

// TestScanProperty: whatever a node returns, from however many goroutines, a caller
// gets it, in order, with the end of every series.
func TestScanProperty(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a")}
	address, _ := serve(t, node, Options{})
	client := dial(t, address, nodeHello("b"))
	rapid.Check(t, func(rt *rapid.T) {
		shards := rapid.SliceOfNDistinct(rapid.Uint16(), 1, 4, rapid.ID[uint16]).Draw(rt, "shards")
		slices.Sort(shards)
		chunks := map[uint16][]scan.Chunk{}
		want := map[string][]byte{}
		request := &nodev1.ScanRequest{Selector: &tickmeshv1.Selector{MetricAny: true}, ToMs: 9, Parallel: 3}
		for _, shard := range shards {
			request.Shards = append(request.Shards, &nodev1.ShardFrom{Shard: uint32(shard), AfterId: uint32(shard) % 5})
			chunks[shard] = drawChunks(rt, shard, want)
		}
		failing := rapid.SampledFrom(shards).Draw(rt, "failing")
		forgotten := rapid.Bool().Draw(rt, "forgotten")
		node.scan = func(_ context.Context, r *ScanRequest, sink ScanSink) error {
			var visits sync.WaitGroup
			for i, shard := range r.Selector.Shards {
				if int(r.AfterIDs[i]) != int(shard)%5 || r.Parallel != 3 || r.ToMs != 9 {
					return wire.ErrInvalid
				}
				visits.Go(func() {
					for i := range chunks[shard] {
						if err := sink.Chunk(&chunks[shard][i]); err != nil {
							t.Error(err)
						}
					}
					var err error
					switch {
					case shard == failing && forgotten:
						return
					case shard == failing:
						err = &wire.NotLeaderError{Shard: shard, Leader: "z"}
					}
					if err := sink.ShardEnd(shard, err); err != nil {
						t.Error(err)
					}
				})
			}
			visits.Wait()
			return nil
		}
		stream, err := client.Scan(t.Context(), request)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := gather(t, stream)
		if err != nil {
			rt.Fatal(err)
		}
		checkScan(rt, got, want, shards, failing)
		if kind := (*wire.NotLeaderError)(nil); errors.As(got.ends[failing], &kind) == forgotten {
			rt.Fatalf("shard %d ended with %v", failing, got.ends[failing])
		}
	})
}

func checkScan(rt *rapid.T, got *gathered, want map[string][]byte, shards []uint16, failing uint16) {
	if len(got.samples) != len(want) || len(got.ends) != len(shards) {
		rt.Fatalf("%d series and %d ends instead of %d and %d", len(got.samples), len(got.ends), len(want), len(shards))
	}
	for name, samples := range want {
		if !bytes.Equal(got.samples[name], samples) {
			rt.Fatalf("%s: got %q, expected %q", name, got.samples[name], samples)
		}
		if !got.ended[name] && !strings.HasPrefix(name, fmt.Sprintf("%d/", failing)) {
			rt.Fatalf("%s has no end", name)
		}
	}
	for shard, err := range got.ends {
		if (err != nil) != (shard == failing) {
			rt.Fatalf("shard %d ended with %v", shard, err)
		}
	}
}

func appendSample(dst []byte, timeMs int64, value float64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(timeMs)), math.Float64bits(value))
}

// drawChunks makes a shard's answer, and adds to want what it says.
func drawChunks(rt *rapid.T, shard uint16, want map[string][]byte) (chunks []scan.Chunk) {
	at := int64(-1000)
	for id := range rapid.IntRange(0, 5).Draw(rt, "series") {
		key := series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("id"), Value: fmt.Append(nil, id)}})
		name := fmt.Sprintf("%d/%d", shard, id+1)
		want[name] = bytes.Clone(key)
		for range rapid.IntRange(1, 4).Draw(rt, "chunks") {
			c := scan.Chunk{Key: key, Ref: series.Ref{Shard: shard, ID: series.ID(id + 1)}}
			for range rapid.SampledFrom([]int{1, 3, 5, 900}).Draw(rt, "samples") {
				at += 7
				value := math.Float64frombits(uint64(at) * 0x9e3779b97f4a7c15)
				c.Times, c.Values = append(c.Times, at), append(c.Values, value)
				want[name] = appendSample(want[name], at, value)
			}
			chunks = append(chunks, c)
		}
	}
	return chunks
}

func TestScanErrors(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a")}
	node.scan = func(_ context.Context, r *ScanRequest, sink ScanSink) error {
		if err := sink.Chunk(&scan.Chunk{Ref: series.Ref{Shard: 9, ID: 1}}); !errors.Is(err, wire.ErrInternal) {
			t.Errorf("a chunk of a shard that nobody asked for gave %v", err)
		}
		if err := sink.Chunk(&scan.Chunk{Ref: series.Ref{Shard: 1, ID: 5}}); err != nil {
			t.Error(err)
		}
		if err := sink.Chunk(&scan.Chunk{Ref: series.Ref{Shard: 1, ID: 4}}); !errors.Is(err, wire.ErrInternal) {
			t.Errorf("a chunk out of order gave %v", err)
		}
		return &scan.LimitError{What: "series", Limit: 4}
	}
	address, _ := serve(t, node, Options{})
	client := dial(t, address, nodeHello("b"))
	ask := func(change func(*nodev1.ScanRequest)) error {
		m := &nodev1.ScanRequest{Selector: &tickmeshv1.Selector{Metric: []byte("m")}, Shards: []*nodev1.ShardFrom{{Shard: 1}, {Shard: 2}}}
		change(m)
		stream, err := client.Scan(t.Context(), m)
		if err != nil {
			return err
		}
		_, err = gather(t, stream)
		return err
	}
	var limit *scan.LimitError
	if err := ask(func(*nodev1.ScanRequest) {}); !errors.As(err, &limit) || *limit != (scan.LimitError{What: "series", Limit: 4}) {
		t.Errorf("got %v", err)
	}
	for name, change := range map[string]func(*nodev1.ScanRequest){
		"no selector":    func(m *nodev1.ScanRequest) { m.Selector = nil },
		"no shards":      func(m *nodev1.ScanRequest) { m.Shards = nil },
		"shard twice":    func(m *nodev1.ScanRequest) { m.Shards[1].Shard = 1 },
		"shards mixed":   func(m *nodev1.ScanRequest) { m.Shards[1].Shard = 0 },
		"id":             func(m *nodev1.ScanRequest) { m.Shards[1].AfterId = 1 << 31 },
		"range":          func(m *nodev1.ScanRequest) { m.FromMs = 1 },
		"time":           func(m *nodev1.ScanRequest) { m.ToMs = math.MaxInt64 },
		"windows":        func(m *nodev1.ScanRequest) { m.Windows = &tickmeshv1.Windows{} },
		"negative limit": func(m *nodev1.ScanRequest) { m.Limits = &tickmeshv1.ScanLimits{BytesMax: -1} },
		"matcher":        func(m *nodev1.ScanRequest) { m.Selector.Matchers = []*tickmeshv1.Matcher{{Kind: 99}} },
		"two metrics":    func(m *nodev1.ScanRequest) { m.Selector.MetricAny = true },
	} {
		if err := ask(change); !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestScansShareMemory: what scans hold at once is bounded, whoever asks, and goes with them.
func TestScansShareMemory(t *testing.T) {
	const all = 1 << 20
	node := &fakeNode{hello: nodeHello("a")}
	charged, release := make(chan struct{}), make(chan struct{})
	node.scan = func(_ context.Context, r *ScanRequest, _ ScanSink) error {
		if err := r.Limits.Account.Take(r.Limits.BytesMax); err != nil {
			return err
		}
		if r.Selector.Database == "holds" {
			close(charged)
			<-release
		}
		return nil
	}
	address, _ := serve(t, node, Options{ScanBytesMax: all})
	client := dial(t, address, nodeHello("b"))
	ask := func(ctx context.Context, database string, bytes int64) error {
		stream, err := client.Scan(ctx, &nodev1.ScanRequest{
			Selector: &tickmeshv1.Selector{Metric: []byte("m"), Database: []byte(database)}, Shards: []*nodev1.ShardFrom{{Shard: 1}}, Limits: &tickmeshv1.ScanLimits{BytesMax: bytes},
		})
		if err != nil {
			return err
		}
		_, err = gather(t, stream)
		return err
	}
	var limit *scan.LimitError
	if err := ask(t.Context(), "", all+1); !errors.As(err, &limit) || limit.Limit != all {
		t.Errorf("more than there is: %v", err)
	}
	held := make(chan error, 1)
	go func() { held <- ask(t.Context(), "holds", all*3/4) }()
	<-charged
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ask(ctx, "waits", all/2); err == nil {
		t.Error("two scans hold more than there is")
	}
	if err := ask(t.Context(), "small", all/16); err != nil {
		t.Errorf("a small one of another database: %v", err)
	}
	close(release)
	if err := <-held; err != nil {
		t.Error(err)
	}
	if err := ask(t.Context(), "alone", all); err != nil {
		t.Errorf("all that there is, when the others have ended: %v", err)
	}
}

// TestScanStopsWithItsCaller: a node's scan ends when the caller goes away, also
// while it does not read.
func TestScanStopsWithItsCaller(t *testing.T) {
	stopped := make(chan error, 1)
	node := &fakeNode{hello: nodeHello("a")}
	node.scan = func(_ context.Context, _ *ScanRequest, sink ScanSink) error {
		c := &scan.Chunk{Key: series.Key("k"), Values: make([]float64, 1000), Times: make([]int64, 1000)}
		for c.Ref = (series.Ref{Shard: 1, ID: 1}); ; c.Ref.ID++ {
			if err := sink.Chunk(c); err != nil {
				stopped <- err
				return err
			}
		}
	}
	address, _ := serve(t, node, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := dial(t, address, nodeHello("b")).Scan(ctx, &nodev1.ScanRequest{
		Selector: &tickmeshv1.Selector{}, Shards: []*nodev1.ShardFrom{{Shard: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-stopped; err == nil {
		t.Fatal("no error")
	}
}

func TestListings(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a")}
	for i := range 5000 {
		node.keys = append(node.keys, series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("n"), Value: fmt.Append(nil, i)}}))
	}
	var names []string
	for i := range 20_000 {
		names = append(names, fmt.Sprintf("name %06d", i))
	}
	node.names = func(r *NamesRequest) ([]string, []ShardEnd, error) {
		if r.Kind != tickmeshv1.NameKind_NAME_KIND_TAG_VALUE || r.Tag != "t" || r.StartWith != "na" || r.Limit != 7 || r.FromMs != -5 || r.ToMs != scan.TimeMsMax {
			return nil, nil, wire.ErrInvalid
		}
		return names, []ShardEnd{{Shard: 8}}, nil
	}
	address, _ := serve(t, node, Options{})
	client := dial(t, address, nodeHello("b"))
	shards := []uint32{3, 8}
	last, err := client.Last(t.Context(), &nodev1.LastRequest{Selector: &tickmeshv1.Selector{}, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	points, ends := 0, 0
	if err := everything(t, last, func(m *nodev1.LastResponse) {
		for _, p := range m.GetPoints() {
			if string(p.GetKey()) != string(node.keys[p.GetTimeMs()]) || p.GetValue() != float64(p.GetShard()) {
				t.Errorf("got %v", p)
			}
		}
		points, ends = points+len(m.GetPoints()), ends+len(m.GetEnds())
	}); err != nil || points != 10_000 || ends != 2 {
		t.Errorf("%d points, %d ends, %v", points, ends, err)
	}
	if from, to := toListedRange(0, 0); from != scan.TimeMsMin || to != scan.TimeMsMax {
		t.Errorf("a list of all of time is from %d to %d", from, to)
	}
	list, err := client.ListSeries(t.Context(), &nodev1.ListSeriesRequest{Selector: &tickmeshv1.Selector{}, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	total, keys := int64(0), map[uint32]int{}
	if err := everything(t, list, func(m *nodev1.ListSeriesResponse) {
		for _, k := range m.GetKeys() {
			keys[k.GetShard()] += len(k.GetKeys())
			total += k.GetTotal()
		}
	}); err != nil || total != 10_000 || keys[3] != 5000 || keys[8] != 5000 {
		t.Errorf("%d in all, %v, %v", total, keys, err)
	}
	checkNames(t, client, names, shards)
}

func checkNames(t *testing.T, client nodev1.NodeServiceClient, names []string, shards []uint32) {
	t.Helper()
	stream, err := client.ListNames(t.Context(), &nodev1.ListNamesRequest{
		Kind: tickmeshv1.NameKind_NAME_KIND_TAG_VALUE, TagName: []byte("t"), Prefix: []byte("na"), Limit: 7, Shards: shards, FromMs: -5, ToMs: math.MaxInt64,
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	ends := map[uint16]error{}
	if err := everything(t, stream, func(m *nodev1.ListNamesResponse) {
		for _, n := range m.GetNames() {
			got = append(got, string(n))
		}
		for _, e := range m.GetEnds() {
			shard, shardErr, _ := wire.ToShardEnd(e)
			ends[shard] = shardErr
		}
	}); err != nil || !slices.Equal(got, names) {
		t.Errorf("%d names, %v", len(got), err)
	}
	if err, ok := ends[8]; !ok || err != nil || !errors.Is(ends[3], wire.ErrInternal) {
		t.Errorf("ends: %v", ends)
	}
}
