// Package deduptest has an independent model of dedup's table, for tests.
package deduptest

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

const (
	sessionsMax = 4096
	keyedMax    = 2048
	window      = 128
	sessionMs   = 15 * 60 * 1000
	stepMsMax   = 10 * 1000
)

// Table is a slow and obvious table of batch ids: lists that are walked. Its bounds are those
// that dedup documents.
type Table struct {
	timeMs, ageMs int64
	Sessions      []Session // by use, oldest first
}

// Session is the recent past of one writer.
type Session struct {
	ID      uint64
	applied map[uint64]bool
	Last    uint64
	usedMs  int64
}

func (t *Table) find(id uint64) int {
	return slices.IndexFunc(t.Sessions, func(s Session) bool { return s.ID == id })
}

// Judge returns what an id of an entry means: "fresh", "repeated" or "old".
func (t *Table) Judge(id series.BatchID, timeMs int64) string {
	if timeMs > t.timeMs {
		step := timeMs - t.timeMs
		if step < 0 || step > stepMsMax { // below 0: it did not fit
			step = stepMsMax
		}
		t.ageMs += step
	}
	t.timeMs = timeMs
	t.Sessions = slices.DeleteFunc(t.Sessions, func(s Session) bool { return t.ageMs-s.usedMs >= sessionMs })
	at := t.find(id.Session)
	if at < 0 {
		return "fresh"
	}
	s := t.Sessions[at]
	if s.Last>>63 != id.Counter>>63 {
		return "old"
	}
	s.usedMs = t.ageMs
	t.Sessions = append(slices.Delete(t.Sessions, at, at+1), s)
	switch {
	case id.Counter <= s.Last && s.Last-id.Counter >= window:
		return "old"
	case s.applied[id.Counter]:
		return "repeated"
	}
	return "fresh"
}

// Note remembers that a fresh batch was applied.
func (t *Table) Note(id series.BatchID) {
	at := t.find(id.Session)
	if at < 0 {
		most, same := sessionsMax, 0
		if id.Counter>>63 == 1 {
			most = keyedMax
		}
		isSame := func(s Session) bool { return s.Last>>63 == id.Counter>>63 }
		for _, s := range t.Sessions {
			if isSame(s) {
				same++
			}
		}
		if same == most {
			oldest := slices.IndexFunc(t.Sessions, isSame)
			t.Sessions = slices.Delete(t.Sessions, oldest, oldest+1)
		}
		t.Sessions = append(t.Sessions, Session{ID: id.Session, applied: map[uint64]bool{}, Last: id.Counter, usedMs: t.ageMs})
		at = len(t.Sessions) - 1
	}
	s := &t.Sessions[at]
	s.applied[id.Counter] = true
	s.Last = max(s.Last, id.Counter)
}
