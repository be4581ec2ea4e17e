package index

import (
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// LocalNone is no series: a hint that is never right.
const LocalNone uint32 = 1<<32 - 1

// Options say where an index lives and what it starts from.
type Options struct {
	FS  vfs.FS
	Dir string // made if missing; the index owns all files in it
	// State is what the last Sync that counts gave; everything after it is cut.
	// The zero State makes an empty index.
	State State
	// Applied has, for each shard, the last entry of its log that is not applied again after Open: what later
	// ones have forgotten is not forgotten yet.
	Applied    []uint64
	Failpoints *failpoint.Set
	// Corrupt is told of each damage found while opening; nil: only counted.
	Corrupt func(error)
	// PersistSeriesMin is how many new series at least are worth another hash table or part in a
	// file; 0: 32,768.
	PersistSeriesMin int
	// DiskReserve is how many bytes of the disk are left to others: files that would take of it are not
	// written, and what they are for stays in memory.
	DiskReserve int64
	// ReadOnly opens files that another Index may be appending to, by other names, and changes none of them. Sync
	// must not be called.
	ReadOnly bool
	// Workers is the number of goroutines that Open uses; 0: GOMAXPROCS.
	Workers int

	hashMask     uint64      // for tests: the bits of the hash that count; 0: all
	few          fewRule     // for tests; zero: the default
	persist      persistRule // for tests; zero: the default
	daysBytesMax int64       // for tests; 0: the default
}

// The failpoints of this package.
const (
	PointKeyWrite      = "index/key-write"      // before keys are written to their file
	PointKeysSynced    = "index/keys-synced"    // keys are durable, the activity is not
	PointKeysPunch     = "index/keys-punch"     // before a hole is made in the file of keys
	PointPersistedFile = "index/persisted-file" // before a hash table or a part is written
	PointActivityFile  = "index/activity-file"  // a month or its days are written, not yet renamed into place
	PointActivityDrops = "index/activity-drops" // before a file of a dropped month is removed
)

// Failpoints lists the failpoints of this package.
func Failpoints() []string {
	return []string{PointKeyWrite, PointKeysSynced, PointKeysPunch, PointPersistedFile, PointActivityFile, PointActivityDrops}
}

// HoleFailpoints lists those that are passed only where many thousands of series are forgotten.
func HoleFailpoints() []string { return []string{PointKeysPunch} }

// Index is the series table of a node. All methods may be called from many
// goroutines; see Create and Resolve.
type Index struct {
	keys      *keyFile
	table     *table
	shards    shardTable
	activity  *activity
	parts     *partList
	persister *persister
	forgets   forgets
	few       fewRule
	idle      sync.Pool   // of *selection, of queries that have ended
	damaged   func(error) // told of a file that follows from the keys, and is built again
	damages   atomic.Int64
	rebuilt   atomic.Int64
	lost      atomic.Int64
	syncing   sync.Mutex  // one Sync at a time
	drops     atomic.Bool // records of series that are forgotten for good
	closed    atomic.Bool
}

// Len returns the number of series, lost ones included.
func (x *Index) Len() uint32 { return x.keys.count.Load() }

// ShardSeries returns the number of series of a shard, lost ones included: the id
// that its next series gets.
func (x *Index) ShardSeries(shard uint16) uint32 {
	if s := x.shards.get(shard); s != nil {
		return s.next.Load()
	}
	return 0
}

// Active reports whether a series is marked on a day; where days are not known, in its month.
func (x *Index) Active(day Day, local uint32) bool { return x.activity.active(min(day, DayMax), local) }

// NewestDay returns the latest day up to a bound on which series are active; where the days of its
// month are not known, the last that it may be.
func (x *Index) NewestDay(most Day) (day Day, ok bool) { return x.activity.newest(most) }

// MarkActive notes that a series has got samples on a day. It costs a few
// nanoseconds when that is known. The caller holds the lock of its shard, or nobody else
// writes to that.
func (x *Index) MarkActive(day Day, local uint32) {
	if local < x.keys.count.Load() {
		x.activity.revive(min(day, DayMax), local)
	}
}

// MarkDaysComplete notes that every sample which is not in a coarse month is marked on its day: those
// that were there when the index was opened too. Until then queries look at all months of an
// index that was written without marks of days.
func (x *Index) MarkDaysComplete() { x.activity.complete.Store(true) }

// DropMonthsBefore forgets the activity of all earlier months. Series that are
// active in no month are found by Resolve and Key only, until they are marked
// again. The files of these months are removed by the next Sync.
func (x *Index) DropMonthsBefore(month Month) { x.activity.dropBefore(month) }
