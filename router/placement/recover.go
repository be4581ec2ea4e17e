package placement

import (
	"context"
	"errors"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// recover makes shards go on that have lost their majority for good, from the best of all
// copies that may have data: rule M6 of api/shardmap. Nodes are asked only while the map
// has rows with a member that is not there: even a majority that is live may be one that cannot elect a
// leader, as shardmap.Recoveries knows. A shard has to be found so at two ticks, with one
// row, so that nobody is overtaken who is just learning of a change.
func (l *Loop) recover(ctx context.Context, view shardmap.View, state shardmap.State) shardmap.View {
	if l.options.Copies == nil || state.Map == nil || shardmap.Summarize(state).Incomplete == 0 {
		l.noteWaiting(0)
		l.lost = nil
		return view
	}
	found := shardmap.Recoveries(state.Map, l.options.Copies(ctx))
	next, before, count, waiting := *state.Map, l.lost, 0, 0
	l.lost = map[uint16]uint64{}
	for i := range found {
		r := &found[i]
		if !r.Automatic() {
			if !r.Electable {
				waiting++
			}
			continue
		}
		version := state.Map.Rows[r.Shard].Version
		if seen, again := before[r.Shard]; !again || seen != version {
			l.lost[r.Shard] = version
			continue
		}
		changed, err := next.Recover(r, l.options.Clock().UnixMilli(), false)
		if err != nil {
			l.options.Log.Error("a shard cannot go on from its best copy", "shard", r.Shard, "error", err)
			continue
		}
		next, count = changed, count+1
		node := next.Rows[r.Shard].Members[0].Node
		l.options.Log.Warn("a shard has lost its majority for good; all who may have data are there, and it goes on from the best copy",
			"shard", r.Shard, "node", node, "era", r.Era)
	}
	l.noteWaiting(waiting)
	if count == 0 {
		return view
	}
	next.Epoch = state.Map.Epoch + 1 // all in one step
	if err := l.options.Store.CompareAndSwap(ctx, state.Map.Epoch, next); err != nil {
		if errors.Is(err, shardmap.ErrConflict) {
			l.note(func(s *Status) { s.Conflicts++ })
			return view
		}
		l.note(func(s *Status) { s.Failures, s.Err = s.Failures+1, err })
		l.options.Log.Warn("shards cannot be made to go on", "error", err)
		return view
	}
	l.note(func(s *Status) { s.Recovered += uint64(count) })
	view.Map = &next
	return view
}

func (l *Loop) noteWaiting(shards int) { l.note(func(s *Status) { s.WaitingForCopies = shards }) }
