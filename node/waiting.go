package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
)

// Bounds of what waits for a shard's entry that is under way.
const (
	shardBytesMax = 16 << 20
	entryBytesMax = 4 << 20 // of batches in one entry, but for a single larger one
)

// waiting has the proposals of each shard that are in no entry yet. While an entry of
// a shard is under way, further ones gather for the next: few large entries under
// load, and no wait when there is none.
type waiting struct {
	shards []shardQueue
	ready  []uint16 // shards that may propose now, each once
	// holding are writes that are done and wait for full voters; nil: there never were any.
	holding holding
}

type shardQueue struct {
	shares   []share
	bytes    int64
	underWay int  // entries
	listed   bool // in ready
}

func (w *waiting) add(shard uint16, s share) error {
	q := &w.shards[shard]
	size := int64(len(s.body()))
	if len(q.shares) > 0 && q.bytes+size > shardBytesMax {
		return fmt.Errorf("%w: %d bytes of writes wait for shard %d", series.ErrOverloaded, q.bytes, shard)
	}
	q.shares = append(q.shares, s)
	q.bytes += size
	w.list(shard)
	return nil
}

// list puts a shard among the ready ones, if it is.
func (w *waiting) list(shard uint16) {
	q := &w.shards[shard]
	if !q.listed && q.underWay == 0 && len(q.shares) > 0 {
		q.listed = true
		w.ready = append(w.ready, shard)
	}
}

// settled notes that an entry of the shard has its outcome.
func (w *waiting) settled(shard uint16) {
	w.shards[shard].underWay--
	w.list(shard)
}

// entry gives the number of shares that the shard's next entry has: samples gather
// in one, in the order of the writes; anything else has an entry of its own.
func (q *shardQueue) entry() int {
	n, bytes := 1, len(q.shares[0].body())
	if q.shares[0].kind() != storage.EntrySamples {
		return n
	}
	for n < len(q.shares) && q.shares[n].kind() == storage.EntrySamples {
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

func (w *waiting) failAll(err error) {
	for shard := range w.shards {
		q := &w.shards[shard]
		for _, s := range q.shares {
			s.finish(0, err)
		}
		clear(q.shares)
		q.shares, q.bytes = q.shares[:0], 0
	}
	w.holding.failAll(err)
}

// sort puts writes into the queues of their shards.
func (l *loop) sort(writes []*write) {
	for _, w := range writes {
		for i := range w.proposals {
			s := share{w, i}
			if err := l.waiting.add(w.proposals[i].shard, s); err != nil {
				l.stats.crowded.Add(1)
				s.finish(0, err)
			}
		}
	}
}

// propose makes entries of what waits for shards that have none under way.
func (l *loop) propose() {
	l.lookAtHolders()
	l.sizes, l.parts = l.sizes[:0], l.parts[:0]
	timeMs := l.clock().UnixMilli()
	for _, shard := range l.waiting.ready {
		q := &l.waiting.shards[shard]
		q.listed = false
		for len(q.shares) > 0 && (q.underWay == 0 || l.groups[shard].lone.Load()) {
			if !l.proposeEntry(shard, q, timeMs) {
				break
			}
		}
	}
	l.waiting.ready = l.waiting.ready[:0]
}

// proposeEntry proposes the first entry of a queue. It gives false when the host
// takes no more of the shard before others have their outcome.
func (l *loop) proposeEntry(shard uint16, q *shardQueue, timeMs int64) bool {
	n := q.entry()
	if era := l.host.Era(shard); slices.ContainsFunc(q.shares[:n], func(s share) bool { return !s.fits(era) }) {
		l.refuseOthers(shard, q, era)
		return true
	}
	entry := l.tokens.make(shard, q.shares[:n])
	err := l.host.Propose(shard, uint8(entry.shares[0].kind()), l.entryParts(entry.shares, timeMs), entry.token)
	if err == nil {
		q.drop(n)
		q.underWay++
		return true
	}
	l.tokens.take(entry.token)
	defer l.tokens.release([]*inflight{entry})
	if q.underWay > 0 && errors.Is(err, series.ErrOverloaded) {
		return false
	}
	q.drop(n)
	for _, s := range entry.shares {
		s.finish(0, ofShard(shard, err))
	}
	return true
}

// refuseOthers answers the writes of a queue that name series by ids of another era than
// the shard is in now: they may mean other series. It is looked at here and no sooner, as
// an era may begin while writes wait. Only a leader knows the era of its shard.
func (l *loop) refuseOthers(shard uint16, q *shardQueue, era uint32) {
	err := fmt.Errorf("%w: shard %d is in era %d", series.ErrEra, shard, era)
	if status, problem := l.host.Status(shard); problem != nil || !status.Leads {
		err = &replica.NotLeaderError{Shard: shard, Leader: status.Leader}
	}
	kept := q.shares[:0]
	for _, s := range q.shares {
		if s.fits(era) {
			kept = append(kept, s)
			continue
		}
		q.bytes -= int64(len(s.body()))
		s.finish(0, err)
	}
	clear(q.shares[len(kept):])
	q.shares = kept
}

// ofShard says to callers that go by leaders that a shard without a replica here has
// its leader elsewhere.
func ofShard(shard uint16, err error) error {
	if errors.Is(err, replica.ErrNoGroup) {
		return &replica.NotLeaderError{Shard: shard}
	}
	return err
}

// entryParts gives the pieces of an entry's body. They are used until the next round is
// framed, see replica.Host.Propose; what grows meanwhile leaves old pieces where they are.
func (l *loop) entryParts(shares []share, timeMs int64) [][]byte {
	from := len(l.parts)
	if shares[0].kind() != storage.EntrySamples {
		l.parts = append(l.parts, shares[0].body())
		return l.parts[from:len(l.parts):len(l.parts)]
	}
	// The only clock that applying an entry ever knows: see storage.Batches.
	at := len(l.sizes)
	l.sizes = storage.AppendEntryTime(l.sizes, timeMs)
	l.parts = append(l.parts, l.sizes[at:len(l.sizes):len(l.sizes)])
	for _, s := range shares {
		at = len(l.sizes)
		l.sizes = storage.AppendBatchHeader(l.sizes, s.id(), len(s.body()))
		l.parts = append(l.parts, l.sizes[at:len(l.sizes):len(l.sizes)], s.body())
	}
	return l.parts[from:len(l.parts):len(l.parts)]
}
