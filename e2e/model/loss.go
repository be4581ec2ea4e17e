package model

import (
	"slices"
	"time"
)

// answered is an acknowledged write that a power cut may still take back.
type answered struct {
	index  int
	before version // the version that was binding
	v      version
	at     time.Time
}

// answeredKept is how far back acknowledged writes are remembered one by one: further
// than any power cut may reach.
const answeredKept = time.Minute

// noteAnswered remembers that a write has bound a point that was something else before.
func (s *series) noteAnswered(index int, v version, now time.Time) {
	old := 0
	for old < len(s.answered) && now.Sub(s.answered[old].at) > answeredKept {
		old++
	}
	s.answered = append(slices.Delete(s.answered, 0, old), answered{index, s.points[index].binding, v, now})
}

// mayLose notes that what was acknowledged since a moment, and what is on its way, may be
// lost: a point may be what it was before. What is lost may come again, as clients repeat
// requests long after they were answered, and what made a repetition void is lost too.
func (s *series) mayLose(since time.Time) {
	for _, a := range s.answered {
		if !a.at.Before(since) {
			s.doubt[a.index] = append(s.doubt[a.index], a.before, a.v)
		}
	}
	s.answered = nil
	s.weak = map[weakWrite]bool{}
	for index, versions := range s.doubt {
		for _, v := range versions {
			s.weak[weakWrite{index, v}] = true
		}
	}
}

// weakWrite is a write that was on its way in a power cut: its answer may be from before.
type weakWrite struct {
	index int
	v     version
}
