package shardmap

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrRescue marks reports from which no map can be built.
var ErrRescue = errors.New("the map cannot be rescued")

// Report is what a node has of the map when the store has lost it.
type Report struct {
	Node, Incarnation string
	Map               *Map          // the newest that it has seen; nil: none
	Groups            []GroupReport // of the replicas in its folder
}

// GroupReport is a replica's own configuration, as its log has it.
type GroupReport struct {
	Shard       uint16
	Era         uint32
	RaftID      uint64
	ConfigIndex uint64   // of the entry that made the configuration
	Members     []Member // of the group
	RaftIDLast  uint64   // the largest raft id that the replica has seen
}

// Rescue builds a map from the nodes' reports: the newest map that any has seen, with
// each row's members as the newest configuration (by era and index) says that a
// replica has in its log. Moves that were under way are called off; planning finds them again. The
// epoch is greater than any that was seen, with a margin for changes that no
// reporting node has seen, and so are raft ids. Errors: ErrRescue, when the reports
// are of several clusters, or none has a map.
func Rescue(reports []Report) (Map, error) {
	var newest *Map
	for _, report := range reports {
		switch m := report.Map; {
		case m == nil:
		case newest != nil && m.ID != newest.ID:
			return Map{}, fmt.Errorf("%w: node %s is of cluster %s, others are of %s", ErrRescue, report.Node, m.ID, newest.ID)
		case newest == nil || m.Epoch > newest.Epoch:
			newest = m
		}
	}
	if newest == nil {
		return Map{}, fmt.Errorf("%w: none of %d nodes has seen a map", ErrRescue, len(reports))
	}
	m := newest.Clone()
	m.Epoch += rescueMargin
	best := map[uint16]GroupReport{}
	last := map[uint16]uint64{}
	for _, report := range reports {
		for _, group := range report.Groups {
			is, known := best[group.Shard]
			if !known || cmp.Or(cmp.Compare(group.Era, is.Era), cmp.Compare(group.ConfigIndex, is.ConfigIndex)) > 0 {
				best[group.Shard] = group
			}
			last[group.Shard] = max(last[group.Shard], group.RaftIDLast, group.RaftID)
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(best)) {
		if int(shard) >= len(m.Rows) {
			return Map{}, fmt.Errorf("%w: shard %d of %d", ErrRescue, shard, len(m.Rows))
		}
		m.Rows[shard] = rescued(m.Rows[shard], best[shard])
	}
	for shard := range m.Rows {
		row := &m.Rows[shard]
		row.RaftIDLast = max(row.RaftIDLast, last[uint16(shard)]) + rescueMargin
		row.Version += rescueMargin
		row.Intended = nil
	}
	if err := m.Validate(); err != nil {
		return Map{}, fmt.Errorf("%w: %w", ErrRescue, err)
	}
	return m, nil
}

// rescueMargin is more than the changes of a map, and the raft ids of a shard, that a
// set of nodes can have missed while they were live.
const rescueMargin = 1_000_000

// rescued is a row with the configuration that a replica has. A configuration says
// nothing of a row whose map is newer: there Members were published from a newer one,
// but then a replica with that one reports too, unless its node is away; the group
// itself tells its leader, who publishes again.
func rescued(row Row, group GroupReport) Row {
	if len(group.Members) == 0 || group.Era < row.Era {
		return row
	}
	row.Era = group.Era
	row.Fresh = false
	row.Members = slices.Clone(group.Members)
	SortMembers(row.Members)
	for _, m := range row.Members {
		row.RaftIDLast = max(row.RaftIDLast, m.RaftID)
	}
	return row
}
