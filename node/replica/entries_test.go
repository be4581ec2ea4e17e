package replica

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"
)

// slowLog is all entries there are, written or not.
type slowLog struct {
	all       map[uint64]Entry
	last      uint64
	truncated Position
}

func (l *slowLog) Entries(_ uint16, lo, hi uint64, _ int) ([]Entry, error) {
	e, ok := l.all[lo]
	if !ok {
		return nil, fmt.Errorf("no entry %d", lo)
	}
	out := []Entry{e}
	if next, ok := l.all[lo+1]; ok && lo+1 < hi {
		out = append(out, next)
	}
	return out, nil
}

// TestEntryLog compares the log's bookkeeping with a map of everything.
func TestEntryLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slow := &slowLog{all: map[uint64]Entry{}}
		log := entryLog{reader: slow}
		term, committed := uint64(1), uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				from := rapid.Uint64Range(committed+1, slow.last+1).Draw(t, "from")
				if from <= slow.last {
					term++
				}
				term += rapid.Uint64Range(0, 1).Draw(t, "term")
				var entries []*pb.Entry
				for i := from; i <= slow.last; i++ {
					delete(slow.all, i)
				}
				for i := range rapid.Uint64Range(1, 5).Draw(t, "n") {
					e := Entry{Kind: 1, Term: term, Index: from + i, Body: make([]byte, rapid.IntRange(0, 20).Draw(t, "size"))}
					slow.all[e.Index], slow.last = e, e.Index
					entries = append(entries, toRaft(e))
				}
				log.append(entries)
			},
			"commit": func(t *rapid.T) { committed = rapid.Uint64Range(committed, slow.last).Draw(t, "committed") },
			"evict":  func(t *rapid.T) { log.evict(committed, rapid.IntRange(-1, 1000).Draw(t, "bytes")) },
			"truncate": func(t *rapid.T) {
				at := rapid.Uint64Range(0, committed).Draw(t, "at")
				if at > slow.truncated.Index {
					slow.truncated = Position{at, slow.all[at].Term}
					for i := uint64(0); i <= at; i++ {
						delete(slow.all, i)
					}
				}
				log.truncate(at)
			},
			"snapshot": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rare") > 0 {
					t.Skip("not now")
				}
				slow.last += 3
				slow.truncated, slow.all, committed = Position{slow.last, term}, map[uint64]Entry{}, slow.last
				log.restart(slow.truncated)
			},
			"": func(t *rapid.T) { checkLog(t, &log, slow) },
		})
	})
}

func checkLog(t *rapid.T, log *entryLog, slow *slowLog) {
	if log.last != slow.last || log.truncated != slow.truncated {
		t.Fatalf("last %d, truncated %+v, want %d, %+v", log.last, log.truncated, slow.last, slow.truncated)
	}
	bytes := 0
	for _, e := range log.tail {
		bytes += keptBytes(e)
	}
	if bytes != log.tailBytes.n {
		t.Fatalf("%d bytes kept, %d counted", bytes, log.tailBytes.n)
	}
	for i := uint64(0); i <= slow.last+1; i++ {
		term, err := log.term(i)
		want, there := slow.all[i]
		switch {
		case there && (err != nil || term != want.Term):
			t.Fatalf("term of %d: %d, %v, want %d", i, term, err, want.Term)
		case i == slow.truncated.Index && (err != nil || term != slow.truncated.Term):
			t.Fatalf("term of the truncation: %d, %v", term, err)
		case i < slow.truncated.Index && !errors.Is(err, raft.ErrCompacted), i > slow.last && !errors.Is(err, raft.ErrUnavailable):
			t.Fatalf("term of %d, which is not there: %v", i, err)
		}
		if !there {
			continue
		}
		for _, bytesMax := range []uint64{0, 30, 1 << 20} {
			got, err := log.entries(i, slow.last+1, bytesMax, nil)
			if err != nil || len(got) == 0 {
				t.Fatalf("entries from %d: %d, %v", i, len(got), err)
			}
			for k, e := range got {
				if e.GetIndex() != i+uint64(k) || e.GetTerm() != slow.all[e.GetIndex()].Term {
					t.Fatalf("entry %d from %d on is %d of term %d", k, i, e.GetIndex(), e.GetTerm())
				}
			}
		}
	}
}
