package storage

import (
	"errors"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/compact"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Options configure an Engine.
type Options struct {
	FS                 vfs.FS
	Dir                string          // the data folder, made if missing
	Shards             int             // of a new data folder; a used one keeps its own
	ShardKey           series.ShardKey // likewise; a folder of a cluster has none, see AdoptShardKey
	ExtentBytes        int64           // of the page log's files; 0: its default
	GenerationBytesMax int64           // of the page log; 0: 128 MiB
	SeriesBytesMax     int64           // memory of the index and of hot pages; 0: no bound
	MaintenanceBytes   int64           // memory of flushes and exports; 0: 64 MiB
	SegmentBytesMax    int64           // a merge splits larger outputs; 0: 1 GiB
	PersistSeriesMin   int             // see index.Options; 0: its default
	// SyncLog makes durable what has been applied. It is called before a manifest
	// counts pages, which may hold samples of entries that only the operating
	// system has: after a power cut pages must not know more than the log.
	SyncLog func() error
	// ReadOnly opens a snapshot. Only what reads may be called.
	ReadOnly   bool
	Logger     *slog.Logger
	Failpoints *failpoint.Set
}

// Folders and files below the data folder.
const (
	lockName      = "LOCK"
	dirIndex      = "series"
	dirPages      = "pages"
	dirSegments   = "segments"
	dirSnapshots  = "snapshots"
	dirLog        = "log" // the node's; nothing here reads it
	shardsDefault = 128

	generationBytesDefault = 128 << 20
	segmentBytesDefault    = 1 << 30

	maintenanceBytesDefault = 64 << 20
)

// Engine is the storage of one node. All methods may be called from many
// goroutines; calls of Apply for one shard must come in the order of its log.
type Engine struct {
	*read.Source // of what all shards have
	*compact.Compactor
	*transfer.Mover
	generations
	seriesMemory

	fs      vfs.FS
	dir     string
	options Options
	log     *slog.Logger
	hit     func(failpoint string) error // a failpoint is met; tests have their own
	lock    io.Closer

	shards   []*shard
	arena    page.Arena // memory of all hot pages
	index    *index.Index
	pages    *pagelog.Log
	files    *manifest.Store
	readers  *read.Gate
	shardKey atomic.Pointer[series.ShardKey]
	forgets  atomic.Bool // see LetForget
	thins    atomic.Bool // see LetThin
	hours    atomic.Bool // see LetTakeHours
	// hoursCame: an entry had hours, as those do that a new node hears of before it has heard what the others' folders allow.
	// The next checkpoint has the folder's format tell of them.
	hoursCame atomic.Bool

	// Lock order: the Compactor's Pause, an Edit of files, a shard, a change of files.
	monthsDropped index.Month // months before it are forgotten; guarded by the Compactor's Pause
	batches       batchIDs
	exemplars     exemplarFiles

	stats engineStats
}

// Close ends the scans that run, waits for their visitors, and releases
// everything. Hot pages are not sealed: Checkpoint does that. Errors: ErrClosed when it
// was closed before, and those of the disk.
func (e *Engine) Close() error {
	if !e.readers.Close() {
		return read.ErrClosed
	}
	defer e.Compactor.Pause()()
	defer e.files.Edit().End()
	return e.close()
}

func (e *Engine) close() error {
	var problems []error
	if e.files != nil {
		problems = append(problems, e.files.Close())
	}
	if e.pages != nil {
		problems = append(problems, e.pages.Close())
	}
	if e.index != nil {
		problems = append(problems, e.index.Close())
	}
	for _, s := range e.shards {
		s.mu.Lock()
		s.mu.set.Close()
		s.mu.Unlock()
	}
	problems = append(problems, e.arena.Close())
	if e.lock != nil {
		problems = append(problems, e.lock.Close())
	}
	return errors.Join(problems...)
}

// Shards returns the number of shards.
func (e *Engine) Shards() int { return len(e.shards) }

// Sharding returns how the shards of series are chosen.
func (e *Engine) Sharding() series.Sharding {
	return series.Sharding{Shards: len(e.shards), Key: *e.shardKey.Load()}
}

// ErrShardKey marks a data folder whose series were placed under another shard key.
var ErrShardKey = errors.New("the data folder has another shard key")

// AdoptShardKey takes the key of a cluster, whose map keeps it. Errors: ErrShardKey when
// the folder was made with a key of its own that differs.
func (e *Engine) AdoptShardKey(key series.ShardKey) error {
	if own := e.files.Present().ShardKey; own != (series.ShardKey{}) && own != key {
		return ErrShardKey
	}
	e.shardKey.Store(&key)
	return nil
}

// Incarnation identifies the data folder.
func (e *Engine) Incarnation() string {
	return e.files.Present().Incarnation
}

// LogPosition is where the log must be read from after Open.
func (e *Engine) LogPosition() uint64 {
	return e.files.Present().LogPosition
}

// AppliedIndexes returns the last applied entry of each shard.
func (e *Engine) AppliedIndexes() []uint64 {
	applied := make([]uint64, len(e.shards))
	for i, s := range e.shards {
		s.mu.Lock()
		applied[i] = s.mu.applied
		s.mu.Unlock()
	}
	return applied
}

// DurableIndexes returns for each shard the entry up to which the engine would start
// without the log. It does not wait for anything.
func (e *Engine) DurableIndexes() []uint64 { return e.files.Durable() }

// RenewIncarnation makes the data folder another one for all who know it by its
// incarnation. Errors are those of the disk; the folder may have a new one then.
func (e *Engine) RenewIncarnation() error {
	edit := e.files.Edit()
	defer edit.End()
	if err := edit.Resolve(); err != nil {
		return err
	}
	incarnation, err := manifest.NewIncarnation()
	if err != nil {
		return err
	}
	return edit.Publish(manifest.FailPublish, func(m *manifest.Manifest) { m.Incarnation = incarnation })
}
