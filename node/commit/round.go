package commit

import (
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// Round is what goes to the log with one write, and what is applied after it.
type Round struct {
	Epoch   uint16
	Buffer  wal.Buffer  // the records
	Entries [][]ToApply // by applier, after Machine.Written

	replica  replica.Round
	relogged []replica.GroupState // states of all groups, which a new epoch begins with
	records  []int                // offset in the buffer, by number of the Append
	first    []int                // by shard: one more than the number of its first Append in this round
	ended    []*inflight          // of this round's entries; the Machine uses them again
}

// ToApply is an entry to apply, with the writes that wait for it.
type ToApply struct {
	Entry  entry.Entry
	Copies int
	Shares []Share // nil: nobody here waits
}

// NewRound returns a Round for a Machine.
func NewRound(shards, appliers int) *Round {
	return &Round{first: make([]int, shards), Entries: make([][]ToApply, appliers)}
}

// Number returns the number that Input.Synced has for the round.
func (r *Round) Number() uint64 { return r.replica.Number }

// Early returns the envelopes that may go before anything is written, and Late those that may
// go after Machine.Written.
func (r *Round) Early() []replica.Outgoing { return r.replica.Early }

// Late is described with Early.
func (r *Round) Late() []replica.Outgoing { return r.replica.Late }

// HasStates reports whether the round has states that have to be durable before their groups
// go on.
func (r *Round) HasStates() bool { return r.replica.Sync }

// HasEntries reports whether the round has entries.
func (r *Round) HasEntries() bool { return len(r.replica.Appends) > 0 }

// RoundBytesMax bounds the batches in one round, but for a single larger write.
const RoundBytesMax = 8 << 20

// clear makes the round ready for use again.
func (r *Round) clear() {
	for i := range r.Entries {
		clear(r.Entries[i])
		r.Entries[i] = r.Entries[i][:0]
	}
	clear(r.ended)
	r.ended, r.records, r.relogged = r.ended[:0], r.records[:0], nil
	for i := range r.replica.Appends {
		r.first[r.replica.Appends[i].Shard] = 0
	}
	if r.Buffer.Len() > 2*RoundBytesMax { // one very large write shall not cost memory for ever
		r.Buffer = wal.Buffer{}
	}
	r.Buffer.Reset()
}

// frame puts the states and entries of the round into its buffer.
func (m *Machine) frame(r *Round) (err error) {
	for _, states := range [2][]replica.GroupState{r.relogged, r.replica.States} {
		if m.header, err = addStates(&r.Buffer, m.header, states); err != nil {
			return err
		}
	}
	parts := make([][]byte, 0, 16)
	for i := range r.replica.Appends {
		a := &r.replica.Appends[i]
		e := entry.Entry{Kind: entry.Kind(a.Kind), Shard: a.Shard, Term: a.Term, Index: a.Index, Gap: a.Index - a.Commit}
		m.header = e.AppendHeader(m.header[:0])
		parts = append(append(parts[:0], m.header), a.Parts...)
		offset, err := r.Buffer.Add(parts...)
		if err != nil {
			return err
		}
		if r.first[a.Shard] == 0 {
			r.first[a.Shard] = i + 1
		}
		r.records = append(r.records, offset)
	}
	return nil
}

// body returns the body of a committed entry in one piece: that of the buffer when it
// went to the log with this round, else the Host's.
func (r *Round) body(c *replica.Committed) []byte {
	if first := r.first[c.Shard] - 1; first >= 0 {
		appends := r.replica.Appends
		at := first + int(c.Index-appends[first].Index)
		if c.Index >= appends[first].Index && at < len(appends) && appends[at].Shard == c.Shard && appends[at].Index == c.Index {
			if e, err := entry.Parse(r.Buffer.Record(r.records[at])); err == nil {
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

// addStates adds records of groups' states to a buffer. It uses and returns scratch.
func addStates(buffer *wal.Buffer, scratch []byte, states []replica.GroupState) ([]byte, error) {
	for i := range states {
		record := entry.Entry{Kind: entry.GroupState, Shard: states[i].Shard}
		scratch = states[i].AppendTo(record.AppendHeader(scratch[:0]))
		if _, err := buffer.Add(scratch); err != nil {
			return scratch, err
		}
	}
	return scratch, nil
}
