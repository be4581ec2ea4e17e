package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

// limiter bounds new series. It counts what is admitted, which is more than what is
// created while two writes define the same series at once.
type limiter struct {
	limits Limits
	clock  func() time.Time

	mu struct {
		sync.Mutex
		admitted  int64   // series of writes that are on their way
		allowance float64 // new series that may still be made now
		at        time.Time
	}
}

func newLimiter(limits Limits, clock func() time.Time) *limiter {
	l := &limiter{limits: limits, clock: clock}
	l.mu.allowance = float64(limits.SeriesPerSecondMax)
	l.mu.at = clock()
	return l
}

func (l *limiter) unlimited() bool {
	return l.limits.SeriesMax == 0 && l.limits.SeriesPerSecondMax == 0
}

// admit says why no further series may be made, or nil and counts it until release.
func (l *limiter) admit(seriesNow func() int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// What is created is in seriesNow before it is released.
	if most := l.limits.SeriesMax; most > 0 && l.mu.admitted+seriesNow() >= most {
		return fmt.Errorf("%w: there are %d series, the most that --series-max allows", series.ErrSeriesLimit, most)
	}
	if err := l.admitNowLocked(); err != nil {
		return err
	}
	l.mu.admitted++
	return nil
}

// admitNowLocked looks at the new series of this second.
func (l *limiter) admitNowLocked() error {
	most := float64(l.limits.SeriesPerSecondMax)
	if most == 0 {
		return nil
	}
	now := l.clock()
	l.mu.allowance = min(most, l.mu.allowance+max(0, now.Sub(l.mu.at).Seconds())*most)
	l.mu.at = now
	if l.mu.allowance < 1 {
		return fmt.Errorf("%w: more than %d new series a second, the most that --series-per-second-max allows",
			series.ErrSeriesRate, l.limits.SeriesPerSecondMax)
	}
	l.mu.allowance--
	return nil
}

// release forgets n admitted series, which have been made by now or never will be.
func (l *limiter) release(n int64) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.admitted -= n
}

// admission is the part of one frame that the limits let through.
type admission struct {
	admitted int64 // new series, to be released when the write has ended
	refused  []series.Refusal
}

// admit checks the definitions of a part against the limits. Where some are
// refused it gives a batch without their points.
func (n *Node) admit(part *series.Part, index int, a *admission) (batch []byte, err error) {
	if n.limiter.unlimited() {
		return part.Batch, nil
	}
	var r series.BatchReader
	r.Reset(part.Batch)
	var keys []series.Key
	out := map[int]bool{}
	for {
		key, ok := r.NextDefinition()
		if !ok {
			break
		}
		_, known, err := n.LookupSeries(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", series.ErrReadOnly, err)
		}
		if !known {
			if err := n.limiter.admit(n.SeriesCount); err != nil {
				a.refused = append(a.refused, series.Refusal{Part: index, Definition: len(keys), Err: err})
				out[len(keys)] = true
			} else {
				a.admitted++
			}
		}
		keys = append(keys, key)
	}
	if r.Err() != nil || len(out) == 0 {
		return part.Batch, r.Err()
	}
	return withoutDefinitions(&r, keys, out)
}

// withoutDefinitions encodes a batch again without the points of some of its
// definitions. The reader stands before the first point.
func withoutDefinitions(r *series.BatchReader, keys []series.Key, out map[int]bool) ([]byte, error) {
	var e series.BatchEncoder
	slots := make([]series.ID, len(keys))
	for i, key := range keys {
		if !out[i] {
			slots[i] = e.Define(key)
		}
	}
	for r.NextPoint() {
		id := series.ID(r.Ref)
		if id >= series.SlotBase {
			slot := int(id - series.SlotBase)
			if slot >= len(keys) {
				return nil, fmt.Errorf("%w: a point names definition %d of %d", series.ErrBatch, slot, len(keys))
			}
			if out[slot] {
				continue
			}
			id = slots[slot]
		}
		e.Append(id, r.TimeMs, r.Mantissa, r.Scale)
	}
	return e.AppendTo(nil), r.Err()
}
