package commit

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

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

// placeQuarantined decides what becomes of a quarantined replica.
func (m *Machine) placeQuarantined(shard uint16, row *shardmap.Row, r *quarantined) {
	self := r.self()
	named, published := row.MemberOn(m.config.Host.Node, m.config.Host.Incarnation)
	switch {
	case published && goesOnAlone(row, named, &r.state.Replica) && named.RaftID > m.spent[shard]:
		m.resurrect(shard, row.Era, named.RaftID, r)
	case published && beginsAnew(row, &r.state.Replica):
		m.dismiss(shard)
	default: // the row may be older than the replica, and the one that a later era's names may never begin it: somebody has to be seen
		m.out.ask(Question{Shard: shard, RaftID: self.RaftID, Era: r.state.Era, Index: r.state.Configuration.Index, Members: row.Members,
			Quarantined: true, Place: shardmap.Member{Node: m.config.Host.Node, Incarnation: m.config.Host.Incarnation}})
	}
}

// goesOnAlone reports whether a row lets its group go on from this one of its replicas: rule
// M6 of api/shardmap.
func goesOnAlone(row *shardmap.Row, named shardmap.Member, is *replica.Replica) bool {
	return row.Era > is.Era && len(row.Members) == 1 && !row.Fresh && named.RaftID != is.RaftID && is.Role != shardmap.Witness
}

// beginsAnew reports whether a row that names a place alone lets its group begin without
// data there, in a later era, though it has a witness of an earlier one. No other replica
// could tell that witness to end.
func beginsAnew(row *shardmap.Row, is *replica.Replica) bool {
	return row.Era > is.Era && len(row.Members) == 1 && row.Fresh && is.Role == shardmap.Witness
}

// resurrect makes a group that has lost its majority for good go on from a quarantined replica: the
// map has named it as all that is left, in a new era.
func (m *Machine) resurrect(shard uint16, era uint32, raftID uint64, r *quarantined) {
	err := m.host.Restore(r.state, r.summary)
	if err == nil {
		if err = m.host.Force(shard, raftID, era); err != nil {
			_ = m.host.Remove(shard) // it takes no part under its former raft id
		}
	}
	if err != nil {
		m.config.Logger.Error("a group cannot go on from what is left of it", "shard", shard, "error", err)
		return
	}
	delete(m.quarantined, shard)
	m.figures.Recovered++
	m.config.Logger.Warn("a group goes on from what is left of it", "shard", shard, "era", era)
}

// dismiss drops a quarantined replica: its group continues without it.
func (m *Machine) dismiss(shard uint16) {
	m.spent[shard] = max(m.spent[shard], m.quarantined[shard].state.RaftID)
	delete(m.quarantined, shard)
	m.index.shards[shard] = shardIndex{}
	m.dropping[shard] = true
	m.relog = true // the log says that it has ended before its data goes
	m.config.Logger.Info("the group goes on without what was left of a replica; its data is dropped", "shard", shard)
	m.out.drop(shard)
}
