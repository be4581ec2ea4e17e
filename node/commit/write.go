package commit

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

// Proposal is the part of a write for one shard, and then its outcome.
type Proposal struct {
	Kind   entry.Kind
	Shard  uint16
	Body   []byte         // for samples one encoded batch, else the entry's body
	ID     series.BatchID // of samples; zero: that of the write
	Era    uint32         // in which the ids of samples were learnt; 0: they are named by keys, or any era will do
	Copies int
	Err    error
}

// Write is one caller's proposals on their way through the log. Its memory must not change
// until Done is called.
type Write struct {
	Proposals []Proposal
	ID        series.BatchID // of all proposals that are samples
	Bytes     int64
	Done      func() // called once when all proposals have an outcome, by whoever has finished the last
	remaining atomic.Int32
}

// NewWrite returns a write with room for proposals.
func NewWrite(id series.BatchID, proposals int) *Write {
	return &Write{ID: id, Proposals: make([]Proposal, 0, proposals)}
}

// Add adds a proposal.
func (w *Write) Add(kind entry.Kind, shard uint16, body []byte) {
	w.Proposals = append(w.Proposals, Proposal{Kind: kind, Shard: shard, Body: body})
	w.Bytes += int64(len(body))
}

// Begin is called once when all proposals are there, before a Machine is given the write.
func (w *Write) Begin() { w.remaining.Store(int32(len(w.Proposals))) }

// FirstError returns the first proposal's error. It may be called when the write is done.
func (w *Write) FirstError() error {
	for i := range w.Proposals {
		if err := w.Proposals[i].Err; err != nil {
			return err
		}
	}
	return nil
}

// Fail finishes all proposals with an error.
func (w *Write) Fail(err error) {
	for i := range w.Proposals {
		Share{w, i}.Finish(0, err)
	}
}

// Share is one proposal of a write, in an entry that it may have to itself or not.
type Share struct {
	write    *Write
	proposal int
}

// Answer is the outcome of a proposal that is not going to be applied, or that nobody waits
// for any more.
type Answer struct {
	Share Share
	Err   error
}

func (s Share) body() []byte { return s.write.Proposals[s.proposal].Body }
func (s Share) id() series.BatchID {
	if id := s.write.Proposals[s.proposal].ID; !id.IsZero() {
		return id
	}
	return s.write.ID
}
func (s Share) kind() entry.Kind { return s.write.Proposals[s.proposal].Kind }

// fits reports whether the share may be proposed in an era.
func (s Share) fits(era uint32) bool {
	of := s.write.Proposals[s.proposal].Era
	return of == 0 || of == era
}

// Finish reports the outcome of the proposal, once. Any goroutine may.
func (s Share) Finish(copies int, err error) {
	p := &s.write.Proposals[s.proposal]
	p.Copies, p.Err = copies, err
	if s.write.remaining.Add(-1) == 0 {
		s.write.Done()
	}
}
