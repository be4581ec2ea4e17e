package storage

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// staller is an engine of one shard whose disk can be held up.
type staller struct {
	t     *testing.T
	e     *Engine
	index uint64

	mu   sync.Mutex
	hold func(vfs.Op) (entered, goOn chan struct{}) // nil channels: the operation is not held
}

// extentBytesSmall is enough for what tests write at once: the disk in memory copies all of a file that was preallocated.
const extentBytesSmall = 1 << 20

func newStaller(t *testing.T, o Options) *staller {
	s := &staller{t: t}
	o.FS = vfs.Faults(vfs.NewMemFS(), func(op vfs.Op) error {
		s.mu.Lock()
		hold := s.hold
		s.mu.Unlock()
		if hold == nil {
			return nil
		}
		if entered, goOn := hold(op); entered != nil {
			select {
			case entered <- struct{}{}:
			case <-goOn:
			}
			<-goOn
		}
		return nil
	})
	o.Dir, o.Shards, o.SyncLog = "data", 1, func() error { return nil }
	if o.ExtentBytes == 0 {
		o.ExtentBytes = extentBytesSmall
	}
	var err error
	if s.e, err = Open(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.e.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// holdUp holds operations of a kind in one of the folders up. The first of them that is
// held is told of; all of them go on with goOn.
func (s *staller) holdUp(kind vfs.OpKind, folder string) (entered <-chan struct{}, goOn func()) {
	told, released := make(chan struct{}), make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = func(op vfs.Op) (chan struct{}, chan struct{}) {
		if op.Kind == kind && strings.Contains(op.Name, folder) {
			return told, released
		}
		return nil, nil
	}
	var once sync.Once
	end := func() { once.Do(func() { close(released) }) }
	s.t.Cleanup(end) // before the engine is closed
	return told, end
}

// write applies one entry with a sample for each of count series. The values are such
// that few of them fit into a page.
func (s *staller) write(row int64, count int) {
	var batch series.BatchEncoder
	for i := range count {
		key := series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("h"), Value: fmt.Append(nil, i)}})
		batch.Append(batch.Define(key), 1_750_000_000_000+row*1000, int64(uint64(row*1_000_003+int64(i)+1)*0x9e3779b97f4a7c15>>2), series.ScaleFloat)
	}
	s.index++
	if err := s.e.Apply(0, &entry.Entry{Kind: entry.Samples, Term: 1, Index: s.index, Body: samplesBody(batch.AppendTo(nil))}); err != nil {
		s.t.Error(err)
	}
}

func (s *staller) scan(parallel int, visit scan.Visitor) error {
	return s.e.Scan(context.Background(), &scan.Request{
		Selector: scan.Selector{Metric: "m"}, FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Parallel: parallel,
	}, visit)
}

func (s *staller) count() (samples int) {
	s.t.Helper()
	if err := s.scan(1, func(_ int, c *scan.Chunk) error { samples += len(c.Times); return nil }); err != nil {
		s.t.Fatal(err)
	}
	return samples
}

func (s *staller) sealAndFlush() {
	s.t.Helper()
	if err := s.e.Checkpoint(Checkpoint{Applied: []uint64{s.index}, SealAll: true}); err != nil {
		s.t.Fatal(err)
	}
	if err := s.e.Flush(); err != nil {
		s.t.Fatal(err)
	}
}

// TestReadersLeaveFilesToTheSweeper: the last reader that sees a flushed generation is done with
// it while the files of that are being removed.
func TestReadersLeaveFilesToTheSweeper(t *testing.T) {
	for name, leave := range map[string]func(*manifest.Lease){
		"park": (*manifest.Lease).Park, "enter": func(l *manifest.Lease) { l.Enter() }, "end": func(*manifest.Lease) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStaller(t, Options{})
			s.write(1, 10)
			reader := s.e.files.Lease(s.e.pages)
			s.sealAndFlush() // removes nothing yet
			if n := len(s.e.pages.Generations()); n != 2 {
				t.Errorf("%d generations of the page log while one is read, want 2", n)
			}
			removing, goOn := s.holdUp(vfs.OpRemove, dirPages)
			leave(reader)
			reader.End()
			<-removing
			goOn()
			s.e.files.Sweeper.Wait()
			if n := len(s.e.pages.Generations()); n != 1 {
				t.Errorf("%d generations of the page log are left, want the one that is written", n)
			}
		})
	}
}

// TestScanWaitsForNoPageLog: while pages that are sealed wait for the disk, their shard is
// read; so it is while the page log begins a generation.
func TestScanWaitsForNoPageLog(t *testing.T) {
	for _, held := range []struct {
		name    string
		kind    vfs.OpKind
		options Options
	}{
		{"write", vfs.OpWrite, Options{}},
		{"generation", vfs.OpPreallocate, Options{ExtentBytes: 64 << 10, GenerationBytesMax: 512 << 10}},
	} {
		t.Run(held.name, func(t *testing.T) {
			s := newStaller(t, held.options)
			const count = 500
			s.write(0, count)
			if held.kind == vfs.OpPreallocate { // the next one is of the next generation
				for row := int64(1); !s.e.pages.Ending(); row++ {
					s.write(row, count)
				}
			}
			before := s.count()
			entered, goOn := s.holdUp(held.kind, dirPages)
			stopped := make(chan struct{})
			var writing sync.WaitGroup
			writing.Go(func() {
				for row := int64(1e6); ; row++ {
					select {
					case <-stopped:
						return
					default:
						s.write(row, count)
					}
				}
			})
			<-entered
			if after := s.count(); after < before {
				t.Errorf("%d samples while the disk stands still, %d before", after, before)
			}
			close(stopped)
			goOn()
			writing.Wait()
		})
	}
}

// TestReadsWaitForNoHelperThatHasNotBegun: a read is answered though no core is left for its
// helpers, and those that come afterwards do nothing.
func TestReadsWaitForNoHelperThatHasNotBegun(t *testing.T) {
	s := newStaller(t, Options{})
	const count = 4 * read.LastAtOnce
	s.write(1, count)
	var late []func()
	s.e.Spawn = func(help func()) { late = append(late, help) }
	defer func(before int) { runtime.GOMAXPROCS(before) }(runtime.GOMAXPROCS(4)) // of which Last makes its helpers
	samples := 0
	if err := s.scan(4, func(worker int, c *scan.Chunk) error { samples += len(c.Times); return nil }); err != nil || samples != count {
		t.Errorf("%d samples of %d, %v", samples, count, err)
	}
	if len(late) != 3 {
		t.Errorf("%d helpers of a scan, want 3", len(late))
	}
	lasts := 0
	last := func(scan.Point) error { lasts++; return nil }
	if err := s.e.Last(context.Background(), &scan.Selector{Metric: "m"}, scan.TimeMsMin, scan.Limits{}, last); err != nil || lasts != count {
		t.Errorf("%d last samples of %d, %v", lasts, count, err)
	}
	if len(late) != 6 {
		t.Errorf("%d helpers of both, want 6", len(late))
	}
	for _, help := range late {
		help()
	}
	if samples != count || lasts != count {
		t.Errorf("helpers that came late have visited %d and %d", samples-count, lasts-count)
	}
}
