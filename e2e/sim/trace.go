package sim

import (
	"fmt"
	"slices"
)

// trace hashes events, and keeps the last of them as text if told so.
type trace struct {
	hash uint64
	keep int
	ring []string
	at   int
}

// note is an event that is worth a line.
func (t *trace) note(what, who string, numbers ...int) {
	t.hashed(what, who, numbers...)
	if t.keep == 0 {
		return
	}
	line := fmt.Sprint(what, " ", who, " ", numbers)
	if len(t.ring) < t.keep {
		t.ring = append(t.ring, line)
		return
	}
	t.ring[t.at] = line
	t.at = (t.at + 1) % t.keep
}

// hashed is an event of which there are too many for lines.
func (t *trace) hashed(what, who string, numbers ...int) {
	h := t.hash ^ 14695981039346656037
	for _, s := range [2]string{what, who} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	for _, n := range numbers {
		h = (h ^ uint64(n)) * 1099511628211
	}
	t.hash = h
}

func (t *trace) lines() []string {
	return slices.Concat(t.ring[t.at:], t.ring[:t.at])
}
