package auditor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fakeConfig is quick: the fake has no faults to wait for.
func fakeConfig() Config {
	config := DefaultConfig()
	config.WriteEvery, config.ReadEvery = time.Millisecond, time.Millisecond
	config.Writers, config.Series = 2, 4
	return config
}

// auditFake audits for some rounds, or until something is found.
func auditFake(t *testing.T, d defect, rounds int) (Report, error) {
	t.Helper()
	audit, err := Start(t.Context(), fakeConfig(), newFake(t, d))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for range rounds {
		if err := audit.Progress(ctx); err != nil {
			break
		}
		if err := audit.Check(ctx); err != nil {
			break
		}
	}
	return audit.Stop()
}

func TestHonestClusterPasses(t *testing.T) {
	report, err := auditFake(t, none, 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	if report.Samples == 0 || report.Deletes == 0 || report.Repeats == 0 || report.Queries == 0 || report.Checks != 2*20 ||
		report.Refusals == 0 || report.Unanswered == 0 || report.Compared == 0 {
		t.Fatalf("the audit did not do its work: %s", report)
	}
}

// Each defect has to be found.
func TestEveryDefectIsFound(t *testing.T) {
	for _, d := range []defect{
		dropAck, dropPart, dropDelete, staleRead, blindRouter, zombie, undelete, invent, inventSeries, moveTime, twice, exchange, cutAnswer, forgetKey,
	} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			report, err := auditFake(t, d, 400)
			if !errors.Is(err, ErrBroken) {
				t.Fatalf("not found: %v (%s)", err, report)
			}
			t.Log(err)
		})
	}
	t.Run(string(refuse), func(t *testing.T) {
		if report, err := auditFake(t, refuse, 400); !errors.Is(err, ErrRefused) {
			t.Fatalf("not found: %v (%s)", err, report)
		}
	})
}

// nobody is a target without a router.
type nobody struct{}

func (nobody) Routers() []string { return nil }

func TestStallIsTold(t *testing.T) {
	audit, err := Start(t.Context(), fakeConfig(), nobody{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := audit.Progress(ctx); !errors.Is(err, ErrStalled) {
		t.Fatal(err)
	}
	if err := audit.Check(ctx); !errors.Is(err, errNoRouter) {
		t.Fatal(err)
	}
	if _, err := audit.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{}, nobody{}); err == nil {
		t.Fatal("an empty configuration is taken")
	}
}

func TestValuesTellTheirOrigin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := origin{
			rapid.IntRange(0, writersMax-1).Draw(t, "writer"), rapid.IntRange(0, seriesMax-1).Draw(t, "series"),
			rapid.IntRange(0, indexMax-1).Draw(t, "index"), version(rapid.IntRange(1, versionsMax-1).Draw(t, "version")),
		}
		if got, ok := originOf(o.value()); !ok || got != o {
			t.Fatalf("%v gives %v, %v", o, got, ok)
		}
	})
	for _, value := range []float64{0, -1, 0.5, 1 << 48, 1 << 60, versionsMax} {
		if o, ok := originOf(value); ok {
			t.Errorf("%v is taken for %s", value, o)
		}
	}
}

// event is one step of a point's history, for a slow and obvious oracle.
type event struct {
	v     version
	acked bool
}

// What may be seen is the last acknowledged write, or any that was not acknowledged,
// and nothing else.
func TestModelAgainstHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &modelSeries{stepMs: 1, doubt: map[int][]version{}}
		s.grow(1)
		var history []event
		last := version(0)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			e := event{acked: rapid.Bool().Draw(t, "acked")}
			if rapid.Bool().Draw(t, "write") {
				e.v = s.send(0)
				if e.acked {
					s.acknowledge(0, e.v)
				}
			} else {
				s.sendDelete(0, 1)
				if e.acked {
					s.acknowledgeDelete(0, 1)
				}
			}
			if e.acked {
				last = e.v
			}
			history = append(history, e)
		}
		for v := version(0); v <= s.points[0].used; v++ {
			want := v == last || slices.ContainsFunc(history, func(e event) bool { return e.v == v && !e.acked })
			if got := s.may(0, v); got != want {
				t.Fatalf("after %+v version %d may be seen: %v, want %v", history, v, got, want)
			}
		}
	})
}

// A read that goes on while one client's requests come one after the other may see
// the state at any moment in between, and with it what is in doubt.
func TestBetweenAllowsEveryMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &modelSeries{stepMs: 1, doubt: map[int][]version{}}
		s.grow(1)
		step := func() {
			acked := rapid.Bool().Draw(t, "acked")
			if rapid.Bool().Draw(t, "write") {
				if v := s.send(0); acked {
					s.acknowledge(0, v)
				}
			} else if s.sendDelete(0, 1); acked {
				s.acknowledgeDelete(0, 1)
			}
		}
		for range rapid.IntRange(0, 10).Draw(t, "before") {
			step()
		}
		begin := s.clone(0, 1)
		allowed := map[version]bool{}
		note := func() {
			for v := version(0); v <= s.points[0].used; v++ {
				allowed[v] = allowed[v] || s.may(0, v)
			}
		}
		note()
		for range rapid.IntRange(0, 10).Draw(t, "during") {
			step()
			note()
		}
		end := s.clone(0, 1)
		for v := version(0); v <= s.points[0].used+1; v++ {
			got := between(&begin, &end, 0, v)
			if allowed[v] && !got {
				t.Fatalf("version %d was there at some moment, and is refused", v)
			}
			// A write that was over before the read began, and was replaced by an
			// acknowledged one, is never allowed.
			if !allowed[v] && got {
				t.Fatalf("version %d was there at no moment, and is allowed", v)
			}
		}
	})
}

func TestCompareDigests(t *testing.T) {
	same := []replicaDigest{{0, "n1", 7, []byte("a")}, {0, "n2", 7, []byte("a")}, {1, "n1", 3, []byte("b")}}
	if compared, waiting, err := compareDigests(same); compared != 1 || waiting != "" || err != nil {
		t.Fatal(compared, waiting, err)
	}
	behind := append(slices.Clone(same), replicaDigest{1, "n2", 2, []byte("c")})
	if _, waiting, err := compareDigests(behind); waiting == "" || err != nil {
		t.Fatal(waiting, err)
	}
	different := append(slices.Clone(same), replicaDigest{1, "n2", 3, []byte("c")})
	if _, _, err := compareDigests(different); !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
}
