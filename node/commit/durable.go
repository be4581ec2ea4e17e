package commit

import (
	"maps"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

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

// Dispatched returns the last entry of each shard that was given to an applier.
func (m *Machine) Dispatched() []uint64 { return append([]uint64(nil), m.dispatched...) }
