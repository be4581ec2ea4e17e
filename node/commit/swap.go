package commit

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// ErrReplaced answers what is asked of a replica that is no more.
var ErrReplaced = fmt.Errorf("%w: the shard's replica was replaced", series.ErrUnavailable)

// swap is files that are on their way into a shard.
type swap struct {
	meta    replica.SnapshotMeta
	witness bool // it keeps no data: the meta is all it needs
}

// BeginSwap begins to replace a shard's files. They may be touched when an Output says that
// the shard is Prepared, and nothing of the shard is on its way to the engine any more.
func (m *Machine) BeginSwap(shard uint16, meta replica.SnapshotMeta) (witness bool, err error) {
	if m.swaps[shard] != nil {
		return false, replica.ErrBusy
	}
	status, err := m.host.Status(shard)
	if err != nil {
		return false, err
	}
	// The library would keep such a log, and what it has beyond the files. Those entries
	// stand before the end of the log, from which on a start applies entries to new files.
	if meta.Index <= status.Last && m.index.term(shard, meta.Index) == meta.Term {
		return false, fmt.Errorf("%w: the log has entry %d already", replica.ErrSnapshot, meta.Index)
	}
	if err := m.host.PrepareSnapshot(shard, meta); err != nil {
		return false, err
	}
	s := &swap{meta: meta, witness: status.Role == shardmap.Witness}
	m.swaps[shard] = s
	return s.witness, nil
}

// EndSwap goes on from a shard's new files, or from the old ones if failed says why there are
// none. It returns the index up to which the files have all; 0: no other than before.
func (m *Machine) EndSwap(shard uint16, failed error) (applied uint64, err error) {
	s := m.swaps[shard]
	delete(m.swaps, shard)
	if m.dropping[shard] {
		m.out.drop(shard)
		return 0, errors.Join(failed, ErrReplaced)
	}
	if failed != nil {
		m.host.AbortSnapshot(shard)
		return 0, failed
	}
	if !s.witness {
		m.dispatched[shard], applied = s.meta.Index, s.meta.Index
	}
	return applied, m.host.InstallSnapshot(shard, s.meta)
}

// Steady reports whether a shard's data belongs to its replica: it is neither being dropped
// nor replaced.
func (m *Machine) Steady(shard uint16) bool { return !m.dropping[shard] && m.swaps[shard] == nil }
