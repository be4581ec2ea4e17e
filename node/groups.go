package node

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// groupView is what others than the loop may know of a shard's replica. It may be a
// moment old.
type groupView struct {
	lone     atomic.Bool
	leads    atomic.Bool
	witness  atomic.Bool
	learner  atomic.Bool
	changing atomic.Bool // it leads, and the map intends other members
	era      atomic.Uint32
	lives    atomic.Uint64 // replicas that were here since the start
}

// allLone says whether every shard has a group here that agrees with itself.
func (l *loop) allLone() bool { return int(l.loneCount.Load()) == len(l.groups) }

// look brings the views up to date after a round: a group comes and goes, and changes
// between lone and not, only with a state in the log, or when that is synced.
func (l *loop) look(r *round) {
	for i := range r.replica.States {
		l.lookAgain(r.replica.States[i].Shard)
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
	v.witness.Store(err == nil && status.Role == shardmap.Witness)
	v.learner.Store(err == nil && status.Role == shardmap.Learner)
	v.changing.Store(err == nil && status.Leads && l.rows != nil && l.rows[shard].Intended != nil)
	v.era.Store(status.Era)
}

func (l *loop) lookAtAll() {
	for shard := range l.groups {
		l.lookAt(uint16(shard))
	}
	l.count()
}

// Groups are brought towards the map so often, and what the map does not name, or names
// and is not whole, is looked at again.
const (
	stepTicks  = 4
	placeTicks = 20
)

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
	} else {
		l.stepChanging()
	}
	if l.ticks%placeTicks == 0 {
		l.placeAll()
	}
}

// adopt makes and ends replicas as the map says. The map is never older than the one
// before.
func (l *loop) adopt(m *shardmap.Map) error {
	if err := l.adoptSharding(m); err != nil {
		return err
	}
	l.rows = m.Rows
	l.onNodes(l.othersIn(m))
	l.placeAll()
	l.lookAtAll()
	l.stepAll()
	return nil
}

// othersIn counts the nodes that a map names besides this one.
func (l *loop) othersIn(m *shardmap.Map) int {
	names := map[string]bool{}
	for i := range m.Rows {
		for _, member := range m.Rows[i].Members {
			names[member.Node] = true
		}
	}
	delete(names, l.node)
	return len(names)
}

func (l *loop) placeAll() {
	for shard := range l.rows {
		l.place(uint16(shard))
	}
}

// place makes or ends the replica of one shard.
func (l *loop) place(shard uint16) {
	if l.rows == nil || l.cleaning[shard] || l.orphans[shard] {
		return
	}
	row := &l.rows[shard]
	if r := l.relics[shard]; r != nil {
		l.placeRelic(shard, row, r)
		return
	}
	wanted, here := l.member(row)
	status, err := l.host.Status(shard)
	switch named, settled := row.MemberOn(l.node, l.incarnation); {
	case err != nil || !settled:
	case goesOnAlone(row, named, &status.Replica):
		l.goOnAlone(shard, row, &status, named.RaftID)
		return
	case beginsAnew(row, &status.Replica):
		l.remove(shard, status.RaftID)
		return
	}
	if err == nil && (!here || status.RaftID != wanted.RaftID) {
		l.leave(shard, row, &status, here)
		return // the rest when its data is gone
	}
	if err == nil {
		l.askForFiles(shard, row, &status)
		return
	}
	if !here || wanted.RaftID <= l.spent[shard] {
		return // in the second case the map lags behind: this replica has left
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
// Its role is the one that it is going to have: a witness to be keeps no data while it
// is a learner.
func (l *loop) member(row *shardmap.Row) (found shardmap.Member, ok bool) {
	for _, list := range [2][]shardmap.Member{row.Intended, row.Members} {
		for _, m := range list {
			if m.Node != l.node || m.Incarnation != l.incarnation {
				continue
			}
			if ok && m.SameReplica(found) {
				return found, true
			}
			found, ok = m, true
		}
	}
	return found, ok
}

// askForFiles gets files for a replica that the map has as a voter though it knows no
// configuration: it came late to a fresh group, whose leader takes it for one that has
// an empty log.
func (l *loop) askForFiles(shard uint16, row *shardmap.Row, status *replica.GroupStatus) {
	self, settled := row.MemberOn(l.node, l.incarnation)
	if len(status.Configuration.Voters) > 0 || row.Fresh || !settled || !self.Role.Votes() {
		return
	}
	for i := range row.Members {
		m := &row.Members[(i+l.ticks/stepTicks)%len(row.Members)] // another one each time
		if m.Role == shardmap.Full && m.Node != l.node {
			l.onSnapshot(replica.SnapshotNeed{Shard: shard, Leader: m.Node})
			return
		}
	}
}

// leave ends a replica that the map does not name, once it is certain that its group
// goes on without it. The map may name what was, or what is to be, while the group's
// configuration has the replica still, or already: without its log and vote the group
// could forget what it has acknowledged. So other members are asked.
func (l *loop) leave(shard uint16, row *shardmap.Row, status *replica.GroupStatus, other bool) {
	empty := len(status.Configuration.Voters) == 0
	switch {
	case status.Era > row.Era: // it was forced to go on; the map does not know yet
	case empty && (other || row.Era > status.Era) || !empty && !names(&status.Configuration, status.RaftID):
		l.remove(shard, status.RaftID)
	case !empty:
		l.onLeaving(commit.Question{Shard: shard, RaftID: status.RaftID, Era: status.Era, Index: status.Configuration.Index, Members: row.Members})
	}
}

// goOnAlone lets a group that has lost its majority go on from the replica here. One
// whose files are being swapped, or whose state is synced, goes on when that has ended.
func (l *loop) goOnAlone(shard uint16, row *shardmap.Row, status *replica.GroupStatus, raftID uint64) {
	if status.Installing || status.Syncing || l.installing[shard] != nil {
		return
	}
	if err := l.host.Force(shard, raftID, row.Era); err != nil {
		l.logger.Error("a group cannot go on from the replica here", "shard", shard, "error", err)
		return
	}
	l.counts.recovered.Add(1)
	l.logger.Warn("a group that had lost its majority goes on from the replica here", "shard", shard, "era", row.Era)
}

// left ends a replica of which another member has said that the group is without it.
func (l *loop) left(q *commit.Question) {
	if r := l.relics[q.Shard]; r != nil && q.Quarantined && r.state.RaftID == q.RaftID {
		l.dismiss(q.Shard)
		return
	}
	status, err := l.host.Status(q.Shard)
	if err != nil || status.RaftID != q.RaftID || l.cleaning[q.Shard] || l.rows == nil {
		return
	}
	if wanted, here := l.member(&l.rows[q.Shard]); !here || wanted.RaftID != q.RaftID {
		l.remove(q.Shard, q.RaftID)
	}
}

// names says whether a configuration has a raft id in any part.
func names(c *replica.Configuration, id uint64) bool {
	for _, list := range [4][]uint64{c.Voters, c.Outgoing, c.Learners, c.LearnersNext} {
		if slices.Contains(list, id) {
			return true
		}
	}
	return false
}

// resumed notes what the engine has applied that had stalled: reads wait for it.
func (l *loop) resumed() {
	for shard, index := range l.engine.AppliedIndexes() {
		if !l.cleaning[shard] && l.installing[uint16(shard)] == nil {
			l.applied[shard].advance(index)
		}
	}
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
	l.spent[shard] = max(l.spent[shard], raftID)
	l.cleaning[shard] = true
	l.groups[shard].lives.Add(1)
	if i := l.installing[shard]; i != nil {
		i.cancel() // its end lets the data be dropped
		return
	}
	l.onRemoved(shard)
}

// cleaned goes on with a shard whose data was dropped.
func (l *loop) cleaned(shard uint16) {
	l.cleaning[shard] = false
	l.dispatched[shard] = 0
	l.applied[shard].reset(0)
	l.place(shard)
}

// stepAll brings the groups that this node leads towards the map.
func (l *loop) stepAll() {
	unsettled := int64(0)
	for _, shard := range l.host.Shards() {
		status, err := l.host.Status(shard)
		if err != nil || l.rows == nil {
			continue
		}
		l.giveUpUnread(shard, &status)
		if !status.Leads {
			continue
		}
		unsettled += oneOf(l.step(shard, &status))
	}
	l.counts.unsettled.Store(unsettled)
	if unsettled > 0 {
		select {
		case l.unsettled <- struct{}{}:
		default:
		}
	}
}

// stepChanging is stepAll for the groups that are on their way, which are few: their
// members catch up and log changes between two looks at all groups.
func (l *loop) stepChanging() {
	for shard := range l.groups {
		if l.groups[shard].changing.Load() {
			l.stepOne(uint16(shard))
		}
	}
}

// stepOne brings one group that this node leads towards the map.
func (l *loop) stepOne(shard uint16) {
	status, err := l.host.Status(shard)
	if err != nil || l.rows == nil || !status.Leads || !l.step(shard, &status) {
		return
	}
	select {
	case l.unsettled <- struct{}{}:
	default:
	}
}

// giveUpUnread lets a group forget the entries of when it was lone: they have no place,
// so that a member that needs them has to fetch files, which it is told when they are
// gone. They stay on disk for as long as this node's engine needs them.
func (l *loop) giveUpUnread(shard uint16, status *replica.GroupStatus) {
	s := &l.places.shards[shard]
	if status.Lone || len(s.positions) == 0 || status.Truncated.Index >= s.unread() {
		return
	}
	if err := l.host.CompactTo(shard, min(s.unread(), status.Handed)); err != nil {
		l.logger.Warn("a group's log cannot be shortened", "shard", shard, "error", err)
	}
}

// step does what is next for one group; true: the map lacks what it has settled.
func (l *loop) step(shard uint16, status *replica.GroupStatus) (unsettled bool) {
	next := replica.NextStep(l.rows[shard], *status)
	if next.Kind == replica.StepChange && !heard(next.Members, status) {
		return false
	}
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

// heard says whether a majority of the voters that a change leads to is heard: a change
// that takes a living voter away from a dead one would be the group's last.
func heard(members []shardmap.Member, status *replica.GroupStatus) bool {
	voters, active := 0, 0
	for _, m := range members {
		if !m.Role.Votes() {
			continue
		}
		voters++
		for _, p := range status.Progress {
			if p.Member.RaftID == m.RaftID && p.Active {
				active++
			}
		}
	}
	return 2*active > voters
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
	return l.floorOfRelics(floor)
}

// floorOfRelics is floor for what is kept of replicas that take no part.
func (l *loop) floorOfRelics(floor wal.Position) wal.Position {
	for shard, r := range l.relics {
		if at, ok := l.places.shards[shard].from(r.state.Truncated.Index); ok {
			floor = min(floor, at)
		}
	}
	return floor
}

// after gives the position from which on the log has all entries after applied.
func (l *loop) after(applied []uint64) wal.Position {
	position := l.log.End()
	for shard := range l.places.shards {
		if l.groups[shard].witness.Load() {
			continue // nothing of it is ever applied; that of a relic is, when its group goes on from it
		}
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
	for _, shard := range slices.Sorted(maps.Keys(l.relics)) {
		states = append(states, l.relics[shard].state)
	}
	// That a replica was here is not forgotten while there is none: what it held may not
	// be dropped yet, and its raft id is not used again.
	for shard, raftID := range l.spent {
		if _, err := l.host.Status(uint16(shard)); err != nil && raftID > 0 && l.relics[uint16(shard)] == nil {
			states = append(states, replica.GroupState{Replica: replica.Replica{Shard: uint16(shard), RaftID: raftID}, Removed: true})
		}
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

// Unsettled gets a signal when Settlements may have something new.
func (n *Node) Unsettled() <-chan struct{} { return n.loop.unsettled }
