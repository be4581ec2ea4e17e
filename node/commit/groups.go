package commit

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
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
