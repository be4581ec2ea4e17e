package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// Options of a Node.
type Options struct {
	FS        vfs.FS
	DataDir   string
	Shards    int // of a new data folder; 0: 128
	Sync      SyncMode
	Retention time.Duration // 0: for ever
	Limits    Limits

	// How often, and by how much, the engine is maintained; 0: the default.
	CheckpointBytes    int64         // of the log between checkpoints
	FlushInterval      time.Duration // between flushes of the page log
	SyncInterval       time.Duration // between syncs of the log in SyncInterval
	LogFileBytes       int64
	ExtentBytes        int64
	GenerationBytesMax int64
	Compaction         segment.Settings

	Clock      func() time.Time
	Logger     *slog.Logger
	Failpoints *failpoint.Set
}

// Limits of a node. 0 means no limit.
type Limits struct {
	SeriesMax          int64 // in all
	SeriesPerSecondMax int64 // new ones; bursts of one second are allowed
}

const (
	dirLog                 = "log"
	checkpointBytesDefault = 64 << 20
	flushIntervalDefault   = 5 * time.Minute
	syncIntervalDefault    = time.Second
)

// FailAfterLogWrite is hit when a round is in the log but not yet applied, and
// FailRecovery when a part of the log has been replayed at the start.
const (
	FailAfterLogWrite = "commit/after-log-write"
	FailRecovery      = "recovery/mid-replay"
)

// Failpoints lists the names of all places in a node where tests can fail.
func Failpoints() []string {
	names := append([]string{FailAfterLogWrite, FailRecovery}, storage.Failpoints()...)
	return append(names, wal.Failpoints()...)
}

// Node is one storage node. All methods may be called from many goroutines.
type Node struct {
	*storage.Engine
	options   Options
	log       *wal.Log
	committer *committer
	limiter   *limiter
	logger    *slog.Logger

	stop    chan struct{}
	stopped sync.WaitGroup
	quiet   struct { // of the loop of page tasks
		bytes int64 // of the page log
		since time.Time
	}
	flushed flushedSegments

	closing     sync.Once
	checkpoints checkpointer
	metrics     []metric
	recovery    Recovery
}

// Open opens the data folder, replays the log and starts to take writes.
func Open(o Options) (*Node, error) {
	n := &Node{options: withDefaults(o), stop: make(chan struct{}), metrics: nodeMetrics()}
	n.logger = n.options.Logger
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.closeParts())
	}
	n.stopped.Go(func() { n.maintain(n.pageTasks()) })
	n.stopped.Go(func() { n.maintain(n.segmentTasks()) })
	if n.options.Sync == SyncInterval {
		n.stopped.Go(n.syncLog)
	}
	return n, nil
}

func withDefaults(o Options) Options {
	if o.CheckpointBytes == 0 {
		o.CheckpointBytes = checkpointBytesDefault
	}
	if o.FlushInterval == 0 {
		o.FlushInterval = flushIntervalDefault
	}
	if o.SyncInterval == 0 {
		o.SyncInterval = syncIntervalDefault
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (n *Node) open() (err error) {
	o := &n.options
	n.Engine, err = storage.Open(storage.Options{
		FS: o.FS, Dir: o.DataDir, Shards: o.Shards, ExtentBytes: o.ExtentBytes,
		GenerationBytesMax: o.GenerationBytesMax, Compaction: o.Compaction,
		Logger: o.Logger, Failpoints: o.Failpoints,
		SyncLog: func() error { _, err := n.log.Sync(); return err },
	})
	if err != nil {
		return err
	}
	n.log, err = wal.Open(wal.Options{
		FS: o.FS, Dir: path.Join(o.DataDir, dirLog), FileBytes: o.LogFileBytes, Failpoints: o.Failpoints,
		RecycleMax: recycledFiles(o.CheckpointBytes, o.LogFileBytes),
		OnCorrupt: func(err *wal.CorruptError) {
			o.Logger.Error("a damaged stretch of the log is passed over", "error", err)
		},
	})
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	n.checkpoints.begin(wal.Position(n.Engine.LogPosition()), n.AppliedIndexes(), 0)
	if err := n.recover(); err != nil {
		return err
	}
	n.limiter = newLimiter(o.Limits, o.Clock)
	n.committer = newCommitter(n.log, n.Engine, o, runtime.GOMAXPROCS(0))
	return nil
}

// recycledFiles is how many trimmed files of the log are kept to be written again:
// those that one checkpoint frees, so that a steady log makes no new ones.
func recycledFiles(checkpointBytes, fileBytes int64) int {
	const most = 16
	if fileBytes == 0 {
		fileBytes = wal.FileBytesDefault
	}
	return int(min(most, checkpointBytes/fileBytes+1))
}

// Write takes a frame through the log and applies it. When it returns without an
// error, all of the frame but the refused definitions is in the log and readable.
// Errors: the kinds of api/series.
func (n *Node) Write(ctx context.Context, frame *series.Frame) (series.Outcome, error) {
	if err := n.AwaitFlush(ctx); err != nil {
		return series.Outcome{}, err
	}
	var a admission
	defer func() { n.limiter.release(a.admitted) }()
	w := &write{id: frame.ID, done: make(chan struct{}, 1)}
	w.proposals = make([]proposal, 0, len(frame.Parts))
	for i := range frame.Parts {
		part := &frame.Parts[i]
		if int(part.Shard) >= n.Shards() {
			return series.Outcome{}, fmt.Errorf("%w: shard %d of %d", series.ErrBatch, part.Shard, n.Shards())
		}
		batch, err := n.admit(part, i, &a)
		if err != nil {
			return series.Outcome{}, err
		}
		w.proposals = append(w.proposals, proposal{kind: storage.EntrySamples, shard: part.Shard, body: batch})
		w.bytes += int64(len(batch))
	}
	return series.Outcome{Copies: 1, Refused: a.refused}, n.propose(ctx, w)
}

func (n *Node) propose(ctx context.Context, w *write) error {
	if len(w.proposals) == 0 {
		return nil
	}
	if w.bytes > writeBytesMax {
		return fmt.Errorf("%w: a write of %d bytes, %d are the most", series.ErrBatch, w.bytes, writeBytesMax)
	}
	w.remaining.Store(int32(len(w.proposals)))
	return n.committer.submit(ctx, w)
}

// Delete implements scan.Deleter.
func (n *Node) Delete(ctx context.Context, selector *scan.Selector, fromMs, toMs int64) (int64, error) {
	// Also when nothing matches now: a write that failed may come back with a restart.
	if err := n.committer.refusals.ofWrites(); err != nil {
		return 0, err
	}
	if n.Tombstones() >= storage.TombstonesMax {
		return 0, fmt.Errorf("%w: %d deletes wait for compaction", series.ErrOverloaded, storage.TombstonesMax)
	}
	byShard, touched, err := n.SelectIDs(ctx, selector)
	if err != nil {
		return 0, err
	}
	w := &write{done: make(chan struct{}, 1)}
	for shard, ids := range byShard {
		if len(ids) == 0 {
			continue
		}
		body := storage.DeleteBody(ids, fromMs, toMs)
		w.proposals = append(w.proposals, proposal{kind: storage.EntryDelete, shard: uint16(shard), body: body})
		w.bytes += int64(len(body))
	}
	return touched, n.propose(ctx, w)
}

// cut proposes a retention cut for all shards.
func (n *Node) cut(ctx context.Context, cutMs int64) error {
	w := &write{done: make(chan struct{}, 1)}
	body := storage.RetentionBody(cutMs)
	for shard := range n.Shards() {
		w.proposals = append(w.proposals, proposal{kind: storage.EntryRetention, shard: uint16(shard), body: body})
		w.bytes += int64(len(body))
	}
	return n.propose(ctx, w)
}

// Close takes no more writes, answers those that wait, ends scans, and leaves a
// data folder that starts without replaying anything. A second call does nothing.
func (n *Node) Close() (err error) {
	n.closing.Do(func() {
		close(n.stop)
		n.stopped.Wait()
		n.committer.close()
		err = errors.Join(n.finalCheckpoint(), n.closeParts())
	})
	return err
}

func (n *Node) closeParts() error {
	var problems []error
	if n.log != nil {
		problems = append(problems, n.log.Close())
	}
	if n.Engine != nil {
		problems = append(problems, n.Engine.Close())
	}
	return errors.Join(problems...)
}
