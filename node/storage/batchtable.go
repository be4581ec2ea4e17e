package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of the memory of batch ids. All replicas must have the same: the table
// is part of the applied state.
const (
	batchSessionsMax = 4096           // of writers that count
	batchKeyedMax    = 2048           // of single writes that have a key, see series.KeyedID
	batchWindow      = 128            // counters of a session that are known one by one
	batchSessionMs   = 15 * 60 * 1000 // of entry time that an unused session is kept for

	// batchStepMsMax bounds how much one entry ages sessions. Clocks of two leaders
	// may be a year apart, and a failover must not make all sessions old.
	batchStepMsMax = 10 * 1000
)

// batchVerdict says what a batch's id means.
type batchVerdict uint8

const (
	batchFresh    batchVerdict = iota // it was not applied
	batchRepeated                     // it was
	batchOld                          // it is so far behind that nobody knows
)

// batchTable remembers the ids of the batches that a shard has applied. It is a
// function of the shard's entries and so the same on every replica: it looks at
// no clock but the entries', and where it must forget it forgets the session that
// was used least recently. Memory: 56 bytes and a place in a map for each session.
//
// Writes that have a key make a session each, so they have a list and a bound of their
// own: however many come, they push out none of a writer whose retries are under way.
type batchTable struct {
	timeMs   int64  // of the last entry that had an id
	ageMs    uint64 // grows with the entries' time, see batchStepMsMax
	sessions []batchSession
	places   map[uint64]int32 // session id → index into sessions
	counting sessionList
	keyed    sessionList
	free     []int32
}

// sessionList is the order in which sessions were used.
type sessionList struct {
	oldest, newest int32 // index into sessions; −1: the list is empty
	count, most    int
}

// batchSession is one writer's recent past.
type batchSession struct {
	id     uint64
	last   uint64 // greatest counter applied
	seen   [batchWindow / 64]uint64
	usedMs uint64 // ageMs of the last use
	older  int32  // neighbours by use; −1: none
	newer  int32
}

const noSession = -1

func newBatchTable() batchTable {
	return batchTable{
		places:   map[uint64]int32{},
		counting: sessionList{oldest: noSession, newest: noSession, most: batchSessionsMax},
		keyed:    sessionList{oldest: noSession, newest: noSession, most: batchKeyedMax},
	}
}

// listOf returns the list of the sessions that have such a counter.
func (t *batchTable) listOf(counter uint64) *sessionList {
	if (series.BatchID{Counter: counter}).IsKeyed() {
		return &t.keyed
	}
	return &t.counting
}

// judge returns what an id of an entry means, and ages the table to the entry's time.
// The session must not be 0.
func (t *batchTable) judge(id series.BatchID, timeMs int64) batchVerdict {
	if timeMs > t.timeMs {
		t.ageMs += min(uint64(timeMs)-uint64(t.timeMs), batchStepMsMax)
	}
	t.timeMs = timeMs
	for _, l := range [...]*sessionList{&t.counting, &t.keyed} {
		for l.oldest != noSession && t.ageMs-t.sessions[l.oldest].usedMs >= batchSessionMs {
			t.drop(l.oldest)
		}
	}
	place, ok := t.places[id.Session]
	if !ok {
		return batchFresh
	}
	s := &t.sessions[place]
	if t.listOf(s.last) != t.listOf(id.Counter) {
		return batchOld // one session cannot be of both kinds
	}
	s.usedMs = t.ageMs
	t.unlink(place)
	t.link(place)
	switch behind := s.last - id.Counter; {
	case id.Counter > s.last:
		return batchFresh
	case behind >= batchWindow:
		return batchOld
	case s.seen[behind/64]&(1<<(behind%64)) != 0:
		return batchRepeated
	}
	return batchFresh
}

// note remembers that a fresh batch was applied.
func (t *batchTable) note(id series.BatchID) {
	place, ok := t.places[id.Session]
	if !ok {
		if l := t.listOf(id.Counter); l.count == l.most {
			t.drop(l.oldest)
		}
		place = t.add(batchSession{id: id.Session, last: id.Counter, usedMs: t.ageMs})
	}
	t.sessions[place].note(id.Counter)
}

func (s *batchSession) note(counter uint64) {
	if counter > s.last {
		s.shift(counter - s.last)
		s.last = counter
	}
	behind := s.last - counter
	s.seen[behind/64] |= 1 << (behind % 64)
}

// shift moves the window n counters on.
func (s *batchSession) shift(n uint64) {
	switch {
	case n >= batchWindow:
		s.seen = [2]uint64{}
	case n >= 64:
		s.seen = [2]uint64{0, s.seen[0] << (n - 64)}
	default:
		s.seen = [2]uint64{s.seen[0] << n, s.seen[1]<<n | s.seen[0]>>(64-n)}
	}
}

func (t *batchTable) add(s batchSession) int32 {
	place := int32(len(t.sessions))
	if n := len(t.free); n > 0 {
		place, t.free = t.free[n-1], t.free[:n-1]
		t.sessions[place] = s
	} else {
		t.sessions = append(t.sessions, s)
	}
	t.places[s.id] = place
	t.link(place)
	return place
}

func (t *batchTable) drop(place int32) {
	t.unlink(place)
	delete(t.places, t.sessions[place].id)
	t.free = append(t.free, place)
}

// link makes a session the one of its list that was used last.
func (t *batchTable) link(place int32) {
	s := &t.sessions[place]
	l := t.listOf(s.last)
	s.older, s.newer = l.newest, noSession
	if l.newest != noSession {
		t.sessions[l.newest].newer = place
	} else {
		l.oldest = place
	}
	l.newest = place
	l.count++
}

func (t *batchTable) unlink(place int32) {
	s := &t.sessions[place]
	l := t.listOf(s.last)
	if s.older != noSession {
		t.sessions[s.older].newer = s.newer
	} else {
		l.oldest = s.newer
	}
	if s.newer != noSession {
		t.sessions[s.newer].older = s.older
	} else {
		l.newest = s.older
	}
	l.count--
}

// encode returns the table's durable form: FORMAT.md. A table that never saw an id
// has none.
func (t *batchTable) encode() []byte {
	if len(t.places) == 0 && t.ageMs == 0 && t.timeMs == 0 {
		return nil
	}
	b := binary.AppendVarint(nil, t.timeMs)
	b = binary.AppendUvarint(b, t.ageMs)
	b = binary.AppendUvarint(b, uint64(len(t.places)))
	for _, l := range [...]*sessionList{&t.counting, &t.keyed} {
		for place := l.oldest; place != noSession; place = t.sessions[place].newer {
			b = t.appendSession(b, &t.sessions[place])
		}
	}
	return b
}

func (t *batchTable) appendSession(b []byte, s *batchSession) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.id)
	b = binary.AppendUvarint(b, s.last)
	b = binary.AppendUvarint(b, t.ageMs-s.usedMs)
	for _, word := range s.seen {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// errBatchTable marks bytes that are not a table of batch ids.
var errBatchTable = errors.New("not a table of batch ids")

// decodeBatchTable reads what encode gave.
func decodeBatchTable(b []byte) (batchTable, error) {
	t := newBatchTable()
	if len(b) == 0 {
		return t, nil
	}
	timeMs, used := binary.Varint(b)
	if used <= 0 {
		return t, fmt.Errorf("%w: time", errBatchTable)
	}
	t.timeMs, b = timeMs, b[used:]
	var head [2]uint64
	for i := range head {
		if head[i], used = binary.Uvarint(b); used <= 0 {
			return t, fmt.Errorf("%w: head", errBatchTable)
		}
		b = b[used:]
	}
	t.ageMs = head[0]
	if head[1] > batchSessionsMax+batchKeyedMax {
		return t, fmt.Errorf("%w: %d sessions", errBatchTable, head[1])
	}
	before := uint64(batchSessionMs)
	for range head[1] {
		s, rest, ok := t.decodeSession(b)
		if l := t.listOf(s.last); ok && l == &t.keyed && l.count == 0 {
			before = batchSessionMs // the other list begins
		}
		unusedMs := t.ageMs - s.usedMs
		if !ok || unusedMs > before || !t.inOrder(&s) {
			return t, fmt.Errorf("%w: session %d", errBatchTable, len(t.places))
		}
		b, before = rest, unusedMs
		t.add(s)
	}
	if len(b) > 0 {
		return t, fmt.Errorf("%w: %d bytes behind it", errBatchTable, len(b))
	}
	return t, nil
}

// inOrder reports whether a session may be the next one of a durable form.
func (t *batchTable) inOrder(s *batchSession) bool {
	l := t.listOf(s.last)
	return l.count < l.most && (l == &t.keyed || t.keyed.count == 0)
}

func (t *batchTable) decodeSession(b []byte) (s batchSession, rest []byte, ok bool) {
	if len(b) < 8 {
		return s, nil, false
	}
	s.id, b = binary.LittleEndian.Uint64(b), b[8:]
	var used int
	if s.last, used = binary.Uvarint(b); used <= 0 {
		return s, nil, false
	}
	b = b[used:]
	unusedMs, used := binary.Uvarint(b)
	if used <= 0 || unusedMs > t.ageMs || len(b)-used < 8*len(s.seen) {
		return s, nil, false
	}
	b = b[used:]
	s.usedMs = t.ageMs - unusedMs
	for i := range s.seen {
		s.seen[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	_, twice := t.places[s.id]
	// The greatest counter was applied, and none is below 0.
	ok = s.id != 0 && !twice && s.seen[0]&1 != 0 && s.span() <= s.last
	return s, b[8*len(s.seen):], ok
}

// span returns how far behind the last counter the first one of the window is.
func (s *batchSession) span() uint64 {
	if s.seen[1] != 0 {
		return uint64(64 + bits.Len64(s.seen[1]) - 1)
	}
	return uint64(bits.Len64(s.seen[0]) - 1)
}
