package envelope

import pb "go.etcd.io/raft/v3/raftpb"

// heldEntry is one of the library's entries and what its fields point to, in one piece.
type heldEntry struct {
	pb.Entry
	kind        pb.EntryType
	term, index uint64
}

// NewEntry returns an entry of the library in one piece of memory.
func NewEntry(kind pb.EntryType, term, index uint64, data []byte) *pb.Entry {
	held := &heldEntry{kind: kind, term: term, index: index}
	held.Type, held.Term, held.Index, held.Data = &held.kind, &held.term, &held.index, data
	return &held.Entry
}
