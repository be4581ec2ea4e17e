package index

import (
	"errors"
	"fmt"
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

// State describes how much of the files counts. It belongs into the engine's manifest.
type State struct {
	Count uint32 // series, lost ones included
	Bytes int64  // of the key file
	// Next holds, for each shard from 0 on, the id that its next series gets, so
	// that the id of a series whose record was lost is not given again. Records
	// with other ids are refused.
	Next []uint32
	// Gaps holds how many of these ids never had a record in this table: see MakeGap. Without it there are none.
	Gaps []uint32 `json:",omitempty"`
	// DaysByMonth records that marks of days, in a file for each month, tell of every sample.
	// Without it and Days there may be samples of which they know nothing, as the folder was
	// written by a program that does not keep them.
	DaysByMonth bool `json:",omitempty"`
	// Days is read only: it says the same in folders of programs that keep a file for each day.
	Days *DaysState `json:",omitempty"`
	// Persisted describes what of the files counts that follow from the keys. Without it all is built from these.
	Persisted *PersistedState `json:",omitempty"`
	// Forgotten names the file of the series that are forgotten. Without it none is.
	Forgotten *ForgottenState `json:",omitempty"`
}

// DaysState describes what marks of days in a file for each day tell.
type DaysState struct {
	Coarse []Month `json:",omitempty"` // months of which the days are not known
}

// check refuses what no Sync can have given.
func (s *State) check() error {
	if s.Bytes != 0 && s.Bytes < keyHeaderBytes+recordBytesMin*int64(s.Count) || s.Bytes == 0 && s.Count != 0 {
		return fmt.Errorf("series table: %d series cannot be in %d bytes", s.Count, s.Bytes)
	}
	given := uint64(0)
	for shard, next := range s.Next {
		gaps := s.gapsOf(shard)
		if gaps > next {
			return fmt.Errorf("series table: %d of %d ids of shard %d have no records", gaps, next, shard)
		}
		given += uint64(next - gaps)
	}
	if len(s.Gaps) > len(s.Next) || given > uint64(s.Count) || len(s.Next) > 1<<16 {
		return fmt.Errorf("series table: %d ids in %d shards were given to %d series", given, len(s.Next), s.Count)
	}
	if s.Persisted != nil {
		return s.Persisted.check(s)
	}
	return nil
}

// gapsOf returns how many ids of a shard never had a record.
func (s *State) gapsOf(shard int) uint32 {
	if shard < len(s.Gaps) {
		return s.Gaps[shard]
	}
	return 0
}

func (s *State) noteGaps(shard uint16, gaps uint32) {
	if gaps == 0 {
		return
	}
	for len(s.Gaps) <= int(shard) {
		s.Gaps = append(s.Gaps, 0)
	}
	s.Gaps[shard] = gaps
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

// Open maps the files and builds the rest. Damage is told to Options.Corrupt
// and skipped; see FORMAT.md for what is lost with it.
func Open(o Options) (*Index, error) {
	if err := o.State.check(); err != nil {
		return nil, err
	}
	x := &Index{table: newTable(), persister: newPersister(&o), few: o.few}
	if x.few == (fewRule{}) {
		x.few = defaultFewRule()
	}
	if o.hashMask != 0 {
		x.table.mask = o.hashMask
	}
	report, told := o.Corrupt, new(sync.Mutex)
	o.Corrupt = func(err error) {
		x.damages.Add(1)
		if report != nil {
			told.Lock()
			defer told.Unlock()
			report(err)
		}
	}
	x.damaged = func(err error) {
		x.rebuilt.Add(1)
		o.Corrupt(err)
	}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("series table: %w", err)
	}
	var err error
	if x.keys, err = openKeyFile(&o); err != nil {
		return nil, err
	}
	x.keys.damaged, x.keys.hidden, x.keys.dropped = x.damaged, &x.forgets.hidden, &x.forgets.dropped
	if err = x.load(&o); err != nil {
		return nil, errors.Join(err, x.closePersisted(), x.keys.close())
	}
	x.parts.start()
	return x, nil
}

func (x *Index) load(o *Options) error {
	if err := x.persister.findFiles(); err != nil {
		return err
	}
	x.parts = newPartList(x.keys, x.damaged)
	if err := x.openForgotten(o); err != nil {
		return err
	}
	persisted := false
	if o.State.Persisted != nil && hostIsLittle() {
		var err error
		if persisted, err = x.loadPersisted(o); err != nil {
			return err
		}
	}
	if !persisted {
		x.keys.scan(o)
		if err := x.fill(o); err != nil {
			return err
		}
	}
	var err error
	x.hideForgotten(o)
	if x.activity, err = openActivity(o); err != nil {
		return err
	}
	x.activity.hidden = &x.forgets.hidden
	return x.parts.buildMissing(o.Workers)
}

// Sync makes durable what every call that returned before it did, and returns the
// State for the manifest; Published is called when that has it. After it failed the key file must be opened again:
// further calls give ErrFailed.
func (x *Index) Sync() (State, error) {
	x.syncing.Lock()
	defer x.syncing.Unlock()
	var state State
	err := x.keys.flush(func(count uint32, bytes int64) {
		state = State{Count: count, Bytes: bytes}
		x.shards.each(func(shard uint16, s *shardIDs) {
			for len(state.Next) <= int(shard) {
				state.Next = append(state.Next, 0)
			}
			state.Next[shard] = s.next.Load()
			state.noteGaps(shard, s.gaps.Load())
		})
	})
	if err != nil {
		return State{}, err
	}
	state.DaysByMonth = x.activity.complete.Load() // before the marks are saved that it tells of
	if err := x.keys.makeDurable(state.Bytes); err != nil {
		return State{}, err
	}
	if err := x.keys.failpoints.Hit(PointKeysSynced); err != nil {
		return State{}, err
	}
	x.dropKeys()
	if state.Forgotten, err = x.persistForgotten(); err != nil {
		return State{}, err
	}
	state.Persisted = x.persist(state.Count, state.Bytes)
	if err := x.activity.save(); err != nil {
		return State{}, err
	}
	return state, nil
}

// Close stops the worker and releases the memory. Nothing is synced. No other
// method may be running or be called later; a second Close returns ErrClosed.
func (x *Index) Close() error {
	if x.closed.Swap(true) {
		return ErrClosed
	}
	x.parts.stop()
	return errors.Join(x.closePersisted(), x.keys.close())
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
