package node

import (
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage"
)

// proposal is what a write says of one shard, and then what became of it.
type proposal struct {
	kind   storage.EntryKind
	shard  uint16
	body   []byte         // for samples one encoded batch, else the entry's body
	id     series.BatchID // of samples; zero: that of the write
	era    uint32         // in which the ids of samples were learnt; 0: they are named by keys, or any era will do
	copies int
	err    error
}

// write is one caller's proposals on their way through the log. Its memory must not
// change until done is called.
type write struct {
	proposals []proposal
	id        series.BatchID // of all proposals that are samples
	bytes     int64
	remaining atomic.Int32 // proposals without an outcome
	done      func()       // called once when remaining is 0, by whoever has settled the last
}

func newWrite(id series.BatchID, proposals int) *write {
	return &write{id: id, proposals: make([]proposal, 0, proposals)}
}

func (w *write) add(kind storage.EntryKind, shard uint16, body []byte) {
	w.proposals = append(w.proposals, proposal{kind: kind, shard: shard, body: body})
	w.bytes += int64(len(body))
}

// firstError gives the first proposal's error. It may be called when the write is done.
func (w *write) firstError() error {
	for i := range w.proposals {
		if err := w.proposals[i].err; err != nil {
			return err
		}
	}
	return nil
}

// share is one proposal of a write, in an entry that it may have to itself or not.
type share struct {
	write    *write
	proposal int
}

func (s share) body() []byte { return s.write.proposals[s.proposal].body }
func (s share) id() series.BatchID {
	if id := s.write.proposals[s.proposal].id; !id.IsZero() {
		return id
	}
	return s.write.id
}
func (s share) kind() storage.EntryKind { return s.write.proposals[s.proposal].kind }

// fits says whether the share may be proposed in an era.
func (s share) fits(era uint32) bool {
	of := s.write.proposals[s.proposal].era
	return of == 0 || of == era
}

// finish gives the proposal its outcome, once.
func (s share) finish(copies int, err error) {
	p := &s.write.proposals[s.proposal]
	p.copies, p.err = copies, err
	if s.write.remaining.Add(-1) == 0 {
		s.write.done()
	}
}
