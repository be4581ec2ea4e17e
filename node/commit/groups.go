package commit

import (
	"errors"
	"maps"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// Groups are brought towards the map so often, and what the map does not name, or names
// and is not whole, is looked at again.
const (
	stepTicks  = 4
	placeTicks = 20
)

// tick passes a tick on, and what the engine has done since the last one.
func (m *Machine) tick(applied []uint64) {
	for _, shard := range m.host.Shards() {
		if !m.views[shard].SingleVoter {
			m.host.Applied(shard, applied[shard])
		}
	}
	m.host.Tick()
	if m.ticks++; m.ticks%stepTicks == 0 {
		m.viewAll()
		m.count(applied)
		m.stepAll()
	} else {
		m.stepChanging()
	}
	if m.ticks%placeTicks == 0 {
		m.placeAll()
	}
}

// Adopt makes and ends replicas to match the map, which is never older than the one before and
// is for the same shards.
func (m *Machine) Adopt(to *shardmap.Map) {
	m.rows = to.Rows
	m.placeAll()
	m.viewAll()
	m.stepAll()
}

// Others returns the number of nodes that a map names besides this one.
func (m *Machine) Others(of *shardmap.Map) map[string]bool {
	names := map[string]bool{}
	for i := range of.Rows {
		for _, member := range of.Rows[i].Members {
			names[member.Node] = true
		}
	}
	delete(names, m.config.Host.Node)
	return names
}

func (m *Machine) placeAll() {
	for shard := range m.rows {
		m.place(uint16(shard))
	}
}

// place makes or ends the replica of one shard.
func (m *Machine) place(shard uint16) {
	if m.rows == nil || m.dropping[shard] || m.unclaimed[shard] {
		return
	}
	row := &m.rows[shard]
	if r := m.quarantined[shard]; r != nil {
		m.placeQuarantined(shard, row, r)
		return
	}
	wanted, here := m.member(row)
	status, err := m.host.Status(shard)
	switch named, published := row.MemberOn(m.config.Host.Node, m.config.Host.Incarnation); {
	case err != nil || !published:
	case goesOnAlone(row, named, &status.Replica):
		m.goOnAlone(shard, row, &status, named.RaftID)
		return
	case beginsAnew(row, &status.Replica):
		m.remove(shard, status.RaftID)
		return
	}
	if err == nil && (!here || status.RaftID != wanted.RaftID) {
		m.leave(shard, row, &status, here)
		return // the rest when its data is gone
	}
	if err == nil {
		m.askForFiles(shard, row, &status)
		return
	}
	if !here || wanted.RaftID <= m.spent[shard] {
		return // in the second case the map lags behind: this replica has left
	}
	if wanted.Role == shardmap.Learner {
		return // what it is to become, and so whether it needs data, the map does not say: it is to go
	}
	r := replica.Replica{Shard: shard, RaftID: wanted.RaftID, Era: row.Era, Role: wanted.Role}
	var first []shardmap.Member
	if row.Fresh {
		if _, published := row.MemberOn(m.config.Host.Node, m.config.Host.Incarnation); published {
			first = row.Members
		}
	}
	if err := m.host.Create(r, first); err != nil {
		m.config.Logger.Error("a replica cannot be made", "shard", shard, "error", err)
		return
	}
	m.config.Logger.Debug("a replica was made", "shard", shard, "raft_id", r.RaftID, "role", r.Role, "fresh", first != nil)
}

// member finds this node's replica in a row: as it is published, else as it is intended.
// Its role is the one that it is going to have: a witness to be keeps no data while it
// is a learner.
func (m *Machine) member(row *shardmap.Row) (found shardmap.Member, ok bool) {
	for _, list := range [2][]shardmap.Member{row.Intended, row.Members} {
		for _, named := range list {
			if named.Node != m.config.Host.Node || named.Incarnation != m.config.Host.Incarnation {
				continue
			}
			if ok && named.SameReplica(found) {
				return found, true
			}
			found, ok = named, true
		}
	}
	return found, ok
}

// askForFiles gets files for a replica that the map has as a voter though it has no
// configuration: it came late to a fresh group, whose leader takes it for one that has
// an empty log.
func (m *Machine) askForFiles(shard uint16, row *shardmap.Row, status *replica.GroupStatus) {
	self, published := row.MemberOn(m.config.Host.Node, m.config.Host.Incarnation)
	if len(status.Configuration.Voters) > 0 || row.Fresh || !published || !self.Role.Votes() {
		return
	}
	for i := range row.Members {
		from := &row.Members[(i+m.ticks/stepTicks)%len(row.Members)] // another one each time
		if from.Role == shardmap.Full && from.Node != m.config.Host.Node {
			m.out.fetch(replica.SnapshotNeed{Shard: shard, Leader: from.Node})
			return
		}
	}
}

// leave ends a replica that the map does not name, once it is certain that its group
// goes on without it. The map may name what was, or what is to be, while the group's
// configuration has the replica still, or already: without its log and vote the group
// could forget what it has acknowledged. So other members are asked.
func (m *Machine) leave(shard uint16, row *shardmap.Row, status *replica.GroupStatus, other bool) {
	empty := len(status.Configuration.Voters) == 0
	switch {
	case !empty && !names(&status.Configuration, status.RaftID): // its own log says so
		m.remove(shard, status.RaftID)
	case empty && (other && row.Era >= status.Era || row.Era > status.Era):
		m.remove(shard, status.RaftID)
	case !empty:
		m.out.ask(Question{Shard: shard, RaftID: status.RaftID, Era: status.Era, Index: status.Configuration.Index, Members: row.Members})
	}
}

// goOnAlone makes a group that has lost its majority go on from the replica here. One
// whose files are being swapped, or whose state is synced, goes on when that has ended.
func (m *Machine) goOnAlone(shard uint16, row *shardmap.Row, status *replica.GroupStatus, raftID uint64) {
	if status.Installing || status.Syncing || m.swaps[shard] != nil {
		return
	}
	if err := m.host.Force(shard, raftID, row.Era); err != nil {
		m.config.Logger.Error("a group cannot go on from the replica here", "shard", shard, "error", err)
		return
	}
	m.figures.Recovered++
	m.config.Logger.Warn("a group that had lost its majority goes on from the replica here", "shard", shard, "era", row.Era)
}

// Left ends a replica of which another member has said that the group is without it.
func (m *Machine) Left(q *Question) {
	if r := m.quarantined[q.Shard]; r != nil && q.Quarantined && r.state.RaftID == q.RaftID {
		m.dismiss(q.Shard)
		return
	}
	status, err := m.host.Status(q.Shard)
	if err != nil || status.RaftID != q.RaftID || m.dropping[q.Shard] || m.rows == nil {
		return
	}
	if wanted, here := m.member(&m.rows[q.Shard]); !here || wanted.RaftID != q.RaftID {
		m.remove(q.Shard, q.RaftID)
	}
}

// names reports whether a configuration has a raft id in any part.
func names(c *replica.Configuration, id uint64) bool {
	for _, list := range [4][]uint64{c.Voters, c.Outgoing, c.Learners, c.LearnersNext} {
		if slices.Contains(list, id) {
			return true
		}
	}
	return false
}

// remove ends a replica and has its data dropped when nothing of it is on its way to
// the engine any more.
func (m *Machine) remove(shard uint16, raftID uint64) {
	if err := m.host.Remove(shard); err != nil {
		m.config.Logger.Error("a replica cannot be ended", "shard", shard, "error", err)
		return
	}
	m.config.Logger.Info("the map has this node's replica no more; its data is dropped", "shard", shard, "raft_id", raftID)
	m.index.shards[shard] = shardIndex{}
	m.spent[shard] = max(m.spent[shard], raftID)
	m.dropping[shard] = true
	m.views[shard].Lives++
	m.viewed(shard)
	if m.swaps[shard] != nil {
		m.out.Cancel = append(m.out.Cancel, shard) // its end lets the data be dropped
		return
	}
	m.out.drop(shard)
}

// Dropped goes on with a shard whose data was dropped.
func (m *Machine) Dropped(shard uint16) {
	m.dropping[shard] = false
	m.dispatched[shard] = 0
	m.place(shard)
}

// stepAll brings the groups that this node leads towards the map.
func (m *Machine) stepAll() {
	m.figures.Unpublished = 0
	for _, shard := range m.host.Shards() {
		status, err := m.host.Status(shard)
		if err != nil || m.rows == nil {
			continue
		}
		m.giveUpUnindexed(shard, &status)
		if !status.Leads {
			continue
		}
		m.figures.Unpublished += oneIf(m.step(shard, &status))
	}
	m.out.Counted = true
	m.out.Unpublished = m.out.Unpublished || m.figures.Unpublished > 0
}

// stepChanging is stepAll for the groups that are on their way, which are few: their
// members catch up and log changes between two looks at all groups.
func (m *Machine) stepChanging() {
	for shard := range m.views {
		if m.views[shard].Changing {
			m.stepOne(uint16(shard))
		}
	}
}

// stepOne brings one group that this node leads towards the map.
func (m *Machine) stepOne(shard uint16) {
	status, err := m.host.Status(shard)
	if err == nil && m.rows != nil && status.Leads && m.step(shard, &status) {
		m.out.Unpublished = true
	}
}

// giveUpUnindexed makes a group forget the entries of when it had one voter: they are not indexed,
// so that a member that needs them has to fetch files, which it is told when they are
// gone. They stay on disk for as long as this node's engine needs them.
func (m *Machine) giveUpUnindexed(shard uint16, status *replica.GroupStatus) {
	s := &m.index.shards[shard]
	if status.SingleVoter || len(s.positions) == 0 || status.Truncated.Index >= s.unindexed() {
		return
	}
	if err := m.host.CompactTo(shard, min(s.unindexed(), status.Handed)); err != nil {
		m.config.Logger.Warn("a group's log cannot be shortened", "shard", shard, "error", err)
	}
}

// step does what is next for one group; true: the map lacks its configuration.
func (m *Machine) step(shard uint16, status *replica.GroupStatus) (unpublished bool) {
	next := replica.NextStep(m.rows[shard], *status)
	if next.Kind == replica.StepChange && !heard(next.Members, status) {
		return false
	}
	var err error
	switch next.Kind {
	case replica.StepChange:
		err = m.host.Change(shard, next.Members)
	case replica.StepTransfer:
		err = m.transfer(shard, status, next.Node)
	case replica.StepPublish:
		return true
	case replica.StepNone, replica.StepWait:
	}
	if err != nil && !errors.Is(err, replica.ErrBusy) {
		m.config.Logger.Warn("a group cannot take its next step", "shard", shard, "step", next.Kind, "error", err)
	}
	return false
}

// heard reports whether a majority of the voters that a change leads to is heard: a change
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

// Durable notes in the host what a checkpoint has made durable, so that it forgets the
// entries that nobody needs any more: all that every full voter has, or with more than
// logBytesMax of log, all that this node's engine has.
func (m *Machine) Durable(applied []uint64, force bool) {
	for _, shard := range m.host.Shards() {
		m.host.Durable(shard, applied[shard])
		status, err := m.host.Status(shard)
		if err != nil {
			continue
		}
		upto := applied[shard]
		if status.Role == shardmap.Witness {
			upto = status.Trim // it has no engine that could be behind
		} else if !force && !status.SingleVoter {
			upto = min(upto, status.Trim)
		}
		if err := m.host.CompactTo(shard, upto); err != nil {
			m.config.Logger.Warn("a group's log cannot be shortened", "shard", shard, "error", err)
		}
	}
}

// LowWater returns the position before which no group needs the log.
func (m *Machine) LowWater() wal.Position {
	lowWater := m.index.log.End()
	for _, shard := range m.host.Shards() {
		status, err := m.host.Status(shard)
		if err != nil {
			continue
		}
		s := &m.index.shards[shard]
		s.trim(status.Truncated.Index)
		if at, ok := s.from(status.Truncated.Index); ok {
			lowWater = min(lowWater, at)
		}
	}
	return m.lowWaterOfQuarantined(lowWater)
}

// lowWaterOfQuarantined is LowWater for what is kept of replicas that take no part.
func (m *Machine) lowWaterOfQuarantined(lowWater wal.Position) wal.Position {
	for shard, r := range m.quarantined {
		if at, ok := m.index.shards[shard].from(r.state.Truncated.Index); ok {
			lowWater = min(lowWater, at)
		}
	}
	return lowWater
}

// after returns the position from which on the log has all entries after applied.
func (m *Machine) after(applied []uint64) wal.Position {
	position := m.index.log.End()
	for shard := range m.index.shards {
		if m.views[shard].Witness {
			continue // nothing of it is ever applied; that of a quarantined one is, when its group goes on from it
		}
		if at, ok := m.index.shards[shard].from(applied[shard]); ok {
			position = min(position, at)
		}
	}
	return position
}

// states returns the states of all groups. It is called between rounds.
func (m *Machine) states() []replica.GroupState {
	var states []replica.GroupState
	for _, shard := range m.host.Shards() {
		state, err := m.host.State(shard)
		if err != nil {
			panic("BUG: the state of a group was asked for within a round: " + err.Error())
		}
		states = append(states, state)
	}
	for _, shard := range slices.Sorted(maps.Keys(m.quarantined)) {
		states = append(states, m.quarantined[shard].state)
	}
	// That a replica was here is not forgotten while there is none: what it held may not
	// be dropped yet, and its raft id is not used again.
	for shard, raftID := range m.spent {
		if _, err := m.host.Status(uint16(shard)); err != nil && raftID > 0 && m.quarantined[uint16(shard)] == nil {
			states = append(states, replica.GroupState{Replica: replica.Replica{Shard: uint16(shard), RaftID: raftID}, Removed: true})
		}
	}
	return states
}

// BeginEpoch starts a new epoch. Entries after applied are at or after position, and so are
// the states of all groups, which the next round logs.
func (m *Machine) BeginEpoch() (position wal.Position, applied []uint64, epoch uint16) {
	m.epoch++
	m.relog = true
	return m.after(m.dispatched), m.Dispatched(), m.epoch
}

// EndOf returns the position from which on the log has all entries after applied.
func (m *Machine) EndOf(applied []uint64) wal.Position { return m.after(applied) }

// AppendStates adds the states of all groups to a buffer; it may have none. It is for a log
// that no round is on its way to.
func (m *Machine) AppendStates(buffer *wal.Buffer) error {
	_, err := addStates(buffer, nil, m.states())
	return err
}
