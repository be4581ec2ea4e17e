package sim

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// follow goes on with a map that was adopted.
func (p *process) follow(m *shardmap.Map) {
	p.rows = m.Rows
	p.placeAll()
	p.stepAll()
}

func (p *process) placeAll() {
	for shard := range p.rows {
		p.place(uint16(shard))
	}
}

// place makes or ends the replica of one shard.
func (p *process) place(shard uint16) {
	if p.rows == nil || p.cleaning[shard] {
		return
	}
	row := &p.rows[shard]
	p.forgetRelics(shard, row)
	wanted, here := p.member(row)
	status, err := p.host.Status(shard)
	switch {
	case err == nil && p.goOnAlone(shard, row, &status):
	case err == nil && here && status.RaftID == wanted.RaftID && len(status.Configuration.Voters) == 0:
		p.ask(shard, row)
	case err == nil && (!here || status.RaftID != wanted.RaftID):
		p.leave(shard, row, &status, here)
	case err != nil && here && p.resurrect(shard, row, wanted):
	case err != nil && here && wanted.RaftID <= p.folder.spent[shard] && !p.world.is(RaftIDTwice):
		// The map lags behind the group: this replica has left.
	case err != nil && here:
		var first []shardmap.Member
		if _, settled := row.MemberOn(p.node.id, p.folder.incarnation); row.Fresh && settled {
			first = row.Members
		}
		r := replica.Replica{Shard: shard, RaftID: wanted.RaftID, Era: row.Era, Role: wanted.Role}
		p.world.trace.note("create", p.node.id, int(shard), int(r.RaftID), int(r.Role))
		if err := p.host.Create(r, first); err != nil {
			p.world.fail(0, "%s: create shard %d: %v", p.node.id, shard, err)
		}
	}
}

// ask gets files for a replica that the map has as a voter though it knows no
// configuration: it came late to a fresh group, whose leader takes it for one that has
// an empty log.
func (p *process) ask(shard uint16, row *shardmap.Row) {
	self, settled := row.MemberOn(p.node.id, p.folder.incarnation)
	if !settled || !self.Role.Votes() {
		return
	}
	for _, at := range p.world.rng.Perm(len(row.Members)) {
		if m := row.Members[at]; m.Role == shardmap.Full && m.Node != p.node.id {
			p.fetch(replica.SnapshotNeed{Shard: shard, Leader: m.Node})
			return
		}
	}
}

// member finds this node's replica in a row: as it is settled, else as it is
// intended. Its role is the one that it is going to have: a witness to be keeps no
// data while it is a learner.
func (p *process) member(row *shardmap.Row) (found shardmap.Member, ok bool) {
	for _, list := range [2][]shardmap.Member{row.Intended, row.Members} {
		for _, m := range list {
			if m.Node != p.node.id || m.Incarnation != p.folder.incarnation {
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

// leave ends a replica that the map does not name, once it is certain that its group
// has gone on without it: the map may name what was, or what is to be, while the
// group's configuration has the replica still, or already.
func (p *process) leave(shard uint16, row *shardmap.Row, status *replica.GroupStatus, other bool) {
	empty := len(status.Configuration.Voters) == 0
	knows := !empty && !hasReplica(&status.Configuration, status.RaftID)
	if p.world.is(DropOnMap) || empty && (other || row.Era > status.Era) || knows {
		p.remove(shard)
		return
	}
	if empty {
		return // it holds nothing; a leader with an older map may yet name it
	}
	id, index, era := status.RaftID, status.Configuration.Index, status.Era
	for _, m := range row.Members {
		if m.Node == p.node.id {
			continue
		}
		p.world.call(p, m.Node, func(q *process) bool {
			its, err := q.host.Status(shard)
			return err == nil && !its.Syncing && (its.Era > era || its.Era == era && its.Configuration.Index > index && !hasReplica(&its.Configuration, id))
		}, func(left bool) {
			if now, err := p.host.Status(shard); left && err == nil && now.RaftID == id && !p.cleaning[shard] {
				p.remove(shard)
			}
		})
	}
}

func hasReplica(c *replica.Configuration, id uint64) bool {
	for _, list := range [4][]uint64{c.Voters, c.Outgoing, c.Learners, c.LearnersNext} {
		for _, v := range list {
			if v == id {
				return true
			}
		}
	}
	return false
}

// remove ends a replica, and drops its data when that is logged and nothing of the
// shard is on its way to the engine any more.
func (p *process) remove(shard uint16) {
	status, _ := p.host.Status(shard)
	p.world.trace.note("remove", p.node.id, int(shard), int(status.RaftID))
	if err := p.host.Remove(shard); err != nil {
		p.world.fail(0, "%s: remove shard %d: %v", p.node.id, shard, err)
		return
	}
	p.places[shard] = places{}
	delete(p.preparing, shard)
	p.cleaning[shard] = true
	p.drain(func() {
		p.syncStates(func() { // a start must not find the replica without its data
			p.drop(shard)
			p.command(func() {
				p.cleaning[shard] = false
				p.dispatched[shard] = 0
				p.place(shard)
			})
		})
	})
}

// drain does something when the next round is written, and all before it is applied.
func (p *process) drain(do func()) {
	p.command(func() { // the round of the present turn
		p.applies = append(p.applies, toApply{mark: do})
		p.applySoon()
	})
}

// drop gives up what the engine has of a shard.
func (p *process) drop(shard uint16) {
	p.world.trace.note("drop", p.node.id, int(shard), int(p.engine[shard].applied))
	p.engine[shard] = &shardState{generation: p.engine[shard].generation + 1}
	p.folder.shards[shard] = durableShard{shardState: p.engine[shard].clone(), logPosition: p.folder.end()}
	for _, r := range p.awaiting[shard] {
		r.refuse(p, errReplaced)
	}
	p.awaiting[shard] = nil
	p.world.checkCopies(shard, "data was dropped")
}

// stepAll brings the groups that this node leads towards the map.
func (p *process) stepAll() {
	if p.rows == nil {
		return
	}
	for _, shard := range p.host.Shards() {
		status, err := p.host.Status(shard)
		if err != nil {
			continue
		}
		if status.Fault != nil {
			p.world.fail(6, "%s: shard %d has stopped: %v", p.node.id, shard, status.Fault)
		}
		if !status.Leads {
			continue
		}
		p.world.oracle.leads(p, shard, status.Era, status.Term, status.RaftID)
		next := replica.NextStep(p.rows[shard], status)
		if next.Kind == replica.StepChange && !heard(next.Members, &status) {
			continue
		}
		switch next.Kind {
		case replica.StepChange:
			err = p.host.Change(shard, next.Members)
		case replica.StepTransfer:
			err = p.host.Transfer(shard, next.Node)
		case replica.StepSettle:
			p.unsettled = true
		case replica.StepNone, replica.StepWait:
		}
		if err != nil && !errors.Is(err, replica.ErrBusy) {
			p.world.fail(0, "%s: shard %d step %v: %v", p.node.id, shard, next, err)
		}
	}
}

// heard reports whether a majority of the voters that a change leads to is heard, and has
// what is committed: a change that leaves a living voter with a dead one would be the
// group's last.
func heard(members []shardmap.Member, status *replica.GroupStatus) bool {
	voters, active := 0, 0
	for _, m := range members {
		if !m.Role.Votes() {
			continue
		}
		voters++
		for _, p := range status.Progress {
			if p.Member.RaftID == m.RaftID && p.Active && p.Match >= status.Commit {
				active++
			}
		}
	}
	return 2*active > voters
}

// settle writes what one group has reached into the map. That the node still leads
// is confirmed after the map was read that the swap rests on: so no later
// configuration is replaced by an earlier one.
func (p *process) settle() {
	present := p.folder.kept
	p.unsettled = false
	if present == nil {
		return
	}
	for _, shard := range p.host.Shards() {
		status, err := p.host.Status(shard)
		if err != nil || !status.Leads {
			continue
		}
		next := replica.NextStep(present.Rows[shard], status)
		if next.Kind != replica.StepSettle {
			continue
		}
		if p.world.is(DropOnMap) {
			p.swapSettled(shard, present, next.Members)
			return
		}
		term := status.Term
		confirm := &request{shard: shard}
		confirm.confirmed = func(index uint64) {
			now, err := p.host.Status(shard)
			if err != nil || !now.Leads || now.Term != term || now.Handed < index || p.folder.kept != present {
				return
			}
			if again := replica.NextStep(present.Rows[shard], now); again.Kind == replica.StepSettle {
				p.swapSettled(shard, present, again.Members)
			}
		}
		p.command(func() { p.startReads([]*readWait{{request: confirm}}) })
		return
	}
}

func (p *process) swapSettled(shard uint16, present *shardmap.Map, members []shardmap.Member) {
	settled, differs := present.Rows[shard].Settled(members)
	if !differs {
		return
	}
	next := present.WithRow(shard, settled)
	p.world.trace.note("settle", p.node.id, int(shard), int(next.Epoch), len(members))
	p.world.swap(p.store, present.Epoch, next, p.run, func(err error) {
		if err == nil {
			p.adopt(&next)
		}
	})
}
