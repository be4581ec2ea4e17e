package commit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
)

// Bounds of what waits for a shard's entry that is under way.
const (
	shardBytesMax = 16 << 20
	entryBytesMax = 4 << 20 // of batches in one entry, but for a single larger one
)

// shardQueue has the proposals of a shard that are in no entry yet. While an entry of the
// shard is under way, further ones gather for the next: few large entries under load, and no
// wait when there is none.
type shardQueue struct {
	shares   []Share
	bytes    int64
	underWay int    // entries
	heir     string // node that the shard is handed over to when none is under way; "": it is not
	listed   bool   // in ready

	waits       bool  // for the end of a handover
	waitsFromMs int64 // while waits
}

func (m *Machine) queue(shard uint16, s Share) error {
	q := &m.shards[shard]
	size := int64(len(s.body()))
	if len(q.shares) > 0 && q.bytes+size > shardBytesMax {
		return fmt.Errorf("%w: %d bytes of writes wait for shard %d", series.ErrOverloaded, q.bytes, shard)
	}
	q.shares = append(q.shares, s)
	q.bytes += size
	m.list(shard)
	return nil
}

// ProposeNext queues a write of one proposal if its entry is going to be the one behind an entry: the group is led from
// here, has nothing after that, and nothing else waits. Otherwise it returns false and has changed nothing. It is called
// between two steps.
func (m *Machine) ProposeNext(w *Write, after uint64) bool {
	shard := w.Proposals[0].Shard
	q := &m.shards[shard]
	status, err := m.host.Status(shard)
	if err != nil || !status.Leads || status.Last != after || q.underWay > 0 || len(q.shares) > 0 {
		return false
	}
	m.sort([]*Write{w})
	return true
}

// list puts a shard among the ready ones, if it is.
func (m *Machine) list(shard uint16) {
	q := &m.shards[shard]
	if !q.listed && q.underWay == 0 && len(q.shares) > 0 {
		q.listed = true
		m.ready = append(m.ready, shard)
	}
}

// outcome notes that an entry of the shard has its outcome.
func (m *Machine) outcome(shard uint16) {
	q := &m.shards[shard]
	q.underWay--
	if q.underWay == 0 && q.heir != "" {
		_ = m.host.Transfer(shard, q.heir) // who asked for it looks again
		q.heir = ""
	}
	m.list(shard)
}

// entry returns the number of shares that the shard's next entry has: samples gather
// in one, in the order of the writes; anything else has an entry of its own.
func (q *shardQueue) entry() int {
	n, bytes := 1, len(q.shares[0].body())
	if q.shares[0].kind() != entry.Samples {
		return n
	}
	for n < len(q.shares) && q.shares[n].kind() == entry.Samples {
		if bytes += len(q.shares[n].body()); bytes > entryBytesMax {
			break
		}
		n++
	}
	return n
}

// drop takes the first n shares out.
func (q *shardQueue) drop(n int) {
	for _, s := range q.shares[:n] {
		q.bytes -= int64(len(s.body()))
	}
	left := copy(q.shares, q.shares[n:])
	clear(q.shares[left:])
	q.shares = q.shares[:left]
}

// sort puts writes into the queues of their shards.
func (m *Machine) sort(writes []*Write) {
	for _, w := range writes {
		for i := range w.Proposals {
			s := Share{w, i}
			if err := m.queue(w.Proposals[i].Shard, s); err != nil {
				m.figures.Crowded++
				m.out.Counted = true
				m.out.Answers = append(m.out.Answers, Answer{s, err})
			}
		}
	}
}

// propose makes entries of what waits for shards that have none under way.
func (m *Machine) propose(nowMs int64) {
	m.lookAtHeld()
	m.sizes, m.parts = m.sizes[:0], m.parts[:0]
	ready := m.ready
	m.ready = m.ready[:0]
	for _, shard := range ready {
		q := &m.shards[shard]
		if m.host.HandingOver(shard) {
			m.beginWait(q, nowMs)
			m.ready = append(m.ready, shard)
			continue
		}
		q.listed = false
		answered := len(m.out.Answers)
		for len(q.shares) > 0 && (q.underWay == 0 || m.views[shard].SingleVoter) {
			if !m.proposeEntry(shard, q, nowMs) {
				break
			}
		}
		m.endWait(q, nowMs, len(m.out.Answers)-answered)
	}
}

// beginWait notes that the proposals of a shard wait until it is handed over.
func (m *Machine) beginWait(q *shardQueue, nowMs int64) {
	if q.waits {
		return
	}
	q.waits, q.waitsFromMs = true, nowMs
	m.figures.HandoverWaits++
	m.out.Counted = true
}

// endWait notes that they wait no more, and how many of them were refused. A clock that was set back counts as no time.
func (m *Machine) endWait(q *shardQueue, nowMs int64, refused int) {
	if !q.waits {
		return
	}
	q.waits = false
	m.figures.HandoverWaitMs += max(0, nowMs-q.waitsFromMs)
	m.figures.HandoverRefused += int64(refused)
	m.out.Counted = true
}

// redirect answers what has waited while a shard was handed over, once it is known who takes it. It is called
// after the host was asked for a round, which is when that shows, so that no write waits for the round's sync.
func (m *Machine) redirect(nowMs int64) {
	waiting := m.ready
	m.ready = m.ready[:0]
	for _, shard := range waiting {
		q := &m.shards[shard]
		leader := m.host.Successor(shard)
		if leader == "" {
			m.ready = append(m.ready, shard)
			continue
		}
		m.answerAll(q.shares, &replica.NotLeaderError{Shard: shard, Leader: leader})
		m.endWait(q, nowMs, len(q.shares))
		q.drop(len(q.shares))
		q.listed = false
	}
}

// proposeEntry proposes the first entry of a queue. It returns false when the host
// takes no more of the shard before others have their outcome.
func (m *Machine) proposeEntry(shard uint16, q *shardQueue, nowMs int64) bool {
	n := q.entry()
	if era := m.host.Era(shard); slices.ContainsFunc(q.shares[:n], func(s Share) bool { return !s.fits(era) }) {
		m.refuseOthers(shard, q, era)
		return true
	}
	entry := m.proposed.make(shard, q.shares[:n])
	err := m.host.Propose(shard, uint8(entry.shares[0].kind()), m.entryParts(entry.shares, nowMs), entry.token)
	if err == nil {
		q.drop(n)
		q.underWay++
		return true
	}
	m.proposed.take(entry.token)
	defer m.proposed.release([]*inflight{entry})
	if q.underWay > 0 && errors.Is(err, series.ErrOverloaded) {
		return false
	}
	q.drop(n)
	for _, s := range entry.shares {
		m.out.Answers = append(m.out.Answers, Answer{s, ofShard(shard, err)})
	}
	return true
}

// refuseOthers answers the writes of a queue that name series by ids of another era than
// the shard is in now: they may mean other series. It is looked at here and no sooner, as
// an era may begin while writes wait. Only a leader knows the era of its shard.
func (m *Machine) refuseOthers(shard uint16, q *shardQueue, era uint32) {
	err := fmt.Errorf("%w: shard %d is in era %d", series.ErrEra, shard, era)
	if status, problem := m.host.Status(shard); problem != nil || !status.Leads {
		err = &replica.NotLeaderError{Shard: shard, Leader: status.Leader}
	}
	kept := q.shares[:0]
	for _, s := range q.shares {
		if s.fits(era) {
			kept = append(kept, s)
			continue
		}
		q.bytes -= int64(len(s.body()))
		m.out.Answers = append(m.out.Answers, Answer{s, err})
	}
	clear(q.shares[len(kept):])
	q.shares = kept
}

// entryParts returns the pieces of an entry's body. They are used until the next round is
// framed, see replica.Host.Propose; what grows meanwhile leaves old pieces where they are.
func (m *Machine) entryParts(shares []Share, nowMs int64) [][]byte {
	from := len(m.parts)
	if shares[0].kind() != entry.Samples {
		m.parts = append(m.parts, shares[0].body())
		return m.parts[from:len(m.parts):len(m.parts)]
	}
	// The only clock that applying an entry ever knows: see entry.Batches.
	at := len(m.sizes)
	m.sizes = entry.AppendTime(m.sizes, nowMs)
	m.parts = append(m.parts, m.sizes[at:len(m.sizes):len(m.sizes)])
	for _, s := range shares {
		at = len(m.sizes)
		m.sizes = entry.AppendBatchHeader(m.sizes, s.id(), len(s.body()))
		m.parts = append(m.parts, m.sizes[at:len(m.sizes):len(m.sizes)], s.body())
	}
	return m.parts[from:len(m.parts):len(m.parts)]
}

func (m *Machine) answerAll(shares []Share, err error) {
	for _, s := range shares {
		m.out.Answers = append(m.out.Answers, Answer{s, err})
	}
}
