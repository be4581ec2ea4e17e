package index

import (
	"errors"
	"fmt"
	"sync"
)

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
