package node

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// samplesIn returns how many samples a source has.
func samplesIn(t *testing.T, source scan.Source) (samples int) {
	t.Helper()
	err := source.Scan(context.Background(), &scan.Request{Selector: scan.Selector{MetricAny: true}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}, func(_ int, c *scan.Chunk) error {
		samples += len(c.Times)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// TestSnapshotsOfNode: a snapshot stays as it was, there are only so many, one that is not read ends, and none outlives the
// process.
func TestSnapshotsOfNode(t *testing.T) {
	var past atomic.Int64
	o := testOptions(vfs.NewMemFS(), SyncAlways)
	start := time.Unix(1_750_000_000, 0)
	o.Clock = func() time.Time { return start.Add(time.Duration(past.Load())) }
	ticks := make(chan time.Time)
	o.Ticker = func(time.Duration) (<-chan time.Time, func()) { return ticks, func() {} }
	n := mustOpen(t, o)
	rng, m := rand.New(rand.NewPCG(1, 1)), model{}
	writeSome := func() {
		for range 20 {
			act(t, rng, n, m, start.UnixMilli())
		}
	}
	read := func(name string) (int, error) {
		source, done, err := n.SnapshotOf(name, nil)
		if err != nil {
			return 0, err
		}
		defer done()
		return samplesIn(t, source), nil
	}
	writeSome()
	want := samplesIn(t, n)
	first, err := n.TakeSnapshot(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	writeSome()
	if got, err := read(first); err != nil || got != want {
		t.Fatalf("%d samples, want %d, %v", got, want, err)
	}
	for range snapshotsMax - 1 {
		if _, err := n.TakeSnapshot(t.Context(), "", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.TakeSnapshot(t.Context(), "", nil); !errors.Is(err, series.ErrOverloaded) {
		t.Fatalf("one too many: %v", err)
	}
	past.Add(int64(snapshotIdleLeast))
	if _, err := read(first); err != nil {
		t.Fatal(err)
	}
	if _, err := n.TakeSnapshot(t.Context(), "", nil); err != nil || n.snapshotFigures().held != snapshotsMax {
		t.Fatalf("one that was not read makes no room: %v", err)
	}
	past.Add(int64(snapshotIdleMost) / 2)
	if _, err := read(first); err != nil {
		t.Fatal(err)
	}
	past.Add(int64(snapshotIdleMost) / 2)
	for n.snapshotFigures().lapsed < snapshotsMax {
		ticks <- time.Time{}
	}
	if _, err := read(first); err != nil || n.snapshotFigures().held != 1 {
		t.Fatalf("%d are held, %v", n.snapshotFigures().held, err)
	}
	if err := n.EndSnapshot(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := read(first); !errors.Is(err, ErrSnapshotEnded) {
		t.Fatalf("after its end: %v", err)
	}
	last, err := n.TakeSnapshot(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := o.FS.Stat(storage.SnapshotFolder(o.DataDir, last)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a closed node has left a snapshot: %v", err)
	}
	if _, err := n.TakeSnapshot(t.Context(), "", nil); !errors.Is(err, series.ErrUnavailable) {
		t.Fatalf("of a closed node: %v", err)
	}
}

// TestSnapshotsOfOwner: one user has half of the snapshots, whatever is read of them; others have the rest, and of these nobody in
// particular all. None stays for more than a day, though it is read on.
func TestSnapshotsOfOwner(t *testing.T) {
	var past atomic.Int64
	o := testOptions(vfs.NewMemFS(), SyncAlways)
	start := time.Unix(1_750_000_000, 0)
	o.Clock = func() time.Time { return start.Add(time.Duration(past.Load())) }
	ticks := make(chan time.Time)
	o.Ticker = func(time.Duration) (<-chan time.Time, func()) { return ticks, func() {} }
	n := mustOpen(t, o)
	defer n.Close()
	var names []string
	for range snapshotsOfOwner {
		name, err := n.TakeSnapshot(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if _, err := n.TakeSnapshot(t.Context(), "a", nil); !errors.Is(err, errSnapshotsOfOwner) {
		t.Fatalf("one too many of a user: %v", err)
	}
	if _, err := n.TakeSnapshot(t.Context(), "b", nil); err != nil {
		t.Fatalf("of another user: %v", err)
	}
	past.Add(int64(snapshotIdleLeast))
	if _, err := n.TakeSnapshot(t.Context(), "a", nil); err != nil || n.snapshotFigures().held != snapshotsOfOwner+1 {
		t.Fatalf("one that is not read makes no room for its user: %v", err)
	}
	if _, err := n.TakeSnapshot(t.Context(), "", nil); err != nil || n.snapshotFigures().held != snapshotsMax {
		t.Fatalf("of nobody in particular: %v", err)
	}
	var source *read.Source
	for _, name := range names { // one of them has made room
		if s, _, err := n.SnapshotOf(name, nil); err == nil {
			source = s
		}
	}
	if source == nil {
		t.Fatal("both were given up")
	}
	past.Add(int64(snapshotLifeMost))
	for n.snapshotFigures().held > 0 {
		ticks <- time.Time{}
	}
}

// TestSnapshotOfFullDisk: where the disk takes no links there is no snapshot, and who asks is told why.
func TestSnapshotOfFullDisk(t *testing.T) {
	var full atomic.Bool
	o := testOptions(vfs.Faults(vfs.NewMemFS(), func(op vfs.Op) error {
		if full.Load() && op.Kind == vfs.OpLink {
			return syscall.ENOSPC
		}
		return nil
	}), SyncAlways)
	n := mustOpen(t, o)
	rng, m := rand.New(rand.NewPCG(2, 1)), model{}
	for range 20 {
		act(t, rng, n, m, time.Now().UnixMilli())
	}
	full.Store(true)
	if _, err := n.TakeSnapshot(t.Context(), "", nil); !errors.Is(err, series.ErrReadOnly) {
		t.Fatalf("on a full disk: %v", err)
	}
	full.Store(false)
	name, err := n.TakeSnapshot(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	// While the log has no room, what snapshots hold is given back.
	reason := series.ErrReadOnly
	n.loop.refusals.full.Store(&reason)
	if !n.snapshotsLapse(time.Now()) {
		t.Fatal("a snapshot is held on a full disk")
	}
	if err := n.lapseSnapshots(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.SnapshotOf(name, nil); !errors.Is(err, ErrSnapshotEnded) {
		t.Fatalf("on a full disk: %v", err)
	}
	n.loop.refusals.full.Store(nil)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotThatNobodyGets: of one that cannot be made, or whose caller has gone, nothing stays; and while one is taken, others are
// told to come again.
func TestSnapshotThatNobodyGets(t *testing.T) {
	var onLink atomic.Pointer[func() error]
	o := testOptions(vfs.Faults(vfs.NewMemFS(), func(op vfs.Op) error {
		if do := onLink.Load(); do != nil && op.Kind == vfs.OpLink {
			return (*do)()
		}
		return nil
	}), SyncAlways)
	n := mustOpen(t, o)
	rng, m := rand.New(rand.NewPCG(3, 1)), model{}
	for range 20 {
		act(t, rng, n, m, time.Now().UnixMilli())
	}
	left := func() (names []string) {
		t.Helper()
		names, err := o.FS.List(storage.SnapshotFolder(o.DataDir, ""))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	noLinks := func() error { return syscall.ENOTSUP }
	onLink.Store(&noLinks)
	if _, err := n.TakeSnapshot(t.Context(), "", nil); !errors.Is(err, ErrNoSnapshots) || len(left()) > 0 {
		t.Fatalf("without links: %v, %v is left", err, left())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var second error
	goes := func() error {
		cancel()
		_, second = n.TakeSnapshot(t.Context(), "", nil)
		return nil
	}
	onLink.Store(&goes)
	if _, err := n.TakeSnapshot(ctx, "", nil); !errors.Is(err, context.Canceled) || len(left()) > 0 || n.snapshotFigures().held > 0 {
		t.Fatalf("of a caller who has gone: %v, %v is left, %d are held", err, left(), n.snapshotFigures().held)
	}
	if !errors.Is(second, series.ErrOverloaded) {
		t.Fatalf("while another is taken: %v", second)
	}
	onLink.Store(nil)
	if _, err := n.TakeSnapshot(t.Context(), "", nil); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotMemory: an open snapshot counts as memory of series until it has ended, and none is taken for which there is no room.
func TestSnapshotMemory(t *testing.T) {
	o := testOptions(vfs.NewMemFS(), SyncAlways)
	o.Memory.SeriesBytes = 64 << 20
	n := mustOpen(t, o)
	rng, m := rand.New(rand.NewPCG(4, 1)), model{}
	for range 20 {
		act(t, rng, n, m, time.Now().UnixMilli())
	}
	before := n.MemoryHeld().Series
	name, err := n.TakeSnapshot(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if held := n.MemoryHeld().Series; held <= before {
		t.Errorf("%d bytes are held with a snapshot, %d before", held, before)
	}
	if err := n.EndSnapshot(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	var giveBack []func()
	for {
		back, ok := n.engine.Lend()
		if !ok {
			break
		}
		giveBack = append(giveBack, back)
	}
	if _, err := n.TakeSnapshot(t.Context(), "", nil); !errors.Is(err, ErrNoSnapshots) {
		t.Errorf("without memory: %v", err)
	}
	for _, back := range giveBack {
		back()
	}
	if _, err := n.TakeSnapshot(t.Context(), "", nil); err != nil {
		t.Errorf("with memory again: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotOfSomeShards: only shards that were confirmed are read from a snapshot, whatever a reader asks for.
func TestSnapshotOfSomeShards(t *testing.T) {
	n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncAlways))
	defer n.Close()
	for _, confirmed := range [][]uint16{nil, {0}} {
		name, err := n.TakeSnapshot(t.Context(), "", func() []uint16 { return confirmed })
		if err != nil {
			t.Fatal(err)
		}
		for _, asked := range [][]uint16{nil, {1}, {0, 1}, {0}} {
			_, done, err := n.SnapshotOf(name, asked)
			if len(confirmed) == 1 && len(asked) == 1 && asked[0] == 0 {
				if err != nil {
					t.Fatal(err)
				}
				done()
			} else if !errors.Is(err, ErrNotInSnapshot) {
				t.Errorf("of %v, %v are read: %v", confirmed, asked, err)
			}
		}
	}
}
