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

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/tenancy"
	"github.com/tickmesh/tickmesh/node/clocks"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/limits"
	"github.com/tickmesh/tickmesh/node/repair"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"github.com/tickmesh/tickmesh/node/storage/wal"
	"github.com/tickmesh/tickmesh/node/transfer"
)

// Options configure a Node.
type Options struct {
	FS      vfs.FS
	DataDir string
	Shards  int // of a new data folder; 0: 128
	// ShardKey keys the choice of shards in a new data folder; of a node in a cluster the
	// map says it.
	ShardKey  series.ShardKey
	Sync      SyncMode
	Retention time.Duration // 0: for ever
	Limits    limits.Bounds
	// Rules returns the present rules of databases: retention and limits of series.
	// Nil: there are none.
	Rules func() *tenancy.Rules

	// How often, and by how much, the engine is maintained; 0: the default.
	CheckpointBytes    int64         // of the log between checkpoints
	FlushInterval      time.Duration // between flushes of the page log
	SyncInterval       time.Duration // between syncs of the log in SyncInterval
	LogFileBytes       int64
	ExtentBytes        int64
	GenerationBytesMax int64
	PersistSeriesMin   int // see index.Options
	// ForgetSeries has the leaders of this node forget series without samples. Entries of others that do
	// are carried out in any case.
	ForgetSeries bool
	// ExemplarBytes bounds the exemplars of all shards together, where this node leads them; 0: none are kept.
	ExemplarBytes int64
	Memory        MemoryBounds

	// Of a node in a cluster. Without NodeID the node is on its own: it has a single
	// group for each shard, and needs no map.
	NodeID string
	Peers  Peers
	// Files fetches the files of shards from other nodes.
	Files transfer.Files
	// Copies asks other nodes for digests and ranges of shards. Without it damage is
	// reported and not mended.
	Copies repair.Copies
	// DigestInterval is the rest between two comparisons of all copies; 0: none are made.
	DigestInterval time.Duration
	// GroupClient asks other nodes about groups. Without it a replica that the map does not
	// name ends only when its own log says that its group goes on without it.
	GroupClient transfer.GroupClient
	// LogBytesMax bounds the log that is kept for members that lag; 0: the default.
	LogBytesMax int64

	Clock func() time.Time
	// Ticker returns what wakes maintenance and the syncs of SyncInterval, and what ends it. Nil:
	// time.NewTicker. Like that it need not wait for who is busy: what is due is found by Clock. It is called
	// before Open returns.
	Ticker     func(every time.Duration) (ticks <-chan time.Time, stop func())
	Logger     *slog.Logger
	Failpoints *failpoint.Set

	// BootID differs after each start of the machine; empty: it is not known. See
	// runRecord.
	BootID string
}

// aloneID is the node id of a node that is in no cluster.
const aloneID = "standalone"

const (
	dirLog                 = "log"
	checkpointBytesDefault = 64 << 20
	logBytesMaxDefault     = 1 << 30
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
	engine  *storage.Engine
	options Options
	log     *wal.Log
	loop    *loop
	limiter *limits.Limiter
	logger  *slog.Logger
	startup startup

	repair     *repair.Service
	transfer   *transfer.Service
	clocks     *clocks.Clocks
	forgetting forgetting
	peers      peerEntries

	running context.Context // ends when the node closes
	stop    context.CancelFunc
	stopped sync.WaitGroup // of all that goes on by itself
	idle    struct {       // of the loop of page tasks
		bytes int64 // of the page log
		since time.Time
	}
	flushed   flushedSegments
	snapshots snapshots

	closing     sync.Once
	broken      brokenNote
	checkpoints checkpointer
	metrics     []metric
	recovery    Recovery
	damaged     bool     // a stretch of the log was passed over at the start
	former      []string // see runRecord
}

// Open opens the data folder, replays the log and starts to take writes.
func Open(o Options) (*Node, error) {
	n := &Node{options: withDefaults(o), metrics: nodeMetrics()}
	n.logger = n.options.Logger
	n.clocks = clocks.New(n.options.Clock)
	n.peers.init(n.options.NodeID)
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.closeParts())
	}
	n.begin()
	return n, nil
}

// begin starts all that goes on by itself until the node closes.
func (n *Node) begin() {
	n.running, n.stop = context.WithCancel(context.Background())
	n.setRetention() // before anything is flushed
	run := func(work func(context.Context)) { n.stopped.Go(func() { work(n.running) }) }
	ticked := func(every time.Duration, work func(ctx context.Context, ticks <-chan time.Time)) {
		// Not by the loop: whoever gives the ticks could go on for long before it has begun.
		ticks, stop := n.options.Ticker(every)
		run(func(ctx context.Context) {
			defer stop()
			work(ctx, ticks)
		})
	}
	for _, tasks := range [][]task{n.pageTasks(), n.segmentTasks()} {
		ticked(maintainInterval, func(ctx context.Context, ticks <-chan time.Time) { n.maintain(ctx, ticks, tasks) })
	}
	run(n.repair.Run)
	run(n.transfer.Run)
	if n.options.Sync == SyncInterval {
		ticked(n.options.SyncInterval, n.syncLog)
	}
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
	if o.LogBytesMax == 0 {
		o.LogBytesMax = logBytesMaxDefault
	}
	o.Memory = o.Memory.withDefaults()
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Ticker == nil {
		o.Ticker = newTicker
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func newTicker(every time.Duration) (ticks <-chan time.Time, stop func()) {
	t := time.NewTicker(every)
	return t.C, t.Stop
}

func (n *Node) open() (err error) {
	o := &n.options
	alone := o.NodeID == ""
	if alone {
		o.NodeID = aloneID
	}
	n.engine, err = storage.Open(storage.Options{
		FS: o.FS, Dir: o.DataDir, Shards: o.Shards, ShardKey: o.ShardKey, ExtentBytes: o.ExtentBytes,
		GenerationBytesMax: o.GenerationBytesMax, PersistSeriesMin: o.PersistSeriesMin, SeriesBytesMax: o.Memory.SeriesBytes, MaintenanceBytes: o.Memory.MaintenanceBytes,
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
			n.damaged = true
			o.Logger.Error("a damaged stretch of the log is passed over", "error", err)
		},
	})
	if errors.Is(err, wal.ErrBroken) && o.NodeID != aloneID {
		err = errors.Join(err, noteUnopened(o.FS, o.DataDir))
	}
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	n.checkpoints.begin(wal.Position(n.engine.LogPosition()), n.engine.AppliedIndexes(), 0)
	n.limiter = limits.New(limits.Options{Bounds: o.Limits, Rules: o.Rules, Index: n.engine, Led: led{n}, Clock: o.Clock})
	n.repair = repair.New(repair.Options{
		Node: o.NodeID, Engine: n.engine, Groups: groups{n}, Copies: o.Copies, DigestInterval: o.DigestInterval, Clock: o.Clock, Logger: o.Logger,
	})
	n.transfer = transfer.New(transfer.Options{
		Node: o.NodeID, Engine: n.engine, Loop: groups{n}, Files: o.Files, GroupClient: o.GroupClient, Clock: o.Clock, Logger: o.Logger,
	})
	recovered, err := n.recover()
	if err != nil {
		return err
	}
	if err := n.renewIfLost(recovered); err != nil {
		return err
	}
	n.loop, err = n.newLoop(recovered)
	if err != nil {
		return err
	}
	n.loop.onBroken = n.noteBroken
	if err := n.retireGaps(); err != nil {
		return err
	}
	if err := n.beginRun(recovered.Decided()); err != nil {
		return err
	}
	n.loop.start(runtime.GOMAXPROCS(0))
	if alone {
		return n.AdoptMap(n.aloneMap())
	}
	return nil
}

// aloneMap is the map of a node that is in no cluster: it has every shard.
func (n *Node) aloneMap() *shardmap.Map {
	settings := shardmap.Settings{Shards: n.engine.Shards(), Replication: 1, ShardKey: n.engine.Sharding().Key.String()}
	m := &shardmap.Map{Format: settings.Format(), Cluster: aloneID, ID: n.engine.Incarnation(), Epoch: 1, Settings: settings}
	self := n.loop.machine.Self()
	for range n.engine.Shards() {
		m.Rows = append(m.Rows, shardmap.Row{Version: 1, RaftIDLast: 1, Era: commit.StandaloneEra, Fresh: true, Members: []shardmap.Member{self}})
	}
	return m
}

// AdoptMap makes the node follow a shard map, which must not be older than one before. It
// returns when the replicas that the map asks for are there, or being made. An error
// says that it was not adopted: ErrShards for good.
func (n *Node) AdoptMap(m *shardmap.Map) (err error) {
	if failed := n.loop.queue.do(func() { err = n.loop.adopt(m) }); failed != nil {
		return failed
	}
	return err
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

// Close takes no more writes, answers those that wait, ends scans, and leaves a
// data folder that starts without replaying anything. A second call does nothing.
func (n *Node) Close() (err error) {
	n.closing.Do(func() {
		n.stop()
		n.stopped.Wait()
		n.closeSnapshots()
		n.loop.close()
		if err = n.finalCheckpoint(); err == nil {
			err = n.endRun()
		}
		n.noteBroken()
		err = errors.Join(err, n.closeParts())
	})
	return err
}

func (n *Node) closeParts() error {
	var problems []error
	if n.log != nil {
		problems = append(problems, n.log.Close())
	}
	if n.engine != nil {
		problems = append(problems, n.engine.Close())
	}
	return errors.Join(problems...)
}
