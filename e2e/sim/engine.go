package sim

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage"
)

// A shard has a few series with a few times each: every (series, time) is a register
// that is written, overwritten, deleted and read again and again.
const (
	seriesPerShard = 4
	timesPerSeries = 3
	registers      = seriesPerShard * timesPerSeries
)

var errBody = errors.New("the body of an entry cannot be read")

// sample is what a batch says of a register. Known by id, the key is not sent.
type sample struct {
	byID  bool
	name  uint64 // id, or number of the series within its shard
	time  uint64
	value uint64
}

func appendSample(dst []byte, s sample) []byte {
	by := byte(0)
	if s.byID {
		by = 1
	}
	dst = append(dst, by)
	dst = binary.AppendUvarint(dst, s.name)
	dst = binary.AppendUvarint(dst, s.time)
	return binary.AppendUvarint(dst, s.value)
}

// reader reads numbers, and remembers that one was missing.
type reader struct {
	rest   []byte
	broken bool
}

func (r *reader) next() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.broken, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) sample() sample {
	return sample{byID: r.next() == 1, name: r.next(), time: r.next(), value: r.next()}
}

// deletion is the body of a delete: times from first to last of the series with an id.
type deletion struct {
	id          series.BatchID
	name        uint64
	first, last uint64
}

func (d deletion) body() []byte {
	var b []byte
	for _, v := range [...]uint64{d.id.Session, d.id.Counter, d.name, d.first, d.last} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func parseDeletion(body []byte) (deletion, error) {
	r := reader{rest: body}
	d := deletion{series.BatchID{Session: r.next(), Counter: r.next()}, r.next(), r.next(), r.next()}
	if r.broken {
		return d, errBody
	}
	return d, nil
}

// content is what a shard holds.
type content struct {
	keys   [seriesPerShard]uint8 // by id: number of the series
	known  int                   // ids given
	values [registers]uint64     // 0: none
}

func (c *content) define(key uint64) uint64 {
	for id := range c.known {
		if uint64(c.keys[id]) == key {
			return uint64(id)
		}
	}
	c.keys[c.known] = uint8(key)
	c.known++
	return uint64(c.known - 1)
}

func (c *content) set(s sample) bool {
	if s.time >= timesPerSeries || !s.byID && s.name >= seriesPerShard || s.byID && s.name >= uint64(c.known) {
		return false
	}
	key := s.name
	if s.byID {
		key = uint64(c.keys[s.name])
	} else {
		c.define(key)
	}
	c.values[key*timesPerSeries+s.time] = s.value
	return true
}

func (c *content) remove(d deletion) {
	if d.name >= uint64(c.known) {
		return
	}
	for t := d.first; t <= d.last && t < timesPerSeries; t++ {
		c.values[uint64(c.keys[d.name])*timesPerSeries+t] = 0
	}
}

// digest sums up what is held, in a way that does not depend on the order of writes.
func (c *content) digest() uint64 {
	sum := uint64(14695981039346656037)
	mix := func(v uint64) { sum = bits.RotateLeft64((sum^v)*1099511628211, 23) }
	for i := range c.known {
		mix(uint64(c.keys[i]) + 1)
	}
	for _, v := range c.values {
		mix(v)
	}
	return sum
}

// batchWindow is how many counters of a session are known one by one. It is smaller
// than that of node/storage, so that short histories reach its end.
const batchWindow = 32

type session struct {
	id   uint64
	last uint64
	seen uint32
}

// batchTable is a model of the table of batch ids.
type batchTable struct{ sessions []session }

func (t *batchTable) clone() batchTable {
	return batchTable{append([]session(nil), t.sessions...)}
}

type verdict uint8

const (
	fresh verdict = iota
	repeated
	old
)

// take returns what an id means, and remembers a fresh one.
func (t *batchTable) take(id series.BatchID) verdict {
	if id.Session == 0 {
		return fresh
	}
	at := -1
	for i := range t.sessions {
		if t.sessions[i].id == id.Session {
			at = i
		}
	}
	if at < 0 {
		t.sessions = append(t.sessions, session{id: id.Session, last: id.Counter, seen: 1})
		return fresh
	}
	s := &t.sessions[at]
	switch {
	case id.Counter > s.last:
		s.seen = s.seen<<min(id.Counter-s.last, 32) | 1
		s.last = id.Counter
		return fresh
	case s.last-id.Counter >= batchWindow:
		return old
	case s.seen&(1<<(s.last-id.Counter)) != 0:
		return repeated
	}
	s.seen |= 1 << (s.last - id.Counter)
	return fresh
}

func (t *batchTable) digest() uint64 {
	sum := uint64(0)
	for _, s := range t.sessions {
		sum += (s.id*31+s.last)*0x9e3779b97f4a7c15 ^ uint64(s.seen)<<7
	}
	return sum
}

// shardState is a shard of an engine.
type shardState struct {
	content
	table   batchTable
	applied uint64
	// The content may have the effects of entries up to here already: pages outlive a
	// crash, the applied index is that of the checkpoint.
	ahead      uint64
	generation int // of replicas of the shard in this engine
}

func (s *shardState) clone() shardState {
	c := *s
	c.table = s.table.clone()
	return c
}

// apply applies the next entry, and gives for each batch whether its id was too old.
func (s *shardState) apply(kind storage.EntryKind, index uint64, body []byte, variant Variant) (tooOld []bool, err error) {
	s.applied = index
	switch kind {
	case storage.EntrySamples:
		batches := storage.ReadBatches(body)
		for batches.Next() {
			v := s.table.take(batches.ID)
			tooOld = append(tooOld, v == old)
			if v != fresh {
				continue
			}
			r := reader{rest: batches.Batch}
			for len(r.rest) > 0 {
				if next := r.sample(); r.broken || !s.set(next) {
					return tooOld, errBody
				}
			}
		}
		return tooOld, batches.Err()
	case storage.EntryDelete:
		d, err := parseDeletion(body)
		if err != nil {
			return nil, err
		}
		v := s.table.take(d.id)
		if v == fresh || variant == DeleteWithoutID {
			s.remove(d)
		}
		return []bool{v == old}, nil
	}
	return nil, nil
}

func hashBytes(parts ...[]byte) uint64 {
	sum := uint64(14695981039346656037)
	for _, part := range parts {
		for _, c := range part {
			sum = (sum ^ uint64(c)) * 1099511628211
		}
	}
	return sum
}
