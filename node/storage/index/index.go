package index

import (
	"context"
	"errors"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
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
	State      State
	Failpoints *failpoint.Set
	// Corrupt is told of each damage found while opening; nil: only counted.
	Corrupt func(error)
	// Workers is the number of goroutines that Open uses; 0: GOMAXPROCS.
	Workers int
}

// State says how much of the files counts. It belongs into the engine's manifest.
type State struct {
	Count uint32 // series, lost ones included
	Bytes int64  // of the key file
	// Next holds, for each shard from 0 on, the id that its next series gets, so
	// that the id of a series whose record was lost is not given again.
	Next []uint32
}

// Index is the series table of a node. All methods may be called from many
// goroutines; see Create and Resolve.
type Index struct{}

// Open reads the files and builds the rest. Damage is told to Options.Corrupt
// and skipped; see FORMAT.md for what is lost with it.
func Open(o Options) (*Index, error) { return nil, errors.ErrUnsupported }

// Resolve finds a series. Hint is the Hint of the Ref that the same writer got
// before, or LocalNone: the fields of one line are created together, so the next
// series is tried first. It takes no lock and does not allocate.
//
// It must be called inside vfs.Guard, once for many calls: it reads mapped memory.
func (x *Index) Resolve(hint uint32, key series.Key) (series.Ref, bool) { return series.Ref{}, false }

// Create adds a series with the id that the engine gave it, the next of its
// shard, and marks it as active in month. Calls for one shard come in the order
// of its log; different shards may create at the same time. To create what
// exists, with the same identity, changes nothing but the mark.
//
// Errors: ErrConflict, ErrIDGap, ErrFull, series.ErrKey, ErrClosed, and those of
// the disk; after any of them the index is as before and Create may be repeated.
func (x *Index) Create(shard uint16, id series.ID, key series.Key, month Month) (local uint32, err error) {
	return 0, errors.ErrUnsupported
}

// Lookup finds a series as Resolve does, with a guard of its own.
func (x *Index) Lookup(key series.Key) (ref series.Ref, ok bool, err error) {
	return series.Ref{}, false, errors.ErrUnsupported
}

// Local gives the local id of a shard's series.
func (x *Index) Local(shard uint16, id series.ID) (local uint32, ok bool) { return 0, false }

// Key appends the key of a series to dst. Errors: ErrUnknown, *vfs.FaultError.
func (x *Index) Key(local uint32, dst []byte) (series.Key, error) { return nil, errors.ErrUnsupported }

// KeyOf appends the key of a shard's series to dst. Errors: as Key.
func (x *Index) KeyOf(shard uint16, id series.ID, dst []byte) (series.Key, error) {
	return nil, errors.ErrUnsupported
}

// Refs appends the shard and id of each local id to dst; Hint is the local id.
func (x *Index) Refs(locals []uint32, dst []series.Ref) ([]series.Ref, error) {
	return nil, errors.ErrUnsupported
}

// ShardSeries gives the number of series of a shard, lost ones included: the id
// that its next series gets.
func (x *Index) ShardSeries(shard uint16) uint32 { return 0 }

// Len gives the number of series, lost ones included.
func (x *Index) Len() uint32 { return 0 }

// Active says whether a series is marked in a month.
func (x *Index) Active(month Month, local uint32) bool { return false }

// MarkActive notes that a series has samples in a month. It costs a few
// nanoseconds when that is known.
func (x *Index) MarkActive(month Month, local uint32) {}

// DropMonthsBefore forgets the activity of all earlier months. Series that are
// active in no month are found by Resolve and Key only, until they are marked
// again.
func (x *Index) DropMonthsBefore(month Month) {}

// Select appends the local ids of the series that match and are active in months
// to dst, in growing order. With more than seriesMax (0: no bound) it gives a
// *scan.LimitError.
//
// Errors besides: ErrRegexp, ErrMatcher, ctx.Err(), *vfs.FaultError.
func (x *Index) Select(ctx context.Context, selector *scan.Selector, months Months, seriesMax int64, dst []uint32) ([]uint32, error) {
	return nil, errors.ErrUnsupported
}

// Databases gives the sorted names of the databases that have active series.
func (x *Index) Databases(ctx context.Context) ([]string, error) { return nil, errors.ErrUnsupported }

// Metrics gives the sorted metrics of a database that start with prefix and have
// active series, at most limit (0: all).
func (x *Index) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// TagNames gives the sorted names of tags, as Metrics does. An empty metric
// means all metrics.
func (x *Index) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// TagValues gives the sorted values of a tag, as TagNames does.
func (x *Index) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// Sync makes durable what every call that returned before it did, and gives the
// State for the manifest. After it failed the key file must be opened again:
// further calls give ErrFailed.
func (x *Index) Sync() (State, error) { return State{}, errors.ErrUnsupported }

// Close stops the worker and gives the memory back. Nothing is synced. No other
// method may be running or be called later.
func (x *Index) Close() error { return errors.ErrUnsupported }
