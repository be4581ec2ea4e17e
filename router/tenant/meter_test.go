package tenant

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/tenancy"
)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1e9, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func rules(t testing.TB, text string) *tenancy.Rules {
	t.Helper()
	r, err := tenancy.Parse("rules", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRate(t *testing.T) {
	c := newClock()
	m := NewMeter(MeterOptions{Clock: c.Now})
	a := m.Open("a")
	m.SetRules(rules(t, "databases: {a: {samples-per-second-max: 100}}"))
	take := func(samples int, want time.Duration) {
		t.Helper()
		err := a.Take(samples)
		var late *RateError
		switch {
		case want == 0 && err != nil:
			t.Fatalf("%d samples: %v", samples, err)
		case want > 0 && (!errors.As(err, &late) || !errors.Is(err, series.ErrOverloaded) || late.RetryAfter != want || late.PerSecond != 100 || late.Database != "a"):
			t.Fatalf("%d samples: %v, want %v", samples, err, want)
		}
	}
	take(100, 0)   // 1 s ahead
	take(1_000, 0) // 11 s ahead: whatever comes
	take(1, time.Second*10)
	c.move(9 * time.Second)
	take(1, time.Second)
	if d := a.Ahead(); d != time.Second {
		t.Errorf("%v", d)
	}
	c.move(time.Second)
	if d := a.Ahead(); d != 0 {
		t.Errorf("%v", d)
	}
	take(50, 0)
	take(1, 500*time.Millisecond)
	a.Give(50) // was not written
	take(1, 0)
	a.Spend(1_000)
	c.move(time.Hour) // no credit is gathered
	take(300, 0)
	take(1, 2*time.Second)
	m.SetRules(rules(t, "defaults: {samples-per-second-max: 1}\ndatabases: {a: {samples-per-second-max: 0}}"))
	take(1_000_000, 0)
	if err := m.Open("b").Take(5); err != nil {
		t.Error(err)
	}
	if err := m.Open("b").Take(5); !errors.Is(err, series.ErrOverloaded) {
		t.Errorf("the default: %v", err)
	}
	m.SetRules(nil)
	if err := m.Open("b").Take(5); err != nil {
		t.Error(err)
	}
}

// Over any time no more is let through than the rate, the burst and one batch.
func TestRateIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		m := NewMeter(MeterOptions{Clock: c.Now})
		rate := rapid.IntRange(1, 1_000_000).Draw(t, "rate")
		r, err := tenancy.Parse("f", fmt.Appendf(nil, "defaults: {samples-per-second-max: %d}", rate))
		if err != nil {
			t.Fatal(err)
		}
		m.SetRules(r)
		a, largest, taken := m.Open("a"), 0, 0
		start := c.Now()
		for range rapid.IntRange(1, 60).Draw(t, "batches") {
			samples := rapid.IntRange(1, 3*rate).Draw(t, "samples")
			c.move(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "pause")))
			if a.Take(samples) == nil {
				taken, largest = taken+samples, max(largest, samples)
			}
		}
		elapsed := c.Now().Sub(start) + Burst
		if most := float64(rate)*elapsed.Seconds() + float64(largest) + 1; float64(taken) > most {
			t.Fatalf("%d samples in %v at %d, at most %.0f may", taken, elapsed, rate, most)
		}
	})
}

func TestRateFromMany(t *testing.T) {
	c := newClock()
	m := NewMeter(MeterOptions{Clock: c.Now})
	m.SetRules(rules(t, "defaults: {samples-per-second-max: 1000}"))
	a := m.Open("")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if a.Take(1) == nil {
					a.Wrote(1, 0, 0, 10)
				}
			}
		})
	}
	all.Wait()
	if n := a.sums.Load().accepted.Load(); n != 1001 { // one is taken at exactly one second ahead
		t.Errorf("%d", n)
	}
}

// metrics returns a collector's counters as sorted "name database outcome value".
func metrics(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			text := strings.TrimPrefix(family.GetName(), "tickmesh_database_")
			for _, label := range m.GetLabel() {
				text += " " + label.GetValue()
			}
			all[text] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

func TestMetrics(t *testing.T) {
	m := NewMeter(MeterOptions{})
	m.SetRules(rules(t, "databases: {named: {samples-per-second-max: 1}}"))
	m.Open("").Wrote(7, 1, 2, 100)
	m.Open("named").Wrote(1, 0, 0, 5)
	_, _ = m.Open("named").Take(10), m.Open("named").Take(10)
	m.Open("x").Queried(3 * time.Second)
	m.countSeries(t.Context(), func(_ context.Context, database string) (int64, error) {
		if database == "x" {
			return 0, errors.New("no answer")
		}
		return int64(len(database)), nil
	})
	all := metrics(t, m)
	for name, want := range map[string]float64{
		"samples_total default accepted": 7, "samples_total default refused": 1, "samples_total default failed": 2, "received_bytes_total default": 100,
		"samples_total named accepted": 1, "samples_total named rate_limited": 10, "queries_total x": 1, "query_seconds_total x": 3,
		"series default": 0, "series named": 5, "samples_total * accepted": 0,
	} {
		if got, ok := all[name]; !ok || got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, ok := all["series x"]; ok {
		t.Error("a count that failed is told")
	}
}

// Whatever is written, labels and accounts are bounded, no counter falls while it is there,
// and what all databases have written adds up but for what is gone with a label.
func TestLabelsAreBounded(t *testing.T) {
	for seed := range 6 {
		c := newClock()
		m := NewMeter(MeterOptions{Clock: c.Now})
		before := map[string]float64{}
		weight := func(round, i int) int { return (i*7919+round*104729+seed)%1000 + 1 }
		for round := range 5 {
			if round == 2 {
				m.SetRules(rules(t, "databases: {d0: {}, d150: {}, new: {}}"))
			}
			if round == 4 {
				m.SetRules(rules(t, "databases: {d7: {}}"))
			}
			for i := range 300 {
				m.Open(fmt.Sprint("d", i)).Wrote(weight(round, i), 0, 0, 0)
			}
			c.move(rankInterval)
			now := metrics(t, m)
			labels := 0
			for name, value := range now {
				if strings.HasSuffix(name, " accepted") {
					labels++
				}
				if was, ok := before[name]; ok && value < was && labelKept(m, name) {
					t.Fatalf("round %d: %s fell from %v to %v", round, name, was, value)
				}
			}
			if labels > LabelsMax+3+1 {
				t.Fatalf("round %d: %d labels", round, labels)
			}
			if round == 2 && (now["samples_total new accepted"] != 0 || !has(now, "samples_total new accepted")) {
				t.Fatalf("a database that rules name has no label")
			}
			before = now
		}
	}
}

func has(all map[string]float64, name string) bool { _, ok := all[name]; return ok }

// labelKept is for the rest of all, which never goes away; a label that was lost and came
// back begins at 0 like a process that restarted.
func labelKept(_ *Meter, name string) bool { return strings.Contains(name, " * ") }

// The most used databases get the labels.
func TestRank(t *testing.T) {
	c := newClock()
	m := NewMeter(MeterOptions{Clock: c.Now})
	for i := range 200 {
		m.Open(fmt.Sprint("d", i)).Wrote(1, 0, 0, 0)
	}
	var heavy []string
	for i := 150; i < 160; i++ {
		name := fmt.Sprint("d", i)
		heavy = append(heavy, name)
		m.Find([]byte(name)).Wrote(100, 0, 0, 0)
	}
	c.move(rankInterval)
	metrics(t, m)
	var labels []string
	for _, a := range m.labelled() {
		labels = append(labels, a.name)
	}
	sort.Strings(labels)
	for _, name := range heavy {
		if i := sort.SearchStrings(labels, name); i == len(labels) || labels[i] != name {
			t.Errorf("%s has no label", name)
		}
	}
	if len(labels) != LabelsMax {
		t.Errorf("%d labels", len(labels))
	}
}

func TestAccountsAreBounded(t *testing.T) {
	m := NewMeter(MeterOptions{})
	for i := range AccountsMax + 10 {
		m.Open(fmt.Sprint(i))
	}
	if n := len(*m.accounts.Load()); n != AccountsMax {
		t.Errorf("%d accounts", n)
	}
	if m.Open("one more") != m.Open("another") || m.Open("one more").Name() != "*" || m.Find([]byte("one more")) != nil {
		t.Error("databases beyond the bound have no account together")
	}
	if m.Open("a\xff").Name() != "*" {
		t.Error("a name that no metric can have has an account")
	}
	m.SetRules(rules(t, "databases: {named: {}}"))
	if m.Open("named").Name() != "named" {
		t.Error("a named database has no account")
	}
	m.SetRules(nil)
	if n := len(*m.accounts.Load()); n > AccountsMax {
		t.Errorf("%d accounts", n)
	}
}

func TestAccountsDoNotAllocate(t *testing.T) {
	m := NewMeter(MeterOptions{})
	m.SetRules(rules(t, "databases: {metrics: {samples-per-second-max: 1000000000}}"))
	name := []byte("metrics")
	if n := testing.AllocsPerRun(100, func() {
		a := m.Find(name)
		if a.Take(100) != nil {
			t.Fatal("refused")
		}
		a.Wrote(100, 0, 0, 1000)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAccount(b *testing.B) {
	m := NewMeter(MeterOptions{})
	m.Open("metrics")
	name := []byte("metrics")
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			a := m.Find(name)
			_ = a.Take(200)
			a.Wrote(200, 0, 0, 4000)
		}
	})
}
