package transfer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/dedup"
	"github.com/tickmesh/tickmesh/node/storage/exemplar"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/shardfile"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Names of the places where tests can make a movement or a repair fail.
const (
	FailInstallKeys     = "install/before-keys"
	FailInstallMarked   = "install/after-marks"
	FailInstallRenumber = "install/before-renumber"
	FailReplacePublish  = "replace/before-publish"
	FailReplaceDone     = "replace/after-publish"
	FailRepairPublish   = "repair/before-publish"
)

// MovementFailpoints lists the names of the places that only InstallShard and
// DropShard pass.
func MovementFailpoints() []string {
	return []string{FailInstallKeys, FailInstallMarked, FailInstallRenumber, FailReplacePublish, FailReplaceDone}
}

// RepairFailpoints lists the names of the places that only RepairRange passes.
func RepairFailpoints() []string { return []string{FailRepairPublish} }

// Shard is what movements ask of a shard, and how they change it. Methods lock the shard while they
// run; show is called with the lock held.
type Shard interface {
	// Hosted reports whether there is a replica of the shard here, and Holds whether it may have samples.
	Hosted() bool
	Holds() bool
	// Applied returns the last entry that was applied.
	Applied() uint64
	// Exact returns an error unless the replica is what its entries up to the last one have made of it:
	// series.ErrUnavailable when there is none or an entry was lost, that of an entry that stalls.
	Exact() error
	// Forgotten returns which ids are forgotten.
	Forgotten() *index.Forgotten
	// Cut returns the time before which all samples are gone, and Rules the cuts of some series.
	Cut() int64
	Rules() *retention.Table
	// Thin returns the cuts before which the last sample of each hour of some series is kept, and ThinCut the latest of them.
	Thin() *retention.Table
	ThinCut() int64
	// Pin returns the state after the last entry. Errors: those of Exact.
	Pin() (State, error)
	// SealAll puts the hot pages into the page log, and returns the number of the replica. Errors: those
	// of Exact, and that of the disk.
	SealAll() (replica uint64, err error)
	// UnchangedSince returns the entry from which on nothing at toMs or before has changed, and the last
	// one that was applied.
	UnchangedSince(toMs int64) (since, applied uint64)
	// Replace makes the shard a replica that has no hot pages.
	Replace(r *Replica, show func())
	// Repaired is called when samples in a range have changed without an entry.
	Repaired(within segment.TimeRange, show func())
}

// State is what belongs to the last applied entry of a replica exactly.
type State struct {
	Replica uint64 // its number
	Applied uint64
	CutMs   int64
	Rules   *retention.Table
	Thin    *retention.Table
	Batches []byte // the table of batch ids, encoded
	// Exemplars is the ring of exemplars, encoded; nil: there are none.
	Exemplars []byte
	// Forgotten are the ids that are forgotten, growing.
	Forgotten []uint32
}

// Replica is what takes the place of a shard's replica.
type Replica struct {
	Applied     uint64
	CutMs       int64
	Rules       *retention.Table
	Thin        *retention.Table
	Batches     dedup.Table
	Exemplars   exemplar.Ring
	Forgotten   []uint32 // growing; of a replica that is dropped it says nothing
	Number      uint64
	LogPosition uint64 // entries that stand before it are of replicas before
	Dropped     bool   // there is none
}

// BatchIDs writes the batch ids of all shards.
type BatchIDs interface {
	// Stage writes those of each shard's applied entry, and another form for a shard that is replaced. The
	// caller has the Edit of the manifest, which is to name the file.
	Stage(applied []uint64, shard uint16, by dedup.Form) (shardfile.Staged, error)
	// Keep is called when the manifest names the file.
	Keep(staged shardfile.Staged)
}

// Exemplars writes the exemplars of all shards.
type Exemplars interface {
	// Stage writes those that each shard has now, and others for a shard that is replaced. The
	// caller has the Edit of the manifest, which is to name the file; none, if the disk does not take it.
	Stage(shard uint16, by *exemplar.Ring) shardfile.Staged
	// Keep is called when the manifest names the file.
	Keep(staged shardfile.Staged)
}

// Options configure a Mover.
type Options struct {
	FS        vfs.FS
	Gate      *read.Gate
	Source    *read.Source
	Files     *manifest.Store
	Pages     *pagelog.Log
	Index     *index.Index
	Shards    []Shard
	Sharding  func() series.Sharding
	BatchIDs  BatchIDs
	Exemplars Exemplars

	MaintenanceBytes int64                        // memory of exports
	SpanMax          func() segment.Span          // the widest partition that retention wants
	SyncLog          func() error                 // makes durable what has been applied
	Flush            func() error                 // turns the page log into segments
	PauseMerges      func() (resume func())       // no merge is under way until resume is called
	Hit              func(failpoint string) error // a failpoint is met
	Logger           *slog.Logger
}

// Mover moves data of shards in and out. All methods may be called from many goroutines.
type Mover struct {
	o         Options
	repairing sync.Mutex    // held by RepairRange
	exports   atomic.Uint64 // ever begun, which tells their scratch files apart

	installing []atomic.Bool    // by shard
	arriving   map[uint16]int64 // cuts of the shards that are being installed; guarded by the Edit
}

// New returns a Mover of what the options have.
func New(o Options) *Mover {
	return &Mover{o: o, installing: make([]atomic.Bool, len(o.Shards)), arriving: map[uint16]int64{}}
}

// enter begins what Close waits for.
func (m *Mover) enter(ctx context.Context, shard uint16, unknown error) (within context.Context, leave func(), err error) {
	if within, leave, err = m.o.Gate.Enter(ctx); err != nil {
		return nil, nil, err
	}
	if int(shard) >= len(m.o.Shards) {
		leave()
		return nil, nil, fmt.Errorf("%w: shard %d of %d", unknown, shard, len(m.o.Shards))
	}
	return within, leave, nil
}

// CutArriving returns the earliest cut of the replicas that are being installed, or latest if none
// has an earlier one. The caller has the Edit of the manifest.
func (m *Mover) CutArriving(latest int64) int64 {
	for _, cutMs := range m.arriving {
		latest = min(latest, cutMs)
	}
	return latest
}

// tables returns a table of all shards, some of them nil.
func (m *Mover) tables(of func(Shard) *retention.Table) []*retention.Table {
	tables := make([]*retention.Table, len(m.o.Shards))
	for i, s := range m.o.Shards {
		tables[i] = of(s)
	}
	return tables
}
