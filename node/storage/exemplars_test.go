package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/exemplar"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// memoryOf returns what an exemplar takes of a ring.
func memoryOf(x series.Exemplar) int64 {
	var r exemplar.Ring
	if err := r.Add(exemplar.BoundMax, x); err != nil {
		panic(err)
	}
	return r.Bytes()
}

func (m *slowShard) dropTraces(gone func(*series.Exemplar) bool) {
	m.traces = slices.DeleteFunc(m.traces, func(x series.Exemplar) bool { return gone(&x) })
}

// keepTrace keeps an exemplar, if it is behind the last one of its series that is kept.
func (m *slowShard) keepTrace(bound int64, x series.Exemplar) {
	sum := func() (bytes int64) {
		for _, x := range m.traces {
			bytes += memoryOf(x)
		}
		return bytes
	}
	for sum() > bound {
		m.traces = slices.Clone(m.traces[1:])
	}
	last := int64(-1)
	for _, of := range m.traces {
		if string(of.Key) == string(x.Key) {
			last = max(last, of.TimeMs)
		}
	}
	if x.TimeMs <= last || memoryOf(x) > bound {
		return
	}
	m.traces = append(slices.Clone(m.traces), x)
	for sum() > bound {
		m.traces = slices.Clone(m.traces[1:])
	}
}

// visibleTraces returns what a query should find: by key, and then in the order in which they came.
func (m *slowShard) visibleTraces() []series.Exemplar {
	var visible []series.Exemplar
	for _, x := range m.traces {
		if x.TimeMs >= m.cutOf(string(x.Key)) {
			visible = append(visible, x)
		}
	}
	slices.SortStableFunc(visible, func(a, b series.Exemplar) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return visible
}

// exemplars adds an entry of exemplars.
func (l *labLog) exemplars(rng *rand.Rand) {
	bound := int64(6000)
	if rng.IntN(10) == 0 {
		bound = []int64{0, 500, 2000, 9000}[rng.IntN(4)]
	}
	var all []series.Exemplar
	for range 1 + rng.IntN(6) {
		at := l.nowMs - rng.Int64N(3600_000)
		all = append(all, series.Exemplar{
			Key: l.keys[rng.IntN(len(l.keys))], TimeMs: at, Value: float64(at % 1000),
			Labels: []series.ExemplarLabel{{Name: "trace_id", Value: fmt.Sprint(at)}},
		})
	}
	l.add(entry.Exemplars, entry.ExemplarsBody(bound, all), func(m *slowShard) {
		for _, x := range all {
			m.keepTrace(bound, x)
		}
	})
}

func (n *labNode) compareTraces(what string, shard int, m *slowShard) {
	n.t.Helper()
	got, err := n.e.Exemplars(uint16(shard), &scan.Selector{MetricAny: true}, scan.TimeMsMin, scan.TimeMsMax)
	if want := m.visibleTraces(); err != nil || len(want) != len(got) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		n.t.Fatalf("%s: shard %d after entry %d has exemplars %v, %v, want %v", what, shard, n.appliedTo(shard), got, err, want)
	}
	n.traces += len(got)
}

// TestExemplarsMove is TestShardsMove with exemplars.
func TestExemplarsMove(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			moveShards(t, seed, func(l *labLog) { l.traces, l.churn = true, seed%2 == 1 })
		})
	}
}

// TestExemplarsOutliveCrashes lets one node lose its power again and again, between checkpoints.
func TestExemplarsOutliveCrashes(t *testing.T) {
	for seed := range uint64(storagetest.Seeds(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			outliveCrashes(t, seed)
		})
	}
}

func outliveCrashes(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	logs := newLabLogs()
	for _, l := range logs {
		l.traces, l.churn = true, seed%2 == 1
	}
	n := newLabNode(t, logs)
	defer func() { n.end() }()
	for shard := range labShards {
		n.hosts[shard] = true
	}
	for step := range 120 {
		shard := rng.IntN(labShards)
		for range 1 + rng.IntN(10) {
			logs[shard].grow(rng)
		}
		n.apply(shard, 10)
		switch rng.IntN(4) {
		case 0:
			n.crash(rng)
		case 1:
			if err := n.checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		n.check(fmt.Sprint("step ", step))
	}
	if n.traces == 0 {
		t.Fatal("there never was an exemplar")
	}
}

// TestExemplarFileDamaged starts without the exemplars when their file is damaged or missing, and with all else.
func TestExemplarFileDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name   string
		damage func(fsys vfs.FS, file string) error
	}{
		{"missing", func(fsys vfs.FS, file string) error { return fsys.Remove(file) }},
		{"damaged", func(fsys vfs.FS, file string) error {
			return vfs.WriteFile(fsys, file, []byte("TMEXEMP\x01 and no more"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			logs := newLabLogs()
			n := newLabNode(t, logs)
			n.hosts[0] = true
			for range 20 {
				logs[0].write(rng)
				logs[0].exemplars(rng)
			}
			n.apply(0, 40)
			if err := errors.Join(n.checkpoint(), n.checkpoint()); err != nil {
				t.Fatal(err)
			}
			file := n.e.files.Present().ExemplarFile
			if file == "" || n.e.Stats().ExemplarBytes == 0 {
				t.Fatalf("exemplars of %d bytes are in the file %q", n.e.Stats().ExemplarBytes, file)
			}
			n.end()
			if err := c.damage(n.fs, path.Join("data", file)); err != nil {
				t.Fatal(err)
			}
			n.open()
			defer n.end()
			if n.e.Stats().Corruptions != 1 || n.e.Stats().ExemplarBytes != 0 {
				t.Errorf("%d corruptions, and exemplars of %d bytes", n.e.Stats().Corruptions, n.e.Stats().ExemplarBytes)
			}
			if got, err := n.contents(0); err != nil || len(got) == 0 {
				t.Errorf("%d series, %v", len(got), err)
			}
		})
	}
}

// TestNoExemplarFile leaves a folder without exemplars as it always was.
func TestNoExemplarFile(t *testing.T) {
	logs := newLabLogs()
	n := newLabNode(t, logs)
	defer n.end()
	n.hosts[0] = true
	rng := rand.New(rand.NewPCG(2, 1))
	for range 5 {
		logs[0].write(rng)
	}
	n.apply(0, 5)
	if err := n.checkpoint(); err != nil {
		t.Fatal(err)
	}
	names, err := n.fs.List("data")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "exemplars-") }) || n.e.files.Present().ExemplarFile != "" {
		t.Errorf("there are %v", names)
	}
}

// TestAdmitExemplars looks at what a leader lets into the log.
func TestAdmitExemplars(t *testing.T) {
	logs := newLabLogs()
	n := newLabNode(t, logs)
	defer n.end()
	n.hosts[0] = true
	var e series.BatchEncoder
	known, unknown := logs[0].keys[0], logs[0].keys[1]
	e.Append(e.Define(known), logs[0].nowMs, 1, 0)
	batch := e.AppendTo(nil)
	logs[0].add(entry.Samples, append(entry.AppendBatchHeader(entry.AppendTime(nil, 0), series.BatchID{}, len(batch)), batch...), func(*slowShard) {})
	n.apply(0, 1)
	of := func(key series.Key, timeMs int64) series.Exemplar { return series.Exemplar{Key: key, TimeMs: timeMs} }
	const bound = 10000
	admit := func(bound int64, all ...series.Exemplar) (int, series.ExemplarOutcomes) {
		fresh, o, err := n.e.AdmitExemplars(t.Context(), 0, bound, all)
		if err != nil {
			t.Fatal(err)
		}
		return len(fresh), o
	}
	bad := of(known, 20)
	bad.Labels = []series.ExemplarLabel{{Name: "a"}}
	if fresh, o := admit(bound, of(known, 5), of(known, 5), of(known, 9), of(known, 8), of(unknown, 5), of(logs[1].keys[0], 5), bad); fresh != 2 ||
		o != (series.ExemplarOutcomes{Kept: 3, OutOfOrder: 1, Refused: 3}) {
		t.Errorf("%d fresh ones, %+v", fresh, o)
	}
	logs[0].add(entry.Exemplars, entry.ExemplarsBody(bound, []series.Exemplar{of(known, 5), of(known, 9)}), func(*slowShard) {})
	n.apply(0, 1)
	if fresh, o := admit(bound, of(known, 5), of(known, 9), of(known, 10)); fresh != 1 || o != (series.ExemplarOutcomes{Kept: 2, OutOfOrder: 1}) {
		t.Errorf("sent again: %d fresh ones, %+v", fresh, o)
	}
	if fresh, o := admit(0, of(known, 50)); fresh != 0 || o.Refused != 1 {
		t.Errorf("off: %d fresh ones, %+v", fresh, o)
	}
}

// tracedNode returns a node with exemplars of shard 0, as of a checkpoint.
func tracedNode(t *testing.T, rng *rand.Rand) *labNode {
	t.Helper()
	n := newLabNode(t, newLabLogs())
	n.hosts[0] = true
	for range 20 {
		n.logs[0].write(rng)
		n.logs[0].exemplars(rng)
	}
	n.apply(0, 40)
	if err := errors.Join(n.checkpoint(), n.checkpoint()); err != nil {
		t.Fatal(err)
	}
	if n.e.files.Present().ExemplarFile == "" || n.e.Stats().ExemplarBytes == 0 {
		t.Fatal("there are no exemplars")
	}
	return n
}

// TestExemplarsWithoutRoom makes a checkpoint while the disk has no room for exemplars, and starts after it: samples are
// there, and those exemplars that came back would be what a delete may have taken since.
func TestExemplarsWithoutRoom(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	n := tracedNode(t, rng)
	n.logs[0].exemplars(rng)
	n.logs[0].write(rng)
	n.apply(0, 2)
	n.setRule(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && strings.HasPrefix(path.Base(op.Name), "exemplars-") {
			return syscall.ENOSPC
		}
		return nil
	})
	if err := errors.Join(n.checkpoint(), n.checkpoint()); err != nil {
		t.Fatal(err)
	}
	n.setRule(nil)
	if n.e.files.Present().ExemplarFile != "" {
		t.Error("the manifest names a file of exemplars")
	}
	names, err := n.fs.List("data")
	if err != nil || slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "exemplars-") }) {
		t.Errorf("there are %v, %v", names, err)
	}
	n.check("after the checkpoint")
	if err := n.checkpoint(); err != nil || n.e.files.Present().ExemplarFile == "" {
		t.Errorf("with room again: %v", err)
	}
	n.crash(rng)
	n.check("after the start")
	n.end()
}

// TestExemplarFileUnread starts without the exemplars when the disk does not read their file.
func TestExemplarFileUnread(t *testing.T) {
	n := tracedNode(t, rand.New(rand.NewPCG(6, 1)))
	n.end()
	n.setRule(func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && strings.HasPrefix(path.Base(op.Name), "exemplars-") {
			return syscall.EIO
		}
		return nil
	})
	n.open()
	defer n.end()
	if n.e.Stats().Corruptions != 1 || n.e.Stats().ExemplarBytes != 0 {
		t.Errorf("%d corruptions, and exemplars of %d bytes", n.e.Stats().Corruptions, n.e.Stats().ExemplarBytes)
	}
	if got, err := n.contents(0); err != nil || len(got) == 0 {
		t.Errorf("%d series, %v", len(got), err)
	}
}

// TestExemplarsAhead moves a shard away from a node whose file of exemplars has later entries than it has applied since
// its start.
func TestExemplarsAhead(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	n := tracedNode(t, rng)
	n.logs[0].write(rng)
	n.logs[0].exemplars(rng)
	n.apply(0, 2)
	if err := n.checkpoint(); err != nil { // its place in the log is before these entries
		t.Fatal(err)
	}
	n.end()
	written := n.written
	n.written = n.written[:n.e.LogPosition()] // what is behind it comes again later
	n.open()
	n.written = written
	applied := n.appliedTo(0)
	if ring := n.e.shards[0].mu.exemplars.Entry(); ring <= applied {
		t.Fatalf("the exemplars are of entry %d, the shard of entry %d", ring, applied)
	}
	to := newLabNode(t, n.logs)
	if err := send(n, to, 0, whole); err != nil {
		t.Fatal(err)
	}
	to.apply(0, 10)
	to.check("moved")
	n.end()
	to.end()
}
