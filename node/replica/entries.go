package replica

import (
	"slices"
	"sort"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tickmesh/tickmesh/node/replica/envelope"
)

// Log reads entries that are written to the node's log. It is asked within calls of
// the Host's methods, and only for entries between the shard's truncation and its
// last entry, as the last write of each index left them.
type Log interface {
	// Entries returns entries from index lo on, at least one, before hi, and no more
	// than bytesMax of bodies unless the first alone is larger. An error makes
	// members that need these entries fetch files instead.
	Entries(shard uint16, lo, hi uint64, bytesMax int) ([]Entry, error)
}

// Entry is an element of a group's log. Its body must not change.
type Entry struct {
	Kind  uint8
	Term  uint64
	Index uint64
	Body  []byte
}

// TermRun records that entries from First on, up to the next run, are of Term.
type TermRun struct {
	First uint64
	Term  uint64
}

// Position is an entry's index and term.
type Position struct {
	Index uint64
	Term  uint64
}

// entryLog describes a group's log: the terms of all entries, and the newest
// entries themselves. It reads older ones through Log.
//
// Invariant: tail holds consecutive entries, the last of them last, and every entry
// that is not yet written, or not yet given out as Committed since the start.
type entryLog struct {
	shard     uint16
	reader    Log
	truncated Position
	last      uint64
	runs      []TermRun // by First; those of entries after truncated.Index
	tail      []*pb.Entry
	tailBytes heldBytes
}

const evictAll = -1

// keptBytes is about what a kept entry costs, so that empty ones are bounded too.
func keptBytes(e *pb.Entry) int { return len(e.GetData()) + 128 }

func (l *entryLog) tailFirst() uint64 { return l.last + 1 - uint64(len(l.tail)) }

// term returns an entry's term; raft.ErrCompacted or raft.ErrUnavailable outside.
func (l *entryLog) term(index uint64) (uint64, error) {
	switch {
	case index == l.truncated.Index:
		return l.truncated.Term, nil
	case index < l.truncated.Index:
		return 0, raft.ErrCompacted
	case index > l.last:
		return 0, raft.ErrUnavailable
	}
	i := sort.Search(len(l.runs), func(i int) bool { return l.runs[i].First > index })
	if i == 0 {
		return 0, raft.ErrUnavailable
	}
	return l.runs[i-1].Term, nil
}

func (l *entryLog) lastTerm() uint64 {
	if len(l.runs) > 0 {
		return l.runs[len(l.runs)-1].Term
	}
	return l.truncated.Term
}

// known returns how many of the entries, from the first on, the log has.
func (l *entryLog) known(entries []*pb.Entry) int {
	n := slices.IndexFunc(entries, func(e *pb.Entry) bool {
		if e.GetIndex() <= l.truncated.Index {
			return false
		}
		term, err := l.term(e.GetIndex())
		return err != nil || term != e.GetTerm()
	})
	if n < 0 {
		return len(entries)
	}
	return n
}

// note accounts for one entry after the last, without keeping it.
func (l *entryLog) note(term uint64) uint64 {
	l.last++
	if len(l.runs) == 0 || l.runs[len(l.runs)-1].Term != term {
		l.runs = append(l.runs, TermRun{First: l.last, Term: term})
	}
	return l.last
}

// append takes entries, which replace what the log has from the first of them on.
func (l *entryLog) append(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	l.cut(entries[0].GetIndex())
	for _, e := range entries {
		l.note(e.GetTerm())
		l.tail = append(l.tail, e)
		l.tailBytes.add(keptBytes(e))
	}
}

// cut forgets the entries from index on.
func (l *entryLog) cut(index uint64) {
	if index > l.last {
		return
	}
	if first := l.tailFirst(); index <= first {
		l.tail = nil
		l.tailBytes.release()
	} else {
		keep := int(index - first)
		for _, e := range l.tail[keep:] {
			l.tailBytes.add(-keptBytes(e))
		}
		// A full slice expression: the library may still hold the old tail.
		l.tail = l.tail[:keep:keep]
	}
	l.last = index - 1
	for len(l.runs) > 0 && l.runs[len(l.runs)-1].First > l.last {
		l.runs = l.runs[:len(l.runs)-1]
	}
}

// evict drops the oldest kept entries, none after the index upto, until bytesMax fit;
// evictAll drops all up to there.
func (l *entryLog) evict(upto uint64, bytesMax int) {
	n := 0
	for n < len(l.tail) && l.tailBytes.n > bytesMax && l.tail[n].GetIndex() <= upto {
		l.tailBytes.add(-keptBytes(l.tail[n]))
		n++ // the array stays as it is: the library may hold a part of it in a message
	}
	if l.tail = l.tail[n:]; len(l.tail) == 0 {
		l.tail = nil
	}
}

// truncate forgets the entries up to index, which the log has.
func (l *entryLog) truncate(index uint64) {
	term, err := l.term(index)
	if err != nil || index <= l.truncated.Index {
		return
	}
	l.truncated = Position{Index: index, Term: term}
	for len(l.runs) > 1 && l.runs[1].First <= index+1 {
		l.runs = l.runs[1:]
	}
	if index >= l.last {
		l.runs = nil
	} else if l.runs[0].First <= index {
		l.runs[0].First = index + 1
	}
	l.evict(index, evictAll)
}

// restart makes the log empty after a snapshot.
func (l *entryLog) restart(at Position) {
	l.truncated, l.last, l.runs, l.tail = at, at.Index, nil, nil
	l.tailBytes.release()
}

// entries returns those in [lo, hi) as far as bytesMax allows, at least one. Of those that are not
// kept it returns none while lagging, unless that is nil, has no room for them: they are for members
// that lag, which the library then sends nothing.
func (l *entryLog) entries(lo, hi uint64, bytesMax uint64, lagging *laggingReads) ([]*pb.Entry, error) {
	if lo <= l.truncated.Index {
		return nil, raft.ErrCompacted
	}
	if hi > l.last+1 {
		return nil, raft.ErrUnavailable
	}
	if first := l.tailFirst(); lo >= first {
		kept := l.tail[lo-first : hi-first]
		n, size := 0, uint64(0)
		for n < len(kept) {
			size += uint64(len(kept[n].GetData()))
			if n > 0 && size > bytesMax {
				break
			}
			n++
		}
		return kept[:n:n], nil
	} else if hi > first {
		hi = first
	}
	limit, room := lagging.room(int(min(bytesMax, 1<<30)))
	if !room {
		return nil, nil
	}
	read, err := l.reader.Entries(l.shard, lo, hi, limit)
	if err != nil || len(read) == 0 || read[0].Index != lo {
		return nil, raft.ErrCompacted
	}
	out := make([]*pb.Entry, len(read))
	for i, e := range read {
		out[i] = toRaft(e)
		lagging.add(keptBytes(out[i]))
	}
	return out, nil
}

// toRaft returns an entry as the library has it: the data of an entry of ours begins
// with its kind, that of an empty one is empty.
func toRaft(e Entry) *pb.Entry {
	switch e.Kind {
	case KindEmpty:
		return envelope.NewEntry(pb.EntryNormal, e.Term, e.Index, nil)
	case KindChange:
		return envelope.NewEntry(pb.EntryConfChangeV2, e.Term, e.Index, e.Body)
	}
	return envelope.NewEntry(pb.EntryNormal, e.Term, e.Index, slices.Concat([]byte{e.Kind}, e.Body))
}

// fromRaft is the inverse of toRaft.
func fromRaft(e *pb.Entry) (kind uint8, parts [][]byte) {
	data := e.GetData()
	switch {
	case e.GetType() != pb.EntryNormal:
		return KindChange, [][]byte{data}
	case len(data) == 0:
		return KindEmpty, nil
	}
	return data[0], [][]byte{data[1:]}
}
