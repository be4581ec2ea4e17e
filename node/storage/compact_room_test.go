package storage

import (
	"context"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/compact"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// roomLab has segments of several months that wait to be joined.
func roomLab(t *testing.T) (n *labNode, nowMs int64) {
	logs := newLabLogs()
	n = newLabNode(t, logs)
	n.hosts[0] = true
	const firstMs = int64(1_700_000_000_000)
	for month := range int64(3) {
		for day := range int64(2) {
			logs[0].put(logs[0].keys, firstMs+(month*30+day)*segment.DayMs)
			n.apply(0, math.MaxInt)
			n.seal()
		}
	}
	return n, firstMs + 400*segment.DayMs
}

// TestCompactionWaitsForRoom: without room for its output no compaction begins, and it goes on by
// itself when there is room.
func TestCompactionWaitsForRoom(t *testing.T) {
	n, nowMs := roomLab(t)
	defer n.end()
	free, err := n.fs.Free("data")
	if err != nil {
		t.Fatal(err)
	}
	reserve := compact.Reserve * n.e.options.GenerationBytesMax
	setFree := func(bytes int64) { n.fs.SetCapacity(1<<40 - free + bytes) }
	setFree(reserve + 100) // for no segment at all
	created := 0
	n.beforeSegment(func(string) error {
		created++
		return nil
	})
	for range 3 {
		if did, err := n.e.Compact(context.Background(), nowMs); did || err != nil || created > 0 {
			t.Fatalf("a compaction without room: %v, %v, %d files begun", did, err, created)
		}
	}
	if waiting := n.e.Stats().CompactionBytesWaiting; waiting == 0 {
		t.Error("nobody is told that compactions wait")
	}
	n.check("without room")
	setFree(reserve + 1<<20)
	before := len(n.segmentFiles())
	n.compactAll()
	if after := len(n.segmentFiles()); after >= before {
		t.Errorf("%d segments, %d before there was room", after, before)
	}
	if waiting := n.e.Stats().CompactionBytesWaiting; waiting != 0 {
		t.Errorf("%d bytes wait", waiting)
	}
	n.check("with room")
}

// TestFailedCompactionKeepsNobodyWaiting: what fails in one partition is done in the others, and
// is tried again only after a while.
func TestFailedCompactionKeepsNobodyWaiting(t *testing.T) {
	n, nowMs := roomLab(t)
	defer n.end()
	bad, tries := "", 0
	n.beforeSegment(func(name string) error {
		partition, _, _ := strings.Cut(name, "-")
		if bad == "" {
			bad = partition
		}
		if partition != bad {
			return nil
		}
		tries++
		return syscall.ENOSPC
	})
	step := func(nowMs int64) (did bool, err error) { return n.e.Compact(context.Background(), nowMs) }
	if did, err := step(nowMs); did || err == nil {
		t.Fatalf("nothing failed: %v, %v", did, err)
	}
	jobs := 0
	for ; ; jobs++ {
		did, err := step(nowMs)
		if err != nil {
			t.Fatalf("%v, after %d compactions", err, jobs)
		}
		if !did {
			break
		}
	}
	if jobs == 0 || tries != 1 {
		t.Fatalf("%d compactions beside the one that fails, which was tried %d times", jobs, tries)
	}
	for failures := 2; failures <= 12; failures++ {
		waitMs := min(compact.RetryDelayMin.Milliseconds()<<(failures-2), compact.RetryDelayMax.Milliseconds())
		if did, err := step(nowMs + waitMs - 1); did || err != nil || tries != failures-1 {
			t.Fatalf("tried before its time: %v, %v, %d times", did, err, tries)
		}
		nowMs += waitMs
		if did, err := step(nowMs); did || err == nil || tries != failures {
			t.Fatalf("not tried again: %v, %v, %d times", did, err, tries)
		}
	}
	n.setRule(nil)
	if did, err := step(nowMs - 2*compact.RetryDelayMax.Milliseconds()); !did || err != nil {
		t.Errorf("a clock that went back makes a compaction wait: %v, %v", did, err)
	}
	n.check("healed")
}
