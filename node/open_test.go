package node

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSecondStartIsRefused(t *testing.T) {
	fs := vfs.NewMemFS()
	n := mustOpen(t, testOptions(fs, SyncOff))
	if _, err := Open(testOptions(fs, SyncOff)); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "data is in use") {
		t.Errorf("the second start gave %v", err)
	}
	put(t, n, testKey(1), 1, 1) // the first one has not been harmed
	n = reopen(t, n, testOptions(fs, SyncOff))
	if got := contents(t, n); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("the second Close gave %v", err)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	for _, used := range []bool{false, true} {
		mem := vfs.NewMemFS()
		if used {
			n := mustOpen(t, testOptions(mem, SyncOff))
			put(t, n, testKey(1), 1, 1)
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
		readOnly := vfs.Faults(mem, func(op vfs.Op) error {
			if changesDisk(op.Kind) || op.Kind == vfs.OpMkdirAll && !used || op.Kind == vfs.OpOpenReadWrite || op.Kind == vfs.OpLock {
				return syscall.EROFS
			}
			return nil
		})
		_, err := Open(testOptions(readOnly, SyncOff))
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "data") {
			t.Errorf("used %v: %v", used, err)
		}
		if used {
			n := mustOpen(t, testOptions(mem, SyncOff))
			if got := contents(t, n); len(got) != 1 {
				t.Errorf("%v", got)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestLostManifestIsRefused(t *testing.T) {
	for _, kept := range []string{"segments", "log", "pages", "series"} {
		fs := vfs.NewMemFS()
		n := mustOpen(t, testOptions(fs, SyncOff))
		put(t, n, testKey(1), 1, 1)
		if err := n.CompactAll(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(filesBelow(t, fs, "data"), "data/log/LOCK") {
			if !strings.HasPrefix(name, "data/"+kept+"/") {
				if err := fs.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := Open(testOptions(fs, SyncOff)); !errors.Is(err, manifest.ErrUnusable) || !strings.Contains(err.Error(), "data has "+kept+"/") {
			t.Errorf("%s: %v", kept, err)
		}
	}
}

func TestBadNumberOfShards(t *testing.T) {
	for _, shards := range []int{-1, 1<<12 + 1} {
		fs := vfs.NewMemFS()
		o := testOptions(fs, SyncOff)
		o.Shards = shards
		if _, err := Open(o); err == nil {
			t.Errorf("%d shards were taken", shards)
		}
		if _, err := fs.Stat("data/MANIFEST"); err == nil {
			t.Errorf("%d shards are in a manifest", shards)
		}
	}
}

// TestStartFailsHalfWay fails every operation of a start in turn. The next start
// finds all there, and nothing is left running or locked.
func TestStartFailsHalfWay(t *testing.T) {
	disk, m := filled(t, 3)
	clone := func() *vfs.MemFS { return disk.CrashClone(vfs.CrashOptions{BlockPercent: 100, NamePercent: 100}) }
	all := &outage{kinds: func(vfs.OpKind) bool { return true }}
	n := mustOpen(t, testOptions(vfs.Faults(clone(), all.rule), SyncAlways))
	operations := all.seen.Load()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	step := max(operations/int64(storagetest.Seeds(60)), 1)
	for at := int64(1); at <= operations; at += step {
		mem := clone()
		o := &outage{kinds: all.kinds, from: at, to: at + 1, cause: syscall.EIO}
		n, err := Open(testOptions(vfs.Faults(mem, o.rule), SyncAlways))
		if err == nil {
			if _, failures := readable(t, n, scan.TimeMsMin); len(failures) == 0 {
				// A segment that cannot be opened is left out, and told.
				got := contents(t, n)
				if diff := differences(m, got); len(diff) > 0 && n.engine.Stats().Corruptions == 0 {
					t.Errorf("operation %d failed: %q", at, diff)
				}
			}
			_ = n.Close()
		} else if !errors.Is(err, syscall.EIO) {
			t.Errorf("operation %d: %v", at, err)
		}
		n = mustOpen(t, testOptions(mem, SyncAlways))
		if diff := differences(m, contents(t, n)); len(diff) > 0 {
			t.Errorf("operation %d failed, at the next start: %q", at, diff)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCloseEndsScans closes a node under a scan that is stuck, and under a
// writer.
func TestCloseEndsScans(t *testing.T) {
	n := mustOpen(t, testOptions(vfs.NewMemFS(), SyncOff))
	for i := range 40 {
		put(t, n, testKey(i), 1, 1)
	}
	if err := n.CompactAll(context.Background()); err != nil {
		t.Fatal(err)
	}
	started, scanned := make(chan struct{}), make(chan error)
	closing := make(chan struct{})
	go func() {
		first := true
		scanned <- n.Scan(context.Background(), &scan.Request{Selector: scan.Selector{MetricAny: true}, ToMs: 10},
			func(int, *scan.Chunk) error {
				if first {
					close(started)
					<-closing
					first = false
				}
				return nil
			})
	}()
	<-started
	written := make(chan error)
	go func() {
		for i := 0; ; i++ {
			w := &testWriter{node: n}
			w.encoders[0].Append(0, int64(i), 1, 0)
			if err := w.send(context.Background()); err != nil {
				written <- err
				return
			}
		}
	}()
	closed := make(chan error)
	go func() { closed <- n.Close() }()
	if err := <-written; !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("the writer got %v", err)
	}
	close(closing)
	if err := <-scanned; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("the scan got %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	ctx, selector := context.Background(), scan.Selector{MetricAny: true}
	_, seriesErr := n.Series(ctx, &selector, 0, nil)
	_, namesErr := n.Metrics(ctx, "", "", 0)
	_, deleteErr := n.Delete(ctx, &selector, 0, 1)
	for i, err := range []error{
		n.Scan(ctx, &scan.Request{Selector: selector, ToMs: 10}, nil), n.Last(ctx, &selector, 0, scan.Limits{}, nil),
		seriesErr, namesErr, deleteErr,
	} {
		if !errors.Is(err, series.ErrUnavailable) {
			t.Errorf("question %d after Close: %v", i, err)
		}
	}
	if s := n.engine.Stats(); s.Samples != 0 {
		t.Errorf("%v", s)
	}
}
