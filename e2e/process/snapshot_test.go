package process

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
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
// of a server with one shard has is what there was after one of the operations: all up to it, and none behind it. It is
// one that was not answered before the backup began, or the last that was.
func TestBackupIsACut(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), "--shards", "1")
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
	for n := range 3 {
		r := run{name: fmt.Sprint("b", n), before: answered.Load()}
		_, stderr := target.run(t, "backup", "--addr", server.addr["grpc"], "--name", r.name, "--incremental")
		if strings.Contains(stderr, "snapshot") {
			t.Errorf("a backup without a snapshot: %s", stderr)
		}
		r.after = answered.Load() + 1
		runs = append(runs, r)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if held := figuresOf(t, server, "tickmesh_snapshots"); held != 0 {
		t.Errorf("%v snapshots are held after the backups", held)
	}
	if taken := figuresOf(t, server, "tickmesh_snapshots_taken_total"); taken != float64(len(runs)) {
		t.Errorf("%v snapshots were taken", taken)
	}
	for _, r := range runs {
		if r.after-r.before < 20 {
			t.Errorf("only %d operations were done while backup %s ran", r.after-r.before, r.name)
		}
		restored := startServer(t, t.TempDir())
		target.run(t, "restore", "--addr", restored.addr["grpc"], "--name", r.name)
		got := contents(t, connect(t, restored), "")
		has, at := map[string]uint64{}, int64(-1)
		for n := range operations {
			operations[n].play(has)
			if done := int64(n) + 1; done >= r.before && done <= r.after && maps.Equal(has, got) {
				at = done
				break
			}
		}
		if at < 0 {
			t.Errorf("backup %s has %d samples, which there were after none of the operations %d to %d", r.name, len(got), r.before, r.after)
		}
	}
}

// TestBackupOfClusterHasNoSnapshot: a backup of a cluster says that it is no cut, and is whole all the same.
func TestBackupOfClusterHasNoSnapshot(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), "--nodes", "2", "--shards", "2")
	now := model{}
	now.put(t, connect(t, server), randomSamples(t, rand.New(rand.NewPCG(2, 2)), "", 3))
	target := backupTarget{name: filepath.Join(t.TempDir(), "backups")}
	_, stderr := target.run(t, "backup", "--addr", server.addr["grpc"], "--name", "a")
	if !strings.Contains(stderr, "without a snapshot") {
		t.Errorf("it does not say that it is no cut: %s", stderr)
	}
	restored := startServer(t, t.TempDir())
	target.run(t, "restore", "--addr", restored.addr["grpc"])
	now.compare(t, connect(t, restored))
}
