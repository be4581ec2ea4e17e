package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
)

func begin(t *testing.T, l *Controller, q Query) (context.Context, *Entry) {
	t.Helper()
	ctx, e, err := l.Begin(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, e
}

func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{RunningAllMax: 1, WaitingMax: 1, Limits: Limits{Timeout: time.Minute}})
		_, first := begin(t, l, Query{Dialect: "promql", Text: "up"})
		entered := make(chan *Entry)
		go func() {
			_, e, err := l.Begin(t.Context(), Query{})
			if err != nil {
				t.Error(err)
			}
			entered <- e
		}()
		synctest.Wait()
		var busy *BusyError
		if _, _, err := l.Begin(t.Context(), Query{}); !errors.As(err, &busy) || !strings.Contains(err.Error(), "try again later") {
			t.Fatalf("beyond those that wait: %v", err)
		}
		if running, waiting := l.places.counts(); running != 1 || waiting != 1 {
			t.Fatal(running, waiting)
		}
		first.End(nil)
		second := <-entered
		// One that waits for as long as it may run has no hope.
		if _, _, err := l.Begin(t.Context(), Query{}); !errors.As(err, &busy) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := l.Begin(ctx, Query{}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		second.End(nil)
		if running, waiting := l.places.counts(); running != 0 || waiting != 0 || len(l.places.of) != 0 || len(l.mu.running) != 0 || len(l.mu.of) != 0 {
			t.Fatal(running, waiting, l.places.of, l.mu.running, l.mu.of)
		}
	})
}

// TestPrepareTakesAPlace: what comes before a query waits like one, and leaves its place.
func TestPrepareTakesAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{RunningAllMax: 1, WaitingMax: 1, Limits: Limits{Timeout: time.Minute}})
		_, first := begin(t, l, Query{})
		var busy *BusyError
		if err := l.Prepare(t.Context(), func() error { t.Error("it has no place"); return nil }); !errors.As(err, &busy) {
			t.Fatal(err)
		}
		first.End(nil)
		failure := errors.New("cannot be parsed")
		err := l.Prepare(t.Context(), func() error {
			if running, _ := l.places.counts(); running != 1 {
				t.Error(running)
			}
			return failure
		})
		if running, _ := l.places.counts(); !errors.Is(err, failure) || running != 0 {
			t.Fatal(err, running)
		}
	})
}

func TestDatabaseHasItsShare(t *testing.T) {
	l := New(Options{LimitsOf: func(database string) Limits {
		if database == "small" {
			return Limits{RunningMax: 1}
		}
		return Limits{}
	}})
	_, e := begin(t, l, Query{Database: "small"})
	var busy *BusyError
	if _, _, err := l.Begin(t.Context(), Query{Database: "small"}); !errors.As(err, &busy) {
		t.Fatal(err)
	}
	_, other := begin(t, l, Query{Database: "large"})
	other.End(nil)
	e.End(nil)
	_, e = begin(t, l, Query{Database: "small"})
	e.End(nil)
}

func TestTimeAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		l := New(Options{Limits: Limits{Timeout: time.Second}, SlowerThan: time.Second, Registerer: registry})
		ctx, e := begin(t, l, Query{Dialect: "promql", Text: "slow"})
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrTimeout) {
			t.Fatal(context.Cause(ctx))
		}
		e.End(ctx.Err())
		ctx, e = begin(t, l, Query{Dialect: "promql", Text: "long"})
		if id := l.Running()[0].ID; !l.Cancel(id) || l.Cancel(id+1) {
			t.Fatal("canceled the wrong one")
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrCanceled) {
			t.Fatal(context.Cause(ctx))
		}
		e.End(ctx.Err())
		if slow := l.Slow(); len(slow) != 1 || slow[0].Text != "slow" || slow[0].Took != time.Second || slow[0].Err == "" {
			t.Fatalf("%+v", slow)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		outcomes := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "tickmesh_query_ended_total" {
					outcomes[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
		if len(outcomes) != 2 || outcomes["promql canceled"] != 1 || outcomes["promql timeout"] != 1 {
			t.Fatal(outcomes)
		}
	})
}

func TestSlowAreBounded(t *testing.T) {
	l := New(Options{SlowerThan: time.Nanosecond, SlowMax: 3, Clock: advancing()})
	for i := range 5 {
		_, e := begin(t, l, Query{Text: fmt.Sprint(i) + strings.Repeat("é", textBytesMax)})
		e.End(nil)
	}
	slow := l.Slow()
	if len(slow) != 3 || slow[0].Text[0] != '4' || slow[2].Text[0] != '2' || len(slow[0].Text) > textBytesMax+len("…") {
		t.Fatalf("%d, %d bytes", len(slow), len(slow[0].Text))
	}
}

func advancing() func() time.Time {
	var mu sync.Mutex
	now := time.Unix(0, 0)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

// TestMemory charges at random and compares with plain sums of what was allowed: what is refused is not charged.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := New(Options{BytesAllMax: 100, Limits: Limits{BytesMax: 60}})
		held := map[*Entry]int64{}
		most := map[*Entry]int64{}
		var all []*Entry
		for i := range 4 {
			_, e := begin(t, l, Query{User: []string{"a", "b"}[i%2]})
			all = append(all, e)
		}
		sum := func(user string) (n int64) {
			for e, h := range held {
				if user == "" || e.query.User == user {
					n += h
				}
			}
			return n
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			e := all[rapid.IntRange(0, 3).Draw(rt, "entry")]
			n := rapid.Int64Range(-held[e], 40).Draw(rt, "bytes")
			if n < 0 {
				e.Give(-n)
				held[e] += n
				continue
			}
			err := e.Take(n)
			var limit *scan.LimitError
			var busy *BusyError
			switch own, of := sum(e.query.User)+n, sum("")+n; {
			case held[e]+n > 60:
				if !errors.As(err, &limit) {
					rt.Fatalf("%d held by one: %v", held[e]+n, err)
				}
			case n == 0:
				if err != nil {
					rt.Fatal(err)
				}
			case of > 100, of > held[e]+n && own > 7*(100-of): // an eighth is for others
				if !errors.As(err, &busy) {
					rt.Fatalf("%d held by a user, %d by all: %v", own, of, err)
				}
			case err != nil:
				rt.Fatal(err)
			default:
				held[e] += n
			}
			if got := l.Bytes(); got != sum("") {
				rt.Fatalf("%d bytes are charged, want %d", got, sum(""))
			}
			for _, e := range all {
				most[e] = max(most[e], held[e])
			}
		}
		for _, r := range l.Running() {
			if want := most[all[r.ID-1]]; r.Bytes != want {
				rt.Fatalf("query %d is said to have held %d bytes, want %d", r.ID, r.Bytes, want)
			}
		}
		for _, e := range all {
			e.End(nil)
		}
		if l.Bytes() != 0 {
			rt.Fatalf("%d bytes are left", l.Bytes())
		}
	})
}

func TestNilEntry(t *testing.T) {
	e := Of(t.Context())
	if e != nil || e.Take(1) != nil || e.Count(1, 1) != nil || e.Limits() != (scan.Limits{}) {
		t.Fatal("outside of a query nothing is counted")
	}
	e.Give(1)
	e.Uncount(1, 1)
	e.End(nil)
}

// TestUncount: what is taken off can be read again, and there is never less than nothing.
func TestUncount(t *testing.T) {
	l := New(Options{Limits: Limits{SeriesMax: 3, SamplesMax: 30}})
	_, e, err := l.Begin(t.Context(), Query{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.End(nil)
	e.Uncount(5, 5)
	for range 3 {
		if err := e.Count(2, 20); err != nil {
			t.Fatal(err)
		}
		e.Uncount(2, 20)
	}
	if err := e.Count(3, 30); err != nil || e.Count(1, 0) == nil || e.Count(0, 1) == nil {
		t.Fatal("the limits do not hold", err)
	}
}
