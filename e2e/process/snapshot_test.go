package process

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// countedOperation is a write of one sample, or a delete of all samples of its series.
type countedOperation struct {
	series *client.Series
	timeMs int64
	remove bool
}

func (o *countedOperation) do(t *testing.T, c *client.Client) error {
	if !o.remove {
		return c.Write(t.Context(), client.Sample{Series: o.series, TimeMs: o.timeMs, Value: float64(o.timeMs)})
	}
	_, err := c.Delete(t.Context(), scan.Selector{Metric: o.series.Metric()}, scan.TimeMsMin, scan.TimeMsMax)
	return err
}

func (o *countedOperation) play(has map[string]uint64) {
	if !o.remove {
		has[sampleName(o.series, o.timeMs)] = math.Float64bits(float64(o.timeMs))
		return
	}
	prefix := strings.TrimSuffix(sampleName(o.series, 0), "0")
	maps.DeleteFunc(has, func(name string, _ uint64) bool { return strings.HasPrefix(name, prefix) })
}

// TestBackupIsACut has one writer write and delete, each after the answer to the one before, while backups run. What a backup
// has of a shard is what there was of it after one of the operations: all up to it, and none behind it. It is
// one that was not answered before the backup began, or the last that was. A metric has one series, which is in one shard.
func TestBackupIsACut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags    []string
		byMetric bool // there are several shards
	}{
		"alone":     {flags: []string{"--shards", "1"}},
		"one shard": {flags: []string{"--shards", "1", "--nodes", "3", "--replication", "2"}},
		"cluster":   {flags: []string{"--shards", "8", "--nodes", "3", "--replication", "2"}, byMetric: true},
	} {
		t.Run(name, func(t *testing.T) { testBackupIsACut(t, test.byMetric, test.flags...) })
	}
}

func testBackupIsACut(t *testing.T, byMetric bool, flags ...string) {
	server := startServer(t, t.TempDir(), flags...)
	c := connect(t, server)
	const metrics = 60
	var list []*client.Series
	for n := range metrics {
		s, err := client.NewSeries(fmt.Sprintf("m%02d", n))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	const operationsMax = 1 << 20
	operations := make([]countedOperation, 0, operationsMax)
	var answered atomic.Int64
	stop, stopped := make(chan struct{}), make(chan error, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	go func() {
		for n := range int64(operationsMax) {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			operations = append(operations, countedOperation{series: list[rng.IntN(metrics)], timeMs: 1_750_000_000_000 + n*1000, remove: rng.IntN(40) == 0})
			if err := operations[n].do(t, c); err != nil {
				stopped <- err
				return
			}
			answered.Add(1)
		}
		stopped <- nil
	}()
	waitFor(t, "operations", func() bool { return answered.Load() > 500 })
	target := backupTarget{name: filepath.Join(t.TempDir(), "backups")}
	type run struct {
		name          string
		before, after int64
	}
	var runs []run
	const runsMin, runsMax, besideMin = 3, 20, 20
	beside := int64(0) // operations that were done while backups ran: on a busy machine a backup may see next to none
	for n := 0; n < runsMin || beside < besideMin && n < runsMax; n++ {
		r := run{name: fmt.Sprint("b", n), before: answered.Load()}
		_, stderr := target.run(t, "backup", "--addr", server.addr["grpc"], "--name", r.name, "--incremental")
		if strings.Contains(stderr, "snapshot") {
			t.Errorf("a backup without a snapshot: %s", stderr)
		}
		r.after = answered.Load() + 1
		beside += r.after - r.before - 1
		runs = append(runs, r)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if held := figuresOf(t, server, "tickmesh_snapshots"); held != 0 {
		t.Errorf("%v snapshots are held after the backups", held)
	}
	if taken := figuresOf(t, server, "tickmesh_snapshots_taken_total"); taken < float64(len(runs)) || !byMetric && taken != float64(len(runs)) {
		t.Errorf("%v snapshots were taken", taken)
	}
	if beside < besideMin {
		t.Errorf("only %d operations were done while %d backups ran", beside, len(runs))
	}
	for _, r := range runs {
		restored := startServer(t, t.TempDir())
		target.run(t, "restore", "--addr", restored.addr["grpc"], "--name", r.name)
		got := contents(t, connect(t, restored), "")
		if !byMetric {
			checkCut(t, r.name, operations, r.before, r.after, got)
			continue
		}
		for _, one := range list {
			of := func(name string) bool { return strings.HasPrefix(name, strings.TrimSuffix(sampleName(one, 0), "0")) }
			some := maps.Clone(got)
			maps.DeleteFunc(some, func(name string, _ uint64) bool { return !of(name) })
			var own []countedOperation // the others do nothing
			for n := range operations {
				o := operations[n]
				if o.series != one {
					o = countedOperation{}
				}
				own = append(own, o)
			}
			checkCut(t, r.name+" of "+one.Metric(), own, r.before, r.after, some)
		}
	}
}

// checkCut checks that got is what there was after one of the operations from the one before to the one after.
func checkCut(t *testing.T, name string, operations []countedOperation, before, after int64, got map[string]uint64) {
	t.Helper()
	has := map[string]uint64{}
	for n := range operations {
		if operations[n].series != nil {
			operations[n].play(has)
		}
		if done := int64(n) + 1; done >= before && done <= after && maps.Equal(has, got) {
			return
		}
	}
	t.Errorf("backup %s has %d samples, which there were after none of the operations %d to %d", name, len(got), before, after)
}

// TestSnapshotOfCluster: a snapshot of a cluster is read to the end whoever leads meanwhile, by any router, also while
// deletes go on. When a node that holds a part of it is killed, reads say that it has ended; a new one has everything.
func TestSnapshotOfCluster(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for n := range 4 { // without one there is room for two copies and a witness
		c.startNode(fmt.Sprint("n", n))
	}
	router := c.startRouter()
	other := c.startRouter()
	c.awaitCopies(router)
	now := model{}
	source := connect(t, router)
	now.put(t, source, randomSamples(t, rand.New(rand.NewPCG(3, 3)), "", 40))
	want := contents(t, source, "")
	name, err := source.TakeSnapshot(t.Context(), []string{""})
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range []string{"m0", "m1", "m2"} {
		if _, err := source.Delete(t.Context(), scan.Selector{Metric: metric}, scan.TimeMsMin, scan.TimeMsMax); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := source.Delete(t.Context(), scan.Selector{MetricAny: true}, scan.TimeMsMin, scan.TimeMsMax); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshotContents(t, connect(t, other), allAtOne(t, name)); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("shards are read from a node that did not confirm them: %v", err)
	}
	holder := holderOf(t, name)
	c.drain(router, holder) // its shards move and others lead them, while it holds what it took
	for _, r := range []*testServer{router, other} {
		if got, err := snapshotContents(t, connect(t, r), name); err != nil || !maps.Equal(got, want) {
			t.Errorf("the snapshot has %d samples instead of %d, %v", len(got), len(want), err)
		}
	}
	killed := c.nodes[int(holder[1]-'0')]
	killed.signal(syscall.SIGKILL)
	killed.wait()
	if _, err := snapshotContents(t, connect(t, other), name); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("without a node that holds a part, reads end with %v", err)
	}
	if err := source.EndSnapshot(t.Context(), name); err != nil {
		t.Logf("the end of a snapshot of which a node is gone: %v", err)
	}
	again := model{}
	again.put(t, source, randomSamples(t, rand.New(rand.NewPCG(4, 4)), "", 10))
	want = contents(t, source, "")
	if name, err = source.TakeSnapshot(t.Context(), []string{""}); err != nil {
		t.Fatal(err)
	}
	if got, err := snapshotContents(t, connect(t, other), name); err != nil || !maps.Equal(got, want) {
		t.Errorf("the next snapshot has %d samples instead of %d, %v", len(got), len(want), err)
	}
	if err := source.EndSnapshot(t.Context(), name); err != nil {
		t.Error(err)
	}
	if _, err := snapshotContents(t, connect(t, other), name); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("after its end, reads end with %v", err)
	}
}

// holderOf returns a node that holds shards of a snapshot.
func holderOf(t *testing.T, name string) string {
	t.Helper()
	return partsOf(t, name)[0].GetNode()
}

// partsOf returns the parts of a snapshot, each of which has shards.
func partsOf(t *testing.T, name string) []*nodev1.SnapshotPart {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil {
		t.Fatal(err)
	}
	m := &nodev1.ClusterSnapshot{}
	if err := proto.Unmarshal(b, m); err != nil || len(m.GetParts()) < 2 {
		t.Fatalf("%v, %v", m, err)
	}
	return m.GetParts()
}

// allAtOne returns the made-up name of a snapshot of which one node has all shards.
func allAtOne(t *testing.T, name string) string {
	t.Helper()
	parts := partsOf(t, name)
	for _, p := range parts[1:] {
		parts[0].Shards = append(parts[0].GetShards(), p.GetShards()...)
	}
	b, err := proto.Marshal(&nodev1.ClusterSnapshot{Parts: parts[:1]})
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// snapshotContents returns the samples of a snapshot, by sampleName.
func snapshotContents(t *testing.T, c *client.Client, name string) (map[string]uint64, error) {
	has := map[string]uint64{}
	query := client.Query{Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}
	query.Snapshot = name
	for chunk, err := range c.Query(t.Context(), query) {
		if err != nil {
			return nil, err
		}
		for i, ms := range chunk.TimesMs {
			has[sampleName(chunk.Series, ms)] = math.Float64bits(chunk.Values[i])
		}
	}
	return has, nil
}
