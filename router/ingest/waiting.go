package ingest

import "sync/atomic"

// waiting bounds what all TCP connections together hold while nothing of theirs is
// at work: the starts of long lines that have not ended, and answers that nobody
// reads. A bound for each connection is not enough when there are thousands.
type waiting struct {
	bytesMax int64
	used     atomic.Int64
}

// take holds n bytes more; false says that there is no room for them.
func (w *waiting) take(n int) bool {
	if w.used.Add(int64(n)) > w.bytesMax {
		w.used.Add(int64(-n))
		return false
	}
	return true
}

func (w *waiting) giveBack(n int) { w.used.Add(int64(-n)) }
