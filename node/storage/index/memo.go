package index

import (
	"slices"
	"sync"
)

// Bounds of a valueMemo: some 1.5 MB, of parts that have so many values only.
const (
	memoEntriesMax  = 16
	memoPostingsMax = 2048
	memoValuesMin   = 1 << 8
)

// valueMemo remembers which values of a tag an expression picks, for the part that never
// changes. A dashboard asks for the same again and again, and a query that reads what is
// newest and then what is before it asks twice. The zero value is empty.
type valueMemo struct {
	mu      sync.Mutex
	entries []memoEntry // the one used last comes last
}

type memoEntry struct {
	metric   int // its number in the part
	tag      string
	regexp   string
	postings []posting
}

func (e *memoEntry) is(metric int, m *matcher) bool {
	return e.metric == metric && e.tag == m.name && e.regexp == m.regexp
}

// find returns the postings, which are not to be changed.
func (v *valueMemo) find(metric int, m *matcher) ([]posting, bool) {
	if m.regexp == "" {
		return nil, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.entries, func(e memoEntry) bool { return e.is(metric, m) })
	if i < 0 {
		return nil, false
	}
	found := v.entries[i]
	copy(v.entries[i:], v.entries[i+1:])
	v.entries[len(v.entries)-1] = found
	return found.postings, true
}

// keep remembers a copy of the postings, if that is worth it: values is what the tag has.
func (v *valueMemo) keep(metric int, m *matcher, values int, postings []posting) {
	if m.regexp == "" || values < memoValuesMin || len(postings) > memoPostingsMax {
		return
	}
	e := memoEntry{metric: metric, tag: m.name, regexp: m.regexp, postings: slices.Clone(postings)}
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.ContainsFunc(v.entries, func(other memoEntry) bool { return other.is(metric, m) }) {
		return // another query was faster
	}
	if len(v.entries) == memoEntriesMax {
		v.entries = slices.Delete(v.entries, 0, 1)
	}
	v.entries = append(v.entries, e)
}
