package api

import "sync/atomic"

// budget is an amount that may be in use at once.
type budget struct {
	most int64
	used atomic.Int64
}

func newBudget(most int64) *budget { return &budget{most: most} }

// take says whether there was room for n more, which is then in use.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.most {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) give(n int64) { b.used.Add(-n) }
