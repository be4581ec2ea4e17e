package replica

import "fmt"

// HandingOver reports whether it is about to be known who takes proposals for a shard, so that they may
// wait here: it is being handed over from here, or to here. It lasts an election timeout at most.
func (h *Host) HandingOver(shard uint16) bool {
	g := h.group(shard)
	return g != nil && g.handingOver()
}

// Successor returns the node that takes proposals for a shard, or is about to; "" if it is this one, or
// not known.
func (h *Host) Successor(shard uint16) string {
	g := h.group(shard)
	if g == nil || g.leads() || g.handingOver() {
		return ""
	}
	return g.successor()
}

// State returns a replica's state, to be logged again at a checkpoint of the node's log.
// It must be called between Advance and Ready. Errors: ErrNoGroup, ErrBusy.
func (h *Host) State(shard uint16) (GroupState, error) {
	g := h.group(shard)
	if g == nil {
		return GroupState{}, ErrNoGroup
	}
	if h.waiting {
		return GroupState{}, fmt.Errorf("%w: a round is under way", ErrBusy)
	}
	return g.durable(), nil
}

// Status returns the status of the shard's replica. Errors: ErrNoGroup.
func (h *Host) Status(shard uint16) (GroupStatus, error) {
	g := h.group(shard)
	if g == nil {
		return GroupStatus{}, ErrNoGroup
	}
	return g.status(), nil
}

// Era returns the era of the shard's replica, or 0 if there is none.
func (h *Host) Era(shard uint16) uint32 {
	if g := h.group(shard); g != nil {
		return g.replica.Era
	}
	return 0
}

// Shards returns the shards that have a replica here, in ascending order.
func (h *Host) Shards() []uint16 {
	out := make([]uint16, 0, len(h.groups))
	for _, g := range h.groups {
		out = append(out, g.replica.Shard)
	}
	return out
}
