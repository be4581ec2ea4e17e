package tenant

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
)

// Bounds of a Meter.
const (
	// LabelsMax bounds the databases that have labels without being named by the rules.
	LabelsMax = 100
	// AccountsMax bounds the databases that have accounts without being named by the rules.
	AccountsMax = 4096

	rankInterval   = time.Minute
	seriesInterval = 5 * time.Minute
	seriesTimeout  = 30 * time.Second
)

// MeterOptions configure a Meter.
type MeterOptions struct {
	// Clock returns the time of a monotonic clock. Nil: time.Now.
	Clock func() time.Time
}

// Meter has the accounts of all databases. It is safe for concurrent use.
type Meter struct {
	clock func() time.Time
	now   func() int64

	accounts atomic.Pointer[map[string]*Account] // copied to be changed
	rest     *Account                            // of those beyond the bound
	restSums *sums                               // of those without a label

	mu struct {
		sync.Mutex
		rules    *tenancy.Rules
		named    map[*Account]bool // by the rules
		labelled map[*Account]bool // without being named
		series   map[string]int64
		rankedAt time.Time
	}
	described meterDescriptions
}

type meterDescriptions struct{ samples, bytes, queries, querySeconds, series *prometheus.Desc }

// NewMeter makes a Meter without rules.
func NewMeter(o MeterOptions) *Meter {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	start := o.Clock()
	m := &Meter{clock: o.Clock, now: func() int64 { return int64(o.Clock().Sub(start)) }, restSums: &sums{}}
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tickmesh_database_"+name, help, append([]string{"database"}, labels...), nil)
	}
	m.described = meterDescriptions{
		samples:      describe("samples_total", "Samples that came, by what became of them; * is all databases without a label of their own.", "outcome"),
		bytes:        describe("received_bytes_total", "Bytes of writes as they were sent."),
		queries:      describe("queries_total", "Queries that have ended."),
		querySeconds: describe("query_seconds_total", "Time of the queries that have ended."),
		series:       describe("series", "Series, counted every five minutes."),
	}
	m.rest = m.newAccount(access.Everything)
	m.rest.all = true
	m.mu.named, m.mu.labelled, m.mu.series, m.mu.rankedAt = map[*Account]bool{}, map[*Account]bool{}, map[string]int64{}, start
	m.accounts.Store(&map[string]*Account{})
	m.Open("")
	return m
}

func (m *Meter) newAccount(name string) *Account {
	a := &Account{name: name, now: m.now}
	a.sums.Store(m.restSums)
	return a
}

// Find returns the account of a database, or nil when there is none yet.
func (m *Meter) Find(database []byte) *Account { return (*m.accounts.Load())[string(database)] }

// Open returns the account of a database, and makes it. Beyond AccountsMax all further
// databases have one together, as have those whose names no metric can have.
func (m *Meter) Open(database string) *Account {
	if a := (*m.accounts.Load())[database]; a != nil {
		return a
	}
	if series.ValidateDatabase(database) != nil {
		return m.rest
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(*m.accounts.Load())-len(m.mu.named) >= AccountsMax {
		return m.rest
	}
	a := m.openLocked(database)
	if len(m.mu.labelled) < LabelsMax && !m.mu.named[a] && !m.mu.labelled[a] {
		m.labelLocked(a)
	}
	return a
}

func (m *Meter) openLocked(database string) *Account {
	all := *m.accounts.Load()
	if a := all[database]; a != nil {
		return a
	}
	a := m.newAccount(database)
	a.setRate(m.mu.rules.LimitsOf(database).SamplesPerSecondMax)
	next := maps.Clone(all)
	next[database] = a
	m.accounts.Store(&next)
	return a
}

// labelLocked counts an account under a label of its own, from 0.
func (m *Meter) labelLocked(a *Account) {
	m.mu.labelled[a] = true
	a.sums.Store(&sums{})
}

// unlabelLocked counts an account among the rest.
func (m *Meter) unlabelLocked(a *Account) {
	delete(m.mu.labelled, a)
	a.sums.Store(m.restSums)
}

// SetRules applies rules to all accounts, those that writes use already too.
func (m *Meter) SetRules(rules *tenancy.Rules) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.rules = rules
	named := map[*Account]bool{}
	for _, name := range rules.Databases() {
		a := m.openLocked(name)
		named[a] = true
		switch {
		case m.mu.labelled[a]:
			delete(m.mu.labelled, a) // it keeps its label, which counts no more for the bound
		case !m.mu.named[a]:
			a.sums.Store(&sums{})
		}
	}
	m.forgetLocked(named)
	m.mu.named = named
	for name, a := range *m.accounts.Load() {
		a.setRate(rules.LimitsOf(name).SamplesPerSecondMax)
	}
	m.rest.setRate(rules.LimitsOf(access.Everything).SamplesPerSecondMax) // as no database is called so: the defaults
}

// forgetLocked treats accounts that the rules named before and do not any more as all others.
func (m *Meter) forgetLocked(named map[*Account]bool) {
	next := maps.Clone(*m.accounts.Load())
	for a := range m.mu.named {
		switch {
		case named[a]:
		case len(m.mu.labelled) < LabelsMax:
			m.mu.labelled[a] = true
		default:
			a.sums.Store(m.restSums)
			if len(next)-len(named) > AccountsMax {
				delete(next, a.name) // who holds it goes on with it
			}
		}
	}
	m.accounts.Store(&next)
}

// rankLocked assigns labels to the most used of the databases that the rules do not name.
// Who has one keeps it against who uses less than twice as much.
func (m *Meter) rankLocked() {
	var without, with []*Account
	for _, a := range *m.accounts.Load() {
		used := a.used.Load()
		a.score, a.seen = a.score/2+used-a.seen, used
		switch {
		case m.mu.labelled[a]:
			with = append(with, a)
		case a.sums.Load() == m.restSums && a.score > 0:
			without = append(without, a)
		}
	}
	byScore := func(a, b *Account) int { return cmp.Compare(a.score, b.score) }
	slices.SortFunc(with, byScore)
	slices.SortFunc(without, func(a, b *Account) int { return byScore(b, a) })
	for i, a := range without {
		if len(m.mu.labelled) >= LabelsMax {
			if i >= len(with) || a.score <= 2*with[i].score {
				return
			}
			m.unlabelLocked(with[i])
		}
		m.labelLocked(a)
	}
}

// CountSeries counts the series of the databases that have labels every five minutes, until
// ctx ends.
func (m *Meter) CountSeries(ctx context.Context, count func(ctx context.Context, database string) (int64, error)) {
	ticker := time.NewTicker(seriesInterval)
	defer ticker.Stop()
	for {
		m.countSeries(ctx, count)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (m *Meter) countSeries(ctx context.Context, count func(ctx context.Context, database string) (int64, error)) {
	ctx, cancel := context.WithTimeout(ctx, seriesTimeout)
	defer cancel()
	counts := map[string]int64{}
	for _, a := range m.labelled() {
		n, err := count(ctx, a.name)
		if err != nil {
			continue // there is no count, which is no 0
		}
		counts[a.name] = n
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.series = counts
}

// labelled returns the accounts with labels, sorted by name.
func (m *Meter) labelled() []*Account {
	var all []*Account
	for _, a := range *m.accounts.Load() {
		if a.sums.Load() != m.restSums {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *Account) int { return strings.Compare(a.name, b.name) })
	return all
}

// Describe implements prometheus.Collector.
func (m *Meter) Describe(to chan<- *prometheus.Desc) {
	d := &m.described
	for _, desc := range []*prometheus.Desc{d.samples, d.bytes, d.queries, d.querySeconds, d.series} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *Meter) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	if now := m.clock(); now.Sub(m.mu.rankedAt) >= rankInterval {
		m.mu.rankedAt = now
		m.rankLocked()
	}
	counts := m.mu.series
	m.mu.Unlock()
	for _, a := range m.labelled() {
		m.collect(to, access.Display(a.name), a.sums.Load())
		if n, ok := counts[a.name]; ok {
			to <- prometheus.MustNewConstMetric(m.described.series, prometheus.GaugeValue, float64(n), access.Display(a.name))
		}
	}
	m.collect(to, access.Everything, m.restSums)
}

func (m *Meter) collect(to chan<- prometheus.Metric, database string, s *sums) {
	d := &m.described
	counter := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, append([]string{database}, labels...)...)
	}
	counter(d.samples, float64(s.accepted.Load()), "accepted")
	counter(d.samples, float64(s.refused.Load()), "refused")
	counter(d.samples, float64(s.failed.Load()), "failed")
	counter(d.samples, float64(s.late.Load()), "rate_limited")
	counter(d.bytes, float64(s.bytes.Load()))
	counter(d.queries, float64(s.queries.Load()))
	counter(d.querySeconds, time.Duration(s.queryNs.Load()).Seconds())
}
