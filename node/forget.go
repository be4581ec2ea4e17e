package node

import (
	"context"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

// Bounds of what is forgotten: of the loop's time for one entry, and of what a turn looks at and finds.
const (
	forgetIDsMax   = 1024    // in one entry
	forgetFoundMax = 1 << 14 // in one turn
	forgetWalkMax  = 1 << 20 // series that a turn looks at
	forgetAttempts = 3       // of an entry in one turn
	forgetTurnsMax = 30      // of shards in use, until the walk goes on
	forgetPause    = time.Second
	// forgetWalkPause is what passes from the end of the series table to its beginning: a series that is deleted and written
	// again all the time leaves another key on the disk so often.
	forgetWalkPause = time.Hour
)

// forgetting has this node's leaders forget series without samples, a part of the series table after the other. An
// entry that says so may be proposed only when all nodes have folders that tell of it.
type forgetting struct {
	walk  storage.EmptyWalk
	found map[uint16][]uint32 // not forgotten yet
	turns int                 // since they were found
	ended bool                // the walk
}

// refuses reports whether there is a reason for which the node takes no writes.
func (n *Node) refuses() bool { return n.loop.refusals.any() != nil }

func (n *Node) forgetDue(now, last time.Time) bool {
	if n.forgetting.ended && len(n.forgetting.found) == 0 {
		return now.Sub(last) >= min(forgetWalkPause, n.options.FlushInterval)
	}
	return now.Sub(last) >= forgetPause
}

// forget has series forgotten that have no samples any more, of the shards that this node leads.
func (n *Node) forget(ctx context.Context) error {
	f := &n.forgetting
	if n.refuses() {
		return nil
	}
	// Another one may have sent such entries already.
	if n.peers.any(forgetsKept) {
		if err := n.engine.LetForget(); err != nil {
			return err
		}
	}
	// A shard that moves has no keys of series that are forgotten, once these leave the disk.
	if n.engine.LetsForget() && n.peers.all(keysUnneeded) {
		n.engine.LetDropKeys()
	}
	if !n.options.ForgetSeries || !n.peers.all(forgetsUnderstood) {
		return nil
	}
	if f.turns++; len(f.found) == 0 || f.turns > forgetTurnsMax {
		f.turns = 0
		f.found, f.ended = n.engine.Walk(&f.walk, forgetWalkMax, forgetFoundMax, func(shard uint16) bool { return n.loop.groups[shard].leads.Load() })
	}
	if len(f.found) == 0 {
		return nil
	}
	// Others hear of it, and do the same: until they have, none of them may get such an entry.
	if err := n.engine.LetForget(); err != nil {
		return err
	}
	if !n.peers.all(forgetsKept) {
		return nil
	}
	for shard, ids := range f.found {
		left := ids[:0]
		for from := 0; from < len(ids) && ctx.Err() == nil; from += forgetIDsMax {
			some := ids[from:min(from+forgetIDsMax, len(ids))]
			if !n.forgetSome(shard, some) {
				left = append(left, some...)
			}
		}
		if f.found[shard] = left; len(left) == 0 || !n.loop.groups[shard].leads.Load() {
			delete(f.found, shard)
		}
	}
	return nil
}

// forgetSome reports whether none of some series of a shard is left to be forgotten.
func (n *Node) forgetSome(shard uint16, ids []uint32) bool {
	for range forgetAttempts {
		done := make(chan struct{}, 1)
		var w *commit.Write
		empty := true
		err := n.loop.queue.do(func() { w, empty = n.loop.proposeForget(shard, ids, func() { done <- struct{}{} }) })
		if err != nil || empty {
			return err == nil
		}
		if w == nil {
			continue
		}
		<-done
		if w.FirstError() == nil && n.engine.HasForgotten(shard, ids[len(ids)-1]) {
			return true
		}
	}
	return false
}

// proposeForget looks which of some series have no samples, and proposes to forget them, between two rounds: nothing
// can be proposed in between, so that the entry is the next one. A nil write: the shard is in use. Empty: there is
// nothing to forget.
func (l *loop) proposeForget(shard uint16, ids []uint32, done func()) (w *commit.Write, empty bool) {
	found, after := l.engine.EmptySeries(shard, ids)
	if len(found) == 0 {
		return nil, after > 0
	}
	w = commit.NewWrite(series.BatchID{}, 1)
	w.Add(entry.Forget, shard, entry.ForgetBody(after, found))
	w.Done = done
	w.Begin()
	if !l.machine.ProposeNext(w, after) {
		return nil, false
	}
	return w, false
}
