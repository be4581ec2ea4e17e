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

// admitAll is admit for n series at once: all of them or none. More than a second
// allows pass when a whole second's are left, and those after them pay for it.
func (l *limiter) admitAll(n int64, seriesNow func() int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if most := l.limits.SeriesMax; most > 0 && l.mu.admitted+seriesNow()+n > most {
		return fmt.Errorf("%w: %d new series would be more than the %d that --series-max allows", series.ErrSeriesLimit, n, most)
	}
	if most := float64(l.limits.SeriesPerSecondMax); most > 0 {
		l.refillLocked(most)
		if l.mu.allowance < min(float64(n), most) {
			return l.rateError()
		}
		l.mu.allowance -= float64(n)
	}
	l.mu.admitted += n
	return nil
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
	l.refillLocked(most)
	if l.mu.allowance < 1 {
		return l.rateError()
	}
	l.mu.allowance--
	return nil
}

func (l *limiter) refillLocked(most float64) {
	now := l.clock()
	l.mu.allowance = min(most, l.mu.allowance+max(0, now.Sub(l.mu.at).Seconds())*most)
	l.mu.at = now
}

func (l *limiter) rateError() error {
	return fmt.Errorf("%w: more than %d new series a second, the most that --series-per-second-max allows",
		series.ErrSeriesRate, l.limits.SeriesPerSecondMax)
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

// unlimited says whether anybody may make any series.
func (n *Node) unlimited() bool { return n.limiter.unlimited() && n.rules() == nil }

// admit checks the definitions of a part against the limits. Where some are refused
// it gives a batch without their points.
func (n *Node) admit(part *series.Part, index int, a *admission) (batch []byte, err error) {
	if n.unlimited() {
		return part.Batch, nil
	}
	var r series.BatchReader
	r.Reset(part.Batch)
	keys, unknown, err := n.definitions(&r)
	if err != nil {
		return nil, err
	}
	out := map[int]bool{}
	for _, definition := range unknown {
		err := n.databases.admit(keys[definition], 1)
		if err == nil {
			err = n.limiter.admit(n.engine.SeriesCount)
		}
		if err != nil {
			a.refused = append(a.refused, series.Refusal{Part: index, Definition: definition, Err: err})
			out[definition] = true
		} else {
			a.admitted++
		}
	}
	if len(out) == 0 {
		return part.Batch, nil
	}
	return withoutDefinitions(&r, keys, out)
}

// definitions gives the keys that a batch defines, and which of them are no series yet.
func (n *Node) definitions(r *series.BatchReader) (keys []series.Key, unknown []int, err error) {
	for {
		key, ok := r.NextDefinition()
		if !ok {
			return keys, unknown, r.Err()
		}
		_, known, err := n.engine.LookupSeries(key)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", series.ErrReadOnly, err)
		}
		if !known {
			unknown = append(unknown, len(keys))
		}
		keys = append(keys, key)
	}
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
