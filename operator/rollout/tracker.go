package rollout

import "github.com/tickmesh/tickmesh/api/shardmap"

// Tracker turns views of the store into what Facts need: it remembers since when nodes
// are dead and empty. After a start of the operator it counts from the first view. It
// is not safe for concurrent use.
type Tracker struct {
	shardmap shardmap.Tracker
	empty    map[string]int64 // since when, ms
}

// Observe returns the state of a view, and for how long each node that is to be drained
// has been in no row, in milliseconds.
func (t *Tracker) Observe(view shardmap.View, nowMs int64) (shardmap.State, map[string]int64) {
	state := t.shardmap.Observe(view, nowMs)
	if t.empty == nil || view.Err != nil {
		t.empty = map[string]int64{}
	}
	if view.Err != nil {
		return state, nil
	}
	emptyForMs := map[string]int64{}
	since := map[string]int64{}
	for node, desired := range state.Desired {
		if desired == shardmap.Active || state.Map != nil && len(state.Map.MembersOn(node)) > 0 {
			continue
		}
		at, was := t.empty[node]
		if !was || at > nowMs {
			at = nowMs
		}
		since[node] = at
		emptyForMs[node] = nowMs - at
	}
	t.empty = since
	return state, emptyForMs
}
