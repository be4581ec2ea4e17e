package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

// limiter bounds new series. It counts what is admitted, which may be a little
// more than what is created when two writes define the same series at once.
type limiter struct {
	limits Limits
	clock  func() time.Time

	mu struct {
		sync.Mutex
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

// admit says why no further series may be made, or nil and counts it.
func (l *limiter) admit(seriesNow int64) error {
	if most := l.limits.SeriesMax; most > 0 && seriesNow >= most {
		return fmt.Errorf("%w: there are %d series, the most that --series-max allows", series.ErrSeriesLimit, seriesNow)
	}
	most := float64(l.limits.SeriesPerSecondMax)
	if most == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	l.mu.allowance = min(most, l.mu.allowance+max(0, now.Sub(l.mu.at).Seconds())*most)
	l.mu.at = now
	if l.mu.allowance < 1 {
		return fmt.Errorf("%w: more than %d new series a second, the most that --series-per-second-max allows",
			series.ErrSeriesLimit, l.limits.SeriesPerSecondMax)
	}
	l.mu.allowance--
	return nil
}

// admit checks the definitions of a part against the limits. Where some are
// refused it gives a batch without their points.
func (n *Node) admit(part *series.Part, index int) (batch []byte, refused []series.Refusal, err error) {
	if n.limiter.unlimited() {
		return part.Batch, nil, nil
	}
	var r series.BatchReader
	r.Reset(part.Batch)
	var keys []series.Key
	out := map[int]bool{}
	admitted := int64(0)
	for {
		key, ok := r.NextDefinition()
		if !ok {
			break
		}
		_, known, err := n.LookupSeries(key)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", series.ErrReadOnly, err)
		}
		if !known {
			if err := n.limiter.admit(n.SeriesCount() + admitted); err != nil {
				refused = append(refused, series.Refusal{Part: index, Definition: len(keys), Err: err})
				out[len(keys)] = true
			}
			admitted++
		}
		keys = append(keys, key)
	}
	if r.Err() != nil || len(refused) == 0 {
		return part.Batch, nil, r.Err()
	}
	batch, err = withoutDefinitions(&r, keys, out)
	return batch, refused, err
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
