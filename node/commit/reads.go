package commit

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
)

// Read asks for the confirmation that reads of a shard see every write that was answered
// before, anywhere.
type Read struct {
	Shard uint16
	Place int // in what it is For
	For   any // the driver's
}

// ReadAnswer is the outcome of a Read: it may be served when the shard's log is applied up to
// Index, or not at all.
type ReadAnswer struct {
	Read  Read
	Index uint64
	Err   error
}

// readToken marks the tokens of reads: the host returns all tokens by one way.
const readToken = 1 << 63

func isRead(token uint64) bool { return token&readToken != 0 }

func (m *Machine) startReads(reads []Read) {
	for _, r := range reads {
		m.lastRead++
		token := m.lastRead | readToken
		if err := m.host.Read(r.Shard, token); err != nil {
			m.out.Reads = append(m.out.Reads, ReadAnswer{r, 0, ofShard(r.Shard, err)})
			continue
		}
		m.reads[token] = r
	}
}

func (m *Machine) readReady(ready replica.ReadReady) {
	if r, ok := m.reads[ready.Token]; ok {
		delete(m.reads, ready.Token)
		m.out.Reads = append(m.out.Reads, ReadAnswer{r, ready.Index, nil})
	}
}

func (m *Machine) readFailed(f replica.Failure) {
	if r, ok := m.reads[f.Token]; ok {
		delete(m.reads, f.Token)
		m.out.Reads = append(m.out.Reads, ReadAnswer{r, 0, f.Err})
	}
}

// Held waits until all full voters of a shard have an entry in their logs. Their number is
// bounded by the frames in work.
type Held struct {
	Index   uint64
	Copies  int
	Missing int // full voters
	Err     error
	Done    func() // the driver's; called once when Missing is 0, or Err is set
}

// look counts who has the entry, and reports whether there is nothing to wait for.
func (w *Held) look(status *replica.GroupStatus, err error) (ended bool) {
	if err == nil && !status.Leads {
		err = &replica.NotLeaderError{Shard: status.Shard, Leader: status.Leader}
	}
	if w.Err = err; err != nil {
		return true
	}
	w.Copies, w.Missing = 0, 0
	for _, p := range status.Progress {
		switch has := p.Match >= w.Index; {
		case has && p.Member.Role.Votes():
			w.Copies++
		case !has && p.Member.Role == shardmap.Full:
			w.Missing++
		}
	}
	return w.Missing == 0
}

// Hold begins a wait, and ends it at once if there is nothing to wait for.
func (m *Machine) Hold(shard uint16, w *Held) {
	status, err := m.host.Status(shard)
	if w.look(&status, err) {
		m.out.Held = append(m.out.Held, w)
		return
	}
	m.holding[shard] = append(m.holding[shard], w)
}

// GiveUp takes a wait back, if it has not ended.
func (m *Machine) GiveUp(shard uint16, w *Held) {
	waits := m.holding[shard]
	for i := range waits {
		if waits[i] == w {
			m.holding[shard] = append(waits[:i], waits[i+1:]...)
			return
		}
	}
}

// Holding returns the number of shards with waits for full voters.
func (m *Machine) Holding() int { return len(m.holding) }

// lookAtHeld ends the waits of which all full voters have the entry.
func (m *Machine) lookAtHeld() {
	for shard, waits := range m.holding {
		status, err := m.host.Status(shard)
		left := waits[:0]
		for _, w := range waits {
			if w.look(&status, err) {
				m.out.Held = append(m.out.Held, w)
			} else {
				left = append(left, w)
			}
		}
		clear(waits[len(left):])
		if m.holding[shard] = left; len(left) == 0 {
			delete(m.holding, shard)
		}
	}
}

// ofShard turns the error for a shard without a replica here into one by which callers look for
// its leader elsewhere.
func ofShard(shard uint16, err error) error {
	if errors.Is(err, replica.ErrNoGroup) {
		return &replica.NotLeaderError{Shard: shard}
	}
	return err
}
