package limits

import (
	"fmt"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
)

// databaseLimiter bounds the new series of each database, as its rules say. In a cluster
// each node lets in the share of the bound that its shards are of all, so that the bound
// holds about, not to the series.
type databaseLimiter struct {
	rules func() *tenancy.Rules
	clock func() time.Time
	led   Led

	mu     sync.Mutex
	counts map[string]*databaseCount
}

// databaseCount is what is known of a database.
type databaseCount struct {
	series    int64 // at the last count, and admitted since
	share     float64
	counted   time.Time
	took      time.Duration
	allowance float64 // new series that may still be made now
	at        time.Time
}

// A count is believed for a second, or for so long that counting takes a twentieth of the
// time. So many databases are remembered.
const (
	countBelieved     = time.Second
	countRest         = 20
	databaseCountsMax = 1 << 12
)

func newDatabaseLimiter(o *Options) *databaseLimiter {
	return &databaseLimiter{rules: o.Rules, clock: o.Clock, led: o.Led, counts: map[string]*databaseCount{}}
}

// admit returns why no n further series of a key's database may be made, or nil.
func (l *databaseLimiter) admit(key series.Key, n int64) error {
	rules := l.rules()
	if rules == nil {
		return nil
	}
	name, _, _, ok := key.Head()
	if !ok {
		return nil // the key is refused elsewhere
	}
	limits := rules.LimitsOf(string(name))
	if limits.SeriesMax <= 0 && limits.SeriesPerSecondMax <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.countLocked(string(name))
	if err := l.refreshLocked(string(name), c, limits.SeriesMax > 0); err != nil {
		return err
	}
	if most := limits.SeriesMax; most > 0 {
		if share := max(1, int64(float64(most)*c.share)); c.series+n > share {
			return fmt.Errorf("%w: database %q has the %d series that its rules allow (series-max)", series.ErrSeriesLimit, displayOf(name), most)
		}
	}
	if most := float64(limits.SeriesPerSecondMax) * c.share; limits.SeriesPerSecondMax > 0 {
		now := l.clock()
		c.allowance = min(max(1, most), c.allowance+max(0, now.Sub(c.at).Seconds())*most)
		c.at = now
		if c.allowance < min(float64(n), max(1, most)) {
			return fmt.Errorf("%w: database %q gets more new series a second than the %d that its rules allow (series-per-second-max)",
				series.ErrSeriesRate, displayOf(name), limits.SeriesPerSecondMax)
		}
		c.allowance -= float64(n)
	}
	c.series += n
	return nil
}

// admitAll is admit for series of a write with a key, of which numbers are new: all of them
// or none, but for what earlier databases of the same write have used up.
func (l *databaseLimiter) admitAll(keys []series.Key, numbers []int) error {
	news := map[string]int64{}
	for _, number := range numbers {
		if name, _, _, ok := keys[number].Head(); ok {
			news[string(name)]++
		}
	}
	for _, number := range numbers {
		name, _, _, ok := keys[number].Head()
		if n := news[string(name)]; ok && n > 0 {
			if err := l.admit(keys[number], n); err != nil {
				return err
			}
			delete(news, string(name))
		}
	}
	return nil
}

func (l *databaseLimiter) countLocked(name string) *databaseCount {
	c := l.counts[name]
	if c == nil {
		if len(l.counts) >= databaseCountsMax {
			clear(l.counts) // they are counted again
		}
		c = &databaseCount{share: 1, allowance: 1 << 40}
		l.counts[name] = c
	}
	return c
}

func (l *databaseLimiter) refreshLocked(name string, c *databaseCount, count bool) (err error) {
	now := l.clock()
	if age := now.Sub(c.counted); age >= 0 && age < max(countBelieved, countRest*c.took) && !c.counted.IsZero() {
		return nil
	}
	began := time.Now()
	if c.share = l.led.ShareLed(); count {
		if c.series, err = l.led.SeriesLed(name); err != nil {
			return fmt.Errorf("%w: %w", series.ErrUnavailable, err)
		}
	}
	c.counted, c.took = now, time.Since(began)
	return nil
}

func displayOf(name []byte) string {
	if len(name) == 0 {
		return "default"
	}
	return string(name)
}
