package node

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// round is what goes to the log with one system call, and what is applied after it.
type round struct {
	epoch   uint16
	replica replica.Round
	// States of all groups, which a new epoch begins with.
	relogged []replica.GroupState
	buffer   wal.Buffer
	records  []int            // offset in the buffer, by number of the Append
	first    []int            // by shard: one more than the number of its first Append in this round
	entries  [][]pendingEntry // by applier
	left     atomic.Int32     // appliers at work
	ended    []*inflight      // of this round's entries; the loop uses them again
}

// pendingEntry is an entry to apply, with the writes that wait for it.
type pendingEntry struct {
	entry  storage.Entry
	copies int
	ended  *inflight // nil: nobody here waits
}

// inflight is an entry that was proposed here.
type inflight struct {
	token  uint64
	shard  uint16
	shares []share
}

func newRound(shards, appliers int) *round {
	return &round{first: make([]int, shards), entries: make([][]pendingEntry, appliers)}
}

// roundBytesMax bounds the batches in one round, but for a single larger write.
const roundBytesMax = 8 << 20

// clear makes the round ready for use again.
func (r *round) clear() {
	for i := range r.entries {
		clear(r.entries[i])
		r.entries[i] = r.entries[i][:0]
	}
	clear(r.ended)
	r.ended, r.records, r.relogged = r.ended[:0], r.records[:0], nil
	for i := range r.replica.Appends {
		r.first[r.replica.Appends[i].Shard] = 0
	}
	if r.buffer.Len() > 2*roundBytesMax { // one very large write shall not cost memory for ever
		r.buffer = wal.Buffer{}
	}
	r.buffer.Reset()
}

// frame puts the states and entries of the round into its buffer.
func (r *round) frame(header []byte) (_ []byte, err error) {
	for _, states := range [2][]replica.GroupState{r.relogged, r.replica.States} {
		if header, err = addStates(&r.buffer, header, states); err != nil {
			return header, err
		}
	}
	parts := make([][]byte, 0, 16)
	for i := range r.replica.Appends {
		a := &r.replica.Appends[i]
		e := storage.Entry{Kind: storage.EntryKind(a.Kind), Shard: a.Shard, Term: a.Term, Index: a.Index, Gap: a.Index - a.Commit}
		header = e.AppendHeader(header[:0])
		parts = append(append(parts[:0], header), a.Parts...)
		offset, err := r.buffer.Add(parts...)
		if err != nil {
			return header, err
		}
		if r.first[a.Shard] == 0 {
			r.first[a.Shard] = i + 1
		}
		r.records = append(r.records, offset)
	}
	return header, nil
}

// body gives the body of a committed entry in one piece: that of the buffer when it
// went to the log with this round, else the Host's.
func (r *round) body(c *replica.Committed) []byte {
	if first := r.first[c.Shard] - 1; first >= 0 {
		appends := r.replica.Appends
		at := first + int(c.Index-appends[first].Index)
		if c.Index >= appends[first].Index && at < len(appends) && appends[at].Shard == c.Shard && appends[at].Index == c.Index {
			if e, err := storage.ParseEntry(r.buffer.Record(r.records[at])); err == nil {
				return e.Body
			}
		}
	}
	switch len(c.Parts) {
	case 0:
		return nil
	case 1:
		return c.Parts[0]
	}
	var body []byte
	for _, part := range c.Parts {
		body = append(body, part...)
	}
	return body
}

// addStates adds records of groups' states to a buffer. It uses and gives back scratch.
func addStates(buffer *wal.Buffer, scratch []byte, states []replica.GroupState) ([]byte, error) {
	for i := range states {
		record := storage.Entry{Kind: storage.EntryGroupState, Shard: states[i].Shard}
		scratch = states[i].AppendTo(record.AppendHeader(scratch[:0]))
		if _, err := buffer.Add(scratch); err != nil {
			return scratch, err
		}
	}
	return scratch, nil
}
