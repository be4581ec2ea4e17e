package node

import (
	"context"
	"sync"
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

// What nodes tell each other of entries that forget series: see handshake.Forgets. One of an older version tells nothing.
const (
	forgetsUnderstood = 1
	forgetsKept       = 2 // and the format of the folder allows them
)

// forgetting has this node's leaders forget series without samples, a part of the series table after the other. An
// entry that says so may be proposed only when all nodes have folders that tell of it.
type forgetting struct {
	alone bool
	walk  storage.EmptyWalk
	found map[uint16][]uint32 // not forgotten yet
	turns int                 // since they were found
	ended bool                // the walk

	mu struct {
		sync.Mutex
		others map[string]bool // nodes that the map names; nil: there is no map yet
		heard  map[string]uint32
	}
}

func (f *forgetting) init(nodeID string) {
	f.alone = nodeID == "" || nodeID == aloneID
	f.mu.heard = map[string]uint32{}
}

// expect sets which other nodes there are.
func (f *forgetting) expect(others map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.others = others
	for name := range f.mu.heard {
		if !others[name] {
			delete(f.mu.heard, name)
		}
	}
}

// all reports whether all other nodes have said at least so much.
func (f *forgetting) all(least uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.others == nil {
		return f.alone
	}
	for name := range f.mu.others {
		if f.mu.heard[name] < least {
			return false
		}
	}
	return true
}

// any reports whether one of the other nodes has said at least so much.
func (f *forgetting) any(least uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, heard := range f.mu.heard {
		if heard >= least {
			return true
		}
	}
	return false
}

// HeardForgets notes another node's state of entries that forget series.
func (n *Node) HeardForgets(from string, forgets uint32) {
	f := &n.forgetting
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.others == nil || f.mu.others[from] {
		if _, known := f.mu.heard[from]; known || len(f.mu.heard) < clocksMax {
			f.mu.heard[from] = forgets
		}
	}
}

// Forgets returns this node's state of entries that forget series.
func (n *Node) Forgets() uint32 {
	if n.engine.LetsForget() {
		return forgetsKept
	}
	return forgetsUnderstood
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
	if f.any(forgetsKept) {
		if err := n.engine.LetForget(); err != nil {
			return err
		}
	}
	if !n.options.ForgetSeries || !f.all(forgetsUnderstood) {
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
	if !f.all(forgetsKept) {
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
