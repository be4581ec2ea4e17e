package commit

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// ErrForeign: the data folder was written by another node.
var ErrForeign = errors.New("the data folder belongs to another node")

// Engine is what a Recovery needs of the storage engine.
type Engine interface {
	AppliedIndexes() []uint64
	Replay(position uint64, entry *entry.Entry) error
	DoubtsIDs() bool
	Flush() error
	Resume() error
	DropShard(shard uint16, logPosition uint64) error
}

// Recovery reads the log of a start: it passes to the engine what is known to be
// committed, and remembers of the rest what Raft has to know.
type Recovery struct {
	engine  Engine
	log     Records
	logger  *slog.Logger
	applied []uint64 // by the engine, as its checkpoint says
	index   *LogIndex
	groups  []recoveredGroup // by shard
	doubted bool             // the log may lack what was told others
	// The log may have lost its end, and with it series whose ids routers remember.
	tailLost bool

	entries, bytes int64 // replayed
}

// recoveredGroup is what the log has of one group.
type recoveredGroup struct {
	known     bool // there is a state that is not of a removed replica
	state     replica.GroupState
	spent     uint64 // the greatest raft id that was removed
	last      uint64
	runs      []replica.TermRun
	changes   []uint64
	pending   []pendingRecord // consecutive, not known to be committed, or whether to be applied
	committed uint64
	// The first entry after the last that are missing; 0: none are. A log whose first files
	// were trimmed may begin with an old state, of whose entries the newest needs none.
	hole     uint64
	newestMs int64
}

// pendingRecord has no body while it is not known whether the replica has data: the
// log may begin with many entries of a witness. It is read again then.
type pendingRecord struct {
	at    wal.Position
	entry entry.Entry
}

// NewRecovery returns a Recovery that is given every record of the log, in order: what the
// engine has already may still be needed by other members of a group.
func NewRecovery(engine Engine, log Records, shards int, logger *slog.Logger) *Recovery {
	return &Recovery{engine: engine, log: log, logger: logger, applied: engine.AppliedIndexes(), index: newLogIndex(log, shards), groups: make([]recoveredGroup, shards)}
}

// Replayed returns how much of the log was new to the engine.
func (r *Recovery) Replayed() (entries, bytes int64) { return r.entries, r.bytes }

// Take takes the record at a position. What cannot be a record is passed over.
func (r *Recovery) Take(at wal.Position, record []byte) error {
	e, err := entry.Parse(record)
	if err != nil || int(e.Shard) >= len(r.groups) {
		r.logger.Error("a record of the log is passed over", "position", uint64(at), "error", err)
		return nil
	}
	if e.Kind == entry.GroupState {
		return r.takeState(&e)
	}
	g := &r.groups[e.Shard]
	single := e.Gap == 0
	g.note(&e)
	if single {
		r.index.shards[e.Shard] = shardIndex{}
	} else {
		r.index.shards[e.Shard].add(e.Index, at)
	}
	g.committed = max(g.committed, e.Committed())
	if single && len(g.pending) == 0 {
		return r.apply(at, &e)
	}
	if g.known && g.state.Role == shardmap.Witness {
		return nil
	}
	if g.known {
		e.Body = append(make([]byte, 0, len(e.Body)), e.Body...)
	} else {
		e.Body = nil
	}
	g.pending = append(g.pending, pendingRecord{at, e})
	return r.applyCommitted(g)
}

// note accounts for an entry, which replaces those from its index on.
func (g *recoveredGroup) note(e *entry.Entry) {
	for len(g.pending) > 0 && g.pending[len(g.pending)-1].entry.Index >= e.Index {
		g.pending = g.pending[:len(g.pending)-1]
	}
	for len(g.runs) > 0 && g.runs[len(g.runs)-1].First >= e.Index {
		g.runs = g.runs[:len(g.runs)-1]
	}
	for len(g.changes) > 0 && g.changes[len(g.changes)-1] >= e.Index {
		g.changes = g.changes[:len(g.changes)-1]
	}
	if g.last > 0 && e.Index > g.last+1 {
		g.hole = e.Index
	}
	g.hole = min(g.hole, e.Index)
	g.last = e.Index
	if len(g.runs) == 0 || g.runs[len(g.runs)-1].Term != e.Term {
		g.runs = append(g.runs, replica.TermRun{First: e.Index, Term: e.Term})
	}
	switch e.Kind {
	case entry.Configuration:
		g.changes = append(g.changes, e.Index)
	case entry.Samples:
		if t := entry.ReadBatches(e.Body).TimeMs; t > 0 {
			g.newestMs = t
		}
	}
}

// takeState takes a group's state. One of a removed replica, or of another, ends what
// was known of the one before.
func (r *Recovery) takeState(e *entry.Entry) error {
	state, err := replica.ParseGroupState(e.Body)
	if err != nil || state.Shard != e.Shard {
		return fmt.Errorf("state of the group of shard %d: %w", e.Shard, errors.Join(err, replica.ErrState))
	}
	g := &r.groups[e.Shard]
	// One that was forced to go on has another raft id, in a later era, and the same log.
	if other := g.known && g.state.RaftID != state.RaftID && g.state.Era >= state.Era; other || state.Removed {
		*g = recoveredGroup{spent: g.spent}
		r.index.shards[e.Shard] = shardIndex{}
	}
	if state.Removed {
		g.spent = max(g.spent, state.RaftID)
		return nil
	}
	g.known, g.state = true, state
	if at := state.Truncated; at.Index > g.last || g.disagrees(at) {
		// Files were installed: what the log had before is of another history.
		g.last, g.runs, g.changes, g.pending, g.hole = at.Index, nil, nil, nil, 0
		r.index.shards[e.Shard] = shardIndex{}
	}
	if state.Role == shardmap.Witness {
		g.pending = nil
	}
	g.committed = max(g.committed, state.Commit)
	return r.applyCommitted(g)
}

// disagrees reports whether the log has another entry at a position.
func (g *recoveredGroup) disagrees(at replica.Position) bool {
	term := at.Term
	for _, run := range g.runs {
		if run.First > at.Index {
			break
		}
		term = run.Term
	}
	return term != at.Term
}

// applyCommitted applies those of the pending entries that are committed.
func (r *Recovery) applyCommitted(g *recoveredGroup) error {
	if !g.known {
		return nil
	}
	n := 0
	for ; n < len(g.pending) && g.pending[n].entry.Index <= g.committed; n++ {
		if err := r.readBody(&g.pending[n]); err != nil {
			return err
		}
		if err := r.apply(g.pending[n].at, &g.pending[n].entry); err != nil {
			return err
		}
	}
	g.pending = g.pending[n:]
	return nil
}

// readBody reads a body that was not kept.
func (r *Recovery) readBody(p *pendingRecord) error {
	if p.entry.Body != nil {
		return nil
	}
	record, err := r.log.Record(p.at, nil)
	if err != nil {
		return fmt.Errorf("read entry %d of shard %d again: %w", p.entry.Index, p.entry.Shard, err)
	}
	p.entry, err = entry.Parse(record)
	return err
}

// apply applies an entry. One that does not fit on the disk ends the start, as reads
// without it would lack what was acknowledged.
func (r *Recovery) apply(at wal.Position, e *entry.Entry) error {
	if e.Index > r.applied[e.Shard] {
		r.entries++
		r.bytes += int64(len(e.Body))
	}
	err := r.engine.Replay(uint64(at), e)
	if errors.Is(err, storage.ErrStalled) {
		return r.makeRoom(err)
	}
	switch {
	case err == nil:
	case entry.OnlyIs(err, series.ErrEra): // as when it came: nothing was promised
		r.logger.Debug("a write of the log that was refused is passed over again: it names series that were forgotten, and its sender was told to ask for them anew", "error", err)
	default:
		r.logger.Error("an entry of the log cannot be applied and is passed over", "error", err)
	}
	return nil
}

// makeRoom flushes the page log, whose generations may have run out, and goes on. A log with
// gaps must not be flushed in the middle: see storage.Engine.Replay.
func (r *Recovery) makeRoom(cause error) error {
	if r.engine.DoubtsIDs() {
		return cause
	}
	if err := r.engine.Flush(); err != nil {
		return errors.Join(cause, err)
	}
	return r.engine.Resume()
}

// Decided reports whether the start has decided about replicas, which has to be logged.
func (r *Recovery) Decided() bool { return r.doubted || r.tailLost }
