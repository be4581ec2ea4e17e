package fanout

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/shardmap"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// answerSource returns what a node's messages hold, as a scan takes them.
type answerSource struct {
	scan.Source
	cluster *Cluster
	answer  []byte
}

func (s *answerSource) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	if request.Steps != nil && request.Steps.Fold != nil {
		return s.fold(ctx, request, visit)
	}
	run := &scanRun{request: request, visit: visit, workers: make(chan int, 4), heldMax: 100}
	for worker := range cap(run.workers) { // each shard may keep one
		run.workers <- worker
	}
	run.cluster, run.source, run.wake = s.cluster, s.cluster.Source(scan.Consistency{}), make(chan struct{}, 1)
	n := &node{id: "a"}
	n.leaders.close() // there is no node to ask
	var reads []*shardRead
	for shard := range uint16(4) {
		reads = append(reads, &shardRead{shard: shard, node: n, after: uint32(shard)})
	}
	run.mu.left = len(reads)
	c := &scanCall{run: run, group: newGroup(n, reads...), worker: noWorker}
	defer c.drop()
	for rest := s.answer; len(rest) > 0; {
		size := min(int(rest[0]), len(rest)-1)
		var m nodev1.ScanResponse
		if proto.Unmarshal(rest[1:1+size], &m) != nil {
			return nil
		}
		if c.take(ctx, &m) != nil {
			return nil
		}
		if c.worker == noWorker != (c.read == nil || c.read.partial != c.id) {
			panic("a visitor is held without need, or not held")
		}
		rest = rest[1+size:]
	}
	return nil
}

// fold is what a fold takes of the messages.
func (s *answerSource) fold(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	l := newShardList(s.cluster.Source(scan.Consistency{}), func(rows []*scan.Chunk) error {
		for _, row := range rows {
			if err := visit(0, row); err != nil {
				return err
			}
		}
		return nil
	})
	l.wake = make(chan struct{}, 1)
	n := &node{id: "a"}
	n.leaders.close() // there is no node to ask
	var reads []*shardRead
	for shard := range uint16(4) {
		reads = append(reads, &shardRead{shard: shard, node: n})
	}
	l.mu.left = len(reads)
	c := newFoldCall(ctx, l, newGroup(n, reads...), request)
	for rest := s.answer; len(rest) > 0; {
		size := min(int(rest[0]), len(rest)-1)
		var m nodev1.ScanResponse
		if proto.Unmarshal(rest[1:1+size], &m) != nil {
			return nil //nolint:nilerr // no message, so nothing is taken
		}
		err := c.take(&m)
		if errors.Is(err, scantest.ErrChunk) {
			return err
		}
		if err != nil {
			break
		}
		rest = rest[1+size:]
	}
	return nil //nolint:nilerr // a message may be refused
}

// FuzzScanAnswer: whatever a node answers, visitors get chunks as package scan
// promises them.
func FuzzScanAnswer(f *testing.F) {
	c := New(Options{Limits: Limits{ResolverBytesMax: 1}})
	f.Cleanup(c.Close)
	c.current.Store(&view{rows: make([]shardmap.Row, 4)})
	key := scantest.Key("", "m", "a", "b")
	good := []*nodev1.ScanResponse{
		{Chunks: []*nodev1.Chunk{
			{Shard: 1, Id: 2, Key: key, Columns: &tickmeshv1.Columns{TimeDeltasMs: []int64{1, 2}, Values: []float64{1, 2}}},
			{Shard: 1, Id: 2, Columns: &tickmeshv1.Columns{TimeDeltasMs: []int64{10}, Values: []float64{3}}, SeriesEnd: true},
		}},
		{
			Chunks: []*nodev1.Chunk{{Shard: 0, Id: 1, Key: scantest.Key("", "n"), Columns: &tickmeshv1.Columns{}}},
			Ends:   []*nodev1.ShardEnd{{Shard: 1}, {Shard: 0, Error: &tickmeshv1.Error{Kind: 1}}},
		},
	}
	var seed []byte
	for _, m := range good {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		seed = append(append(seed, byte(len(b))), b...)
	}
	f.Add(seed)
	rows := &nodev1.ScanResponse{
		Chunks: []*nodev1.Chunk{
			{Shard: 1, Id: 2, Key: key, Steps: true, Columns: &tickmeshv1.Columns{TimeDeltasMs: []int64{1, 2}, Values: []float64{1, 2}}, SeriesEnd: true},
			{Shard: 1, Id: 3, Key: key, Steps: true, Series: 3, Columns: &tickmeshv1.Columns{TimeDeltasMs: []int64{1, 2}, Counts: []int64{1, 2}}},
		},
		Ends: []*nodev1.ShardEnd{{Shard: 1}},
	}
	b, err := proto.Marshal(rows)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append([]byte{byte(len(b))}, b...))
	f.Fuzz(func(t *testing.T, answer []byte) {
		s := &answerSource{cluster: c, answer: answer}
		at := scan.Steps{LastMs: 40, StepMs: 4, RangeMs: 10, Function: scan.StepCount}
		newest, count, greatest := at, at, at
		newest.Function = scan.StepNewest
		count.Fold, greatest.Fold = &scan.Fold{Kind: scan.FoldCount}, &scan.Fold{Kind: scan.FoldMax, Names: []string{"a"}}
		for _, steps := range []*scan.Steps{nil, &at, &newest, &count, &greatest} {
			request := &scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Parallel: 4, Steps: steps}
			if _, err := scantest.Collect(context.Background(), s, request); err != nil {
				t.Fatal(steps, err)
			}
		}
	})
}
