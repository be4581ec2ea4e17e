package dedup

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
	sessionsMax = 4096           // of writers that count
	keyedMax    = 2048           // of single writes that have a key, see series.KeyedID
	Window      = 128            // counters of a session that are known one by one
	sessionMs   = 15 * 60 * 1000 // of entry time that an unused session is kept for

	// stepMsMax bounds how much one entry ages sessions. Clocks of two leaders
	// may be a year apart, and a failover must not make all sessions old.
	stepMsMax = 10 * 1000
)

// Verdict describes what a batch's id means.
type Verdict uint8

// The verdicts.
const (
	Fresh    Verdict = iota // it was not applied
	Repeated                // it was
	Old                     // it is so far behind that this is unknown
)

// String returns the verdict's name.
func (v Verdict) String() string { return [...]string{"fresh", "repeated", "old"}[v] }

// Table remembers the ids of the batches that a shard has applied. It is a
// function of the shard's entries and so the same on every replica: it looks at
// no clock but the entries', and where it must forget it forgets the session that
// was used least recently. Memory: 56 bytes and an entry of a map for each session.
//
// Writes that have a key make a session each, so they have a list and a bound of their
// own: however many come, they push out none of a writer whose retries are under way.
type Table struct {
	timeMs   int64  // of the last entry that had an id
	ageMs    uint64 // grows with the entries' time, see stepMsMax
	sessions []session
	slots    map[uint64]int32 // session id → index into sessions
	counting sessionList
	keyed    sessionList
	free     []int32
}

// sessionList is the order in which sessions were used.
type sessionList struct {
	oldest, newest int32 // index into sessions; −1: the list is empty
	count, most    int
}

// session is one writer's recent past.
type session struct {
	id     uint64
	last   uint64 // greatest counter applied
	seen   [Window / 64]uint64
	usedMs uint64 // ageMs of the last use
	older  int32  // neighbours by use; −1: none
	newer  int32
}

const noSession = -1

// NewTable returns an empty table.
func NewTable() Table {
	return Table{
		slots:    map[uint64]int32{},
		counting: sessionList{oldest: noSession, newest: noSession, most: sessionsMax},
		keyed:    sessionList{oldest: noSession, newest: noSession, most: keyedMax},
	}
}

// listOf returns the list of the sessions that have such a counter.
func (t *Table) listOf(counter uint64) *sessionList {
	if (series.BatchID{Counter: counter}).IsKeyed() {
		return &t.keyed
	}
	return &t.counting
}

// judge returns what an id of an entry means, and ages the table to the entry's time.
// The session must not be 0.
func (t *Table) judge(id series.BatchID, timeMs int64) Verdict {
	if timeMs > t.timeMs {
		t.ageMs += min(uint64(timeMs)-uint64(t.timeMs), stepMsMax)
	}
	t.timeMs = timeMs
	for _, l := range [...]*sessionList{&t.counting, &t.keyed} {
		for l.oldest != noSession && t.ageMs-t.sessions[l.oldest].usedMs >= sessionMs {
			t.drop(l.oldest)
		}
	}
	slot, ok := t.slots[id.Session]
	if !ok {
		return Fresh
	}
	s := &t.sessions[slot]
	if t.listOf(s.last) != t.listOf(id.Counter) {
		return Old // one session cannot be of both kinds
	}
	s.usedMs = t.ageMs
	t.unlink(slot)
	t.link(slot)
	switch behind := s.last - id.Counter; {
	case id.Counter > s.last:
		return Fresh
	case behind >= Window:
		return Old
	case s.seen[behind/64]&(1<<(behind%64)) != 0:
		return Repeated
	}
	return Fresh
}

// note remembers that a fresh batch was applied.
func (t *Table) note(id series.BatchID) {
	slot, ok := t.slots[id.Session]
	if !ok {
		if l := t.listOf(id.Counter); l.count == l.most {
			t.drop(l.oldest)
		}
		slot = t.add(session{id: id.Session, last: id.Counter, usedMs: t.ageMs})
	}
	t.sessions[slot].note(id.Counter)
}

// LastOf returns the greatest counter of a session that was applied.
func (t *Table) LastOf(session uint64) (counter uint64, known bool) {
	slot, known := t.slots[session]
	if !known {
		return 0, false
	}
	return t.sessions[slot].last, true
}

func (s *session) note(counter uint64) {
	if counter > s.last {
		s.shift(counter - s.last)
		s.last = counter
	}
	behind := s.last - counter
	s.seen[behind/64] |= 1 << (behind % 64)
}

// shift moves the window n counters on.
func (s *session) shift(n uint64) {
	switch {
	case n >= Window:
		s.seen = [2]uint64{}
	case n >= 64:
		s.seen = [2]uint64{0, s.seen[0] << (n - 64)}
	default:
		s.seen = [2]uint64{s.seen[0] << n, s.seen[1]<<n | s.seen[0]>>(64-n)}
	}
}

func (t *Table) add(s session) int32 {
	slot := int32(len(t.sessions))
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
		t.sessions[slot] = s
	} else {
		t.sessions = append(t.sessions, s)
	}
	t.slots[s.id] = slot
	t.link(slot)
	return slot
}

func (t *Table) drop(slot int32) {
	t.unlink(slot)
	delete(t.slots, t.sessions[slot].id)
	t.free = append(t.free, slot)
}

// link makes a session the one of its list that was used last.
func (t *Table) link(slot int32) {
	s := &t.sessions[slot]
	l := t.listOf(s.last)
	s.older, s.newer = l.newest, noSession
	if l.newest != noSession {
		t.sessions[l.newest].newer = slot
	} else {
		l.oldest = slot
	}
	l.newest = slot
	l.count++
}

func (t *Table) unlink(slot int32) {
	s := &t.sessions[slot]
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

// Encode returns the table's durable form: FORMAT.md. A table that never saw an id
// has none.
func (t *Table) Encode() []byte {
	if len(t.slots) == 0 && t.ageMs == 0 && t.timeMs == 0 {
		return nil
	}
	b := binary.AppendVarint(nil, t.timeMs)
	b = binary.AppendUvarint(b, t.ageMs)
	b = binary.AppendUvarint(b, uint64(len(t.slots)))
	for _, l := range [...]*sessionList{&t.counting, &t.keyed} {
		for slot := l.oldest; slot != noSession; slot = t.sessions[slot].newer {
			b = t.appendSession(b, &t.sessions[slot])
		}
	}
	return b
}

func (t *Table) appendSession(b []byte, s *session) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.id)
	b = binary.AppendUvarint(b, s.last)
	b = binary.AppendUvarint(b, t.ageMs-s.usedMs)
	for _, word := range s.seen {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// errTable marks bytes that are not a table of batch ids.
var errTable = errors.New("not a table of batch ids")

// DecodeTable reads what Encode returned.
func DecodeTable(b []byte) (Table, error) {
	t := NewTable()
	if len(b) == 0 {
		return t, nil
	}
	timeMs, used := binary.Varint(b)
	if used <= 0 {
		return t, fmt.Errorf("%w: time", errTable)
	}
	t.timeMs, b = timeMs, b[used:]
	var head [2]uint64
	for i := range head {
		if head[i], used = binary.Uvarint(b); used <= 0 {
			return t, fmt.Errorf("%w: head", errTable)
		}
		b = b[used:]
	}
	t.ageMs = head[0]
	if head[1] > sessionsMax+keyedMax {
		return t, fmt.Errorf("%w: %d sessions", errTable, head[1])
	}
	before := uint64(sessionMs)
	for range head[1] {
		s, rest, ok := t.decodeSession(b)
		if l := t.listOf(s.last); ok && l == &t.keyed && l.count == 0 {
			before = sessionMs // the other list begins
		}
		unusedMs := t.ageMs - s.usedMs
		if !ok || unusedMs > before || !t.inOrder(&s) {
			return t, fmt.Errorf("%w: session %d", errTable, len(t.slots))
		}
		b, before = rest, unusedMs
		t.add(s)
	}
	if len(b) > 0 {
		return t, fmt.Errorf("%w: %d bytes behind it", errTable, len(b))
	}
	return t, nil
}

// inOrder reports whether a session may be the next one of a durable form.
func (t *Table) inOrder(s *session) bool {
	l := t.listOf(s.last)
	return l.count < l.most && (l == &t.keyed || t.keyed.count == 0)
}

func (t *Table) decodeSession(b []byte) (s session, rest []byte, ok bool) {
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
	_, twice := t.slots[s.id]
	// The greatest counter was applied, and none is below 0.
	ok = s.id != 0 && !twice && s.seen[0]&1 != 0 && s.span() <= s.last
	return s, b[8*len(s.seen):], ok
}

// span returns how far behind the last counter the first one of the window is.
func (s *session) span() uint64 {
	if s.seen[1] != 0 {
		return uint64(64 + bits.Len64(s.seen[1]) - 1)
	}
	return uint64(bits.Len64(s.seen[0]) - 1)
}
