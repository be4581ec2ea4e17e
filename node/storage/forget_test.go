package storage

import (
	"path"
	"strings"
	"testing"
)

// TestLostMarksForgetNothing: series whose marks have gone from the disk are not taken for series without samples, and are
// found again.
func TestLostMarksForgetNothing(t *testing.T) {
	n := newLabNode(t, newLabLogs())
	n.hosts = [labShards]bool{true, true, true}
	for shard, l := range n.logs {
		l.put(l.keys, l.nowMs)
		l.put(l.keys[:3], l.nowMs-50*24*3600_000)
		n.apply(shard, 2)
	}
	for _, do := range []func() error{n.checkpoint, n.checkpoint, n.e.Flush} { // no hot pages, and nothing in the page log
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	n.end()
	names, err := n.fs.List("data/" + dirIndex)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "active-") || strings.HasPrefix(name, "days-") {
			if err := n.fs.Remove(path.Join("data", dirIndex, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.open()
	var w EmptyWalk
	walk := func() map[uint16][]uint32 {
		ids, done := n.e.Walk(&w, 1<<20, 1<<20, func(uint16) bool { return true })
		for shard, list := range ids {
			if len(list) > 0 || !done {
				t.Fatalf("series %v of shard %d seem to be empty, %v", list, shard, done)
			}
		}
		return ids
	}
	if before := n.e.Stats().Corruptions; len(walk()) != labShards || n.e.Stats().Corruptions == before {
		t.Fatal("the marks were not lost, or nobody is told")
	}
	if len(walk()) > 0 {
		t.Fatal("the marks are still lost")
	}
	n.check("after the walk")
	n.end()
}
