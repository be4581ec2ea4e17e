package limits

import (
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

// nodeLimiter keeps the node's own bounds. It counts what is admitted, which is more than what is
// created while two writes define the same series at once.
type nodeLimiter struct {
	bounds Bounds
	clock  func() time.Time

	mu struct {
		sync.Mutex
		admitted  int64   // series of writes that are on their way
		allowance float64 // new series that may still be made now
		at        time.Time
	}
}

func newNodeLimiter(bounds Bounds, clock func() time.Time) *nodeLimiter {
	l := &nodeLimiter{bounds: bounds, clock: clock}
	l.mu.allowance = float64(bounds.SeriesPerSecondMax)
	l.mu.at = clock()
	return l
}

func (l *nodeLimiter) unlimited() bool {
	return l.bounds.SeriesMax == 0 && l.bounds.SeriesPerSecondMax == 0
}

// admitAll is admit for n series at once: all of them or none. More than a second
// allows pass when a whole second's are left, and those after them pay for it.
func (l *nodeLimiter) admitAll(n int64, index Index) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if most := index.SeriesMax(); most-n < l.mu.admitted+index.SeriesCount() {
		return fmt.Errorf("%w: %d new series would be more than the %d that this node has memory for: give it more (--memory-limit), or add nodes", series.ErrSeriesLimit, n, most)
	}
	if most := l.bounds.SeriesMax; most > 0 && l.mu.admitted+index.SeriesKnown()+n > most {
		return fmt.Errorf("%w: %d new series would be more than the %d that --series-max allows", series.ErrSeriesLimit, n, most)
	}
	if most := float64(l.bounds.SeriesPerSecondMax); most > 0 {
		l.refillLocked(most)
		if l.mu.allowance < min(float64(n), most) {
			return l.rateError()
		}
		l.mu.allowance -= float64(n)
	}
	l.mu.admitted += n
	return nil
}

// admit returns why no further series may be made, or nil and counts it until release.
func (l *nodeLimiter) admit(index Index) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// What is created is in the index before it is released.
	if most := index.SeriesMax(); l.mu.admitted+index.SeriesCount() >= most {
		return fmt.Errorf("%w: there are %d series, the most that this node has memory for: give it more (--memory-limit), or add nodes", series.ErrSeriesLimit, most)
	}
	if most := l.bounds.SeriesMax; most > 0 && l.mu.admitted+index.SeriesKnown() >= most {
		return fmt.Errorf("%w: there are %d series, the most that --series-max allows", series.ErrSeriesLimit, most)
	}
	if err := l.admitNowLocked(); err != nil {
		return err
	}
	l.mu.admitted++
	return nil
}

// admitNowLocked applies the bound of new series a second.
func (l *nodeLimiter) admitNowLocked() error {
	most := float64(l.bounds.SeriesPerSecondMax)
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

func (l *nodeLimiter) refillLocked(most float64) {
	now := l.clock()
	l.mu.allowance = min(most, l.mu.allowance+max(0, now.Sub(l.mu.at).Seconds())*most)
	l.mu.at = now
}

func (l *nodeLimiter) rateError() error {
	return fmt.Errorf("%w: more than %d new series a second, the most that --series-per-second-max allows",
		series.ErrSeriesRate, l.bounds.SeriesPerSecondMax)
}

// release forgets n admitted series, which have been made by now or never will be.
func (l *nodeLimiter) release(n int64) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.admitted -= n
}
