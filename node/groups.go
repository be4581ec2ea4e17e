package node

import (
	"errors"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// groupView is what others than the loop may know of a shard's replica. It may be a
// moment old.
type groupView struct {
	lone  atomic.Bool
	leads atomic.Bool
	era   atomic.Uint32
}

// allLone says whether every shard has a group here that agrees with itself.
func (l *loop) allLone() bool { return int(l.loneCount.Load()) == len(l.groups) }

// look brings the views up to date after a round: a group comes and goes, and changes
// between lone and not, only with a state in the log.
func (l *loop) look(r *round) {
	for i := range r.replica.States {
		l.lookAt(r.replica.States[i].Shard)
	}
}

func (l *loop) lookAt(shard uint16) {
	v := &l.groups[shard]
	status, err := l.host.Status(shard)
	lone := err == nil && status.Lone
	if v.lone.Swap(lone) != lone {
		if lone {
			l.loneCount.Add(1)
		} else {
			l.loneCount.Add(-1)
		}
	}
	v.leads.Store(err == nil && status.Leads)
	v.era.Store(status.Era)
}

func (l *loop) lookAtAll() {
	for shard := range l.groups {
		l.lookAt(uint16(shard))
	}
}

// stepTicks is how often groups are brought towards the map.
const stepTicks = 4

// tick passes a tick on, and what the engine has done since the last one.
func (l *loop) tick() {
	for _, shard := range l.host.Shards() {
		if !l.groups[shard].lone.Load() {
			l.host.Applied(shard, l.applied[shard].value.Load())
		}
	}
	l.host.Tick()
	if l.ticks++; l.ticks%stepTicks == 0 {
		l.lookAtAll()
		l.stepAll()
	}
}

// adopt makes and ends replicas as the map says. The map is never older than the one
// before.
func (l *loop) adopt(m *shardmap.Map) {
	if len(m.Rows) != len(l.groups) {
		l.logger.Error("a shard map does not fit the data folder", "map_shards", len(m.Rows), "folder_shards", len(l.groups))
		return
	}
	l.rows = m.Rows
	for shard := range l.rows {
		l.place(uint16(shard))
	}
	l.lookAtAll()
	l.stepAll()
}

// place makes or ends the replica of one shard.
func (l *loop) place(shard uint16) {
	if l.rows == nil || l.cleaning[shard] {
		return
	}
	row := &l.rows[shard]
	wanted, here := l.member(row)
	status, err := l.host.Status(shard)
	if err == nil && (!here || status.RaftID != wanted.RaftID) {
		l.remove(shard, status.RaftID)
		return // the rest when its data is gone
	}
	if err == nil || !here {
		return
	}
	r := replica.Replica{Shard: shard, RaftID: wanted.RaftID, Era: row.Era, Role: wanted.Role}
	var first []shardmap.Member
	if row.Fresh {
		if _, settled := row.MemberOn(l.node, l.incarnation); settled {
			first = row.Members
		}
	}
	if err := l.host.Create(r, first); err != nil {
		l.logger.Error("a replica cannot be made", "shard", shard, "error", err)
		return
	}
	l.logger.Debug("a replica was made", "shard", shard, "raft_id", r.RaftID, "role", r.Role, "fresh", first != nil)
}

// member finds this node's replica in a row: as it is settled, else as it is intended.
func (l *loop) member(row *shardmap.Row) (shardmap.Member, bool) {
	for _, list := range [2][]shardmap.Member{row.Members, row.Intended} {
		for _, m := range list {
			if m.Node == l.node && m.Incarnation == l.incarnation {
				return m, true
			}
		}
	}
	return shardmap.Member{}, false
}

// remove ends a replica and has its data dropped when nothing of it is on its way to
// the engine any more.
func (l *loop) remove(shard uint16, raftID uint64) {
	if err := l.host.Remove(shard); err != nil {
		l.logger.Error("a replica cannot be ended", "shard", shard, "error", err)
		return
	}
	l.logger.Info("the map has this node's replica no more; its data is dropped", "shard", shard, "raft_id", raftID)
	l.places.shards[shard] = shardPlaces{}
	l.cleaning[shard] = true
	l.onRemoved(shard)
}

// cleaned goes on with a shard whose data was dropped.
func (l *loop) cleaned(shard uint16) {
	l.cleaning[shard] = false
	l.dispatched[shard] = 0
	l.applied[shard].value.Store(0)
	l.place(shard)
}

// stepAll brings the groups that this node leads towards the map.
func (l *loop) stepAll() {
	unsettled := false
	for _, shard := range l.host.Shards() {
		status, err := l.host.Status(shard)
		if err != nil || !status.Leads || l.rows == nil {
			continue
		}
		unsettled = l.step(shard, &status) || unsettled
	}
	if unsettled {
		select {
		case l.unsettled <- struct{}{}:
		default:
		}
	}
}

// step does what is next for one group; true: the map lacks what it has settled.
func (l *loop) step(shard uint16, status *replica.GroupStatus) (unsettled bool) {
	next := replica.NextStep(l.rows[shard], *status)
	var err error
	switch next.Kind {
	case replica.StepChange:
		err = l.host.Change(shard, next.Members)
	case replica.StepTransfer:
		err = l.host.Transfer(shard, next.Node)
	case replica.StepSettle:
		return true
	case replica.StepNone, replica.StepWait:
	}
	if err != nil && !errors.Is(err, replica.ErrBusy) {
		l.logger.Warn("a group cannot take its next step", "shard", shard, "step", next.Kind, "error", err)
	}
	return false
}

// durable tells the host what a checkpoint has made durable, and lets it forget the
// entries that nobody needs any more: all that every full voter has, or with more than
// logBytesMax of log, all that this node's engine has.
func (l *loop) durable(applied []uint64, force bool) {
	for _, shard := range l.host.Shards() {
		l.host.Durable(shard, applied[shard])
		status, err := l.host.Status(shard)
		if err != nil {
			continue
		}
		upto := applied[shard]
		if status.Role == shardmap.Witness {
			upto = status.Trim // it has no engine that could be behind
		} else if !force && !status.Lone {
			upto = min(upto, status.Trim)
		}
		if err := l.host.CompactTo(shard, upto); err != nil {
			l.logger.Warn("a group's log cannot be shortened", "shard", shard, "error", err)
		}
	}
}

// floor gives the position before which no group needs the log.
func (l *loop) floor() wal.Position {
	floor := l.log.End()
	for _, shard := range l.host.Shards() {
		status, err := l.host.Status(shard)
		if err != nil {
			continue
		}
		s := &l.places.shards[shard]
		s.trim(status.Truncated.Index)
		if at, ok := s.from(status.Truncated.Index); ok {
			floor = min(floor, at)
		}
	}
	return floor
}

// after gives the position from which on the log has all entries after applied.
func (l *loop) after(applied []uint64) wal.Position {
	position := l.log.End()
	for shard := range l.places.shards {
		if at, ok := l.places.shards[shard].from(applied[shard]); ok {
			position = min(position, at)
		}
	}
	return position
}

// states gives the states of all groups. It is called between rounds.
func (l *loop) states() []replica.GroupState {
	var states []replica.GroupState
	for _, shard := range l.host.Shards() {
		state, err := l.host.State(shard)
		if err != nil {
			panic("BUG: the state of a group was asked for within a round: " + err.Error())
		}
		states = append(states, state)
	}
	return states
}

// logStates logs the states of all groups and gives their position. The loop must not
// run.
func (l *loop) logStates() (wal.Position, error) {
	if l.broken != nil {
		return 0, l.broken
	}
	var buffer wal.Buffer
	states := l.states()
	if _, err := addStates(&buffer, nil, states); err != nil || len(states) == 0 {
		return l.log.End(), err
	}
	start, _, err := l.log.Write(&buffer)
	return start, err
}

// settlements gives the configurations that the map lacks.
func (l *loop) settlements() (out []Settlement) {
	for _, shard := range l.host.Shards() {
		status, err := l.host.Status(shard)
		if err != nil || l.rows == nil {
			continue
		}
		if next := replica.NextStep(l.rows[shard], status); next.Kind == replica.StepSettle {
			out = append(out, Settlement{Shard: shard, Config: next.Members})
		}
	}
	return out
}

// Settlement is the configuration of a group, as its leader knows it.
type Settlement struct {
	Shard  uint16
	Config []shardmap.Member
}

// Settlements gives the configurations of the groups that the node leads where they
// are not what the adopted map says.
func (n *Node) Settlements() (out []Settlement) {
	_ = n.loop.queue.do(func() { out = n.loop.settlements() }) // not run, there are none to tell
	return out
}

// Unsettled gets a signal when Settlements may have something new.
func (n *Node) Unsettled() <-chan struct{} { return n.loop.unsettled }
