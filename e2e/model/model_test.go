package model

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestValuesSurviveTextAndDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := valueOf(rapid.Uint64().Draw(t, "series"), rapid.IntRange(0, 1<<20).Draw(t, "index"), version(rapid.Uint32Range(1, 1000).Draw(t, "version")))
		parsed, err := strconv.ParseFloat(string(appendValue(nil, value)), 64)
		if err != nil || math.Float64bits(parsed) != math.Float64bits(value) || math.IsNaN(value) || math.IsInf(value, 0) {
			t.Fatalf("%v is read back as %v (%v)", value, parsed, err)
		}
	})
	seen := map[uint64]bool{}
	for index := range 1000 {
		for v := version(1); v < 50; v++ {
			bits := math.Float64bits(valueOf(2, index, v))
			if seen[bits] {
				t.Fatalf("index %d, version %d: a value that another write has", index, v)
			}
			seen[bits] = true
		}
	}
}

func TestOperationsAreFunctionsOfTheSeed(t *testing.T) {
	draw := func(one bool) (text string, kinds [5]int) {
		config := Config{Seed: 1, Metric: "m", Writers: 1, Series: 4, RowsMax: 4}
		if one {
			config.SeriesMax, config.Aged, config.ServerEnds = 8, 2, true
		}
		w := New(config, 1_700_000_000_000).Writers[0]
		random := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			op := w.Draw(random)
			text += string(w.Lines(&op))
			kinds[0] += op.deleted()
			kinds[1] += oneIf(op.aged)
			kinds[2] += oneIf(slices.ContainsFunc(op.writes, func(x write) bool { return op.times(x.series, x.index) > 1 }))
			if random.IntN(3) > 0 {
				w.Acknowledge(&op)
			}
		}
		kinds[3], kinds[4] = len(w.mu.series), w.mu.head
		return text, kinds
	}
	for _, one := range []bool{false, true} {
		text, kinds := draw(one)
		if again, _ := draw(one); again != text {
			t.Fatal("the same seed draws other operations")
		}
		for kind, count := range kinds {
			if count == 0 && (kind != 1 || one) {
				t.Errorf("one server %v: no operation of kind %d among 500: %v", one, kind, kinds)
			}
		}
	}
}

func (o *Operation) deleted() int { return oneIf(o.Deletes()) }

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// event is one step of a point's history, for a slow and obvious oracle.
type event struct {
	v     version
	acked bool
}

// What may be seen is the last acknowledged write, or any that was not acknowledged, and
// nothing else; of one server only those that came after it.
func TestModelAgainstHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &series{stepMs: 1, doubt: map[int][]version{}, serverEnds: rapid.Bool().Draw(t, "one server")}
		s.grow(1)
		var history []event
		last, lastAt := version(0), -1
		for at := range rapid.IntRange(1, 20).Draw(t, "steps") {
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
				last, lastAt = e.v, at
			}
			history = append(history, e)
		}
		if s.serverEnds {
			history = history[lastAt+1:]
		}
		for v := version(0); v <= s.points[0].used; v++ {
			want := v == last || slices.ContainsFunc(history, func(e event) bool { return e.v == v && !e.acked })
			if got := s.may(0, v); got != want {
				t.Fatalf("after %+v version %d may be seen: %v, want %v", history, v, got, want)
			}
		}
	})
}

// What a check of one server has seen is binding: a write in doubt that it has not seen may not
// come later.
func TestChecksBind(t *testing.T) {
	for _, one := range []bool{false, true} {
		w := New(Config{Seed: 1, Metric: "m", Writers: 1, Series: 2, RowsMax: 1, ServerEnds: one}, 0).Writers[0]
		s := w.mu.series[0]
		first := s.send(0)
		s.acknowledge(0, first)
		answer := func(v version) []AnswerSeries {
			return []AnswerSeries{{Metric: "m", Tags: map[string]string{"client": "0", "series": "s0"}, DPS: [][2]float64{{0, s.value(0, v)}}}}
		}
		second := s.send(0) // never answered
		if _, err := w.CompareAll(answer(first)); err != nil {
			t.Fatal(err)
		}
		_, err := w.CompareAll(answer(second))
		if one != errors.Is(err, ErrBroken) {
			t.Fatalf("one server %v: %v", one, err)
		}
		if _, err := w.CompareAll(nil); !errors.Is(err, ErrBroken) {
			t.Fatal("an acknowledged write may be missing")
		}
		if w.mu.cutMs = 1; !one {
			continue
		}
		if _, err := w.CompareAll(nil); err != nil {
			t.Fatalf("a retention has cut it: %v", err)
		}
	}
}

// A read that goes on while one client's requests come one after the other may see
// the state at any moment in between, and with it what is in doubt.
func TestBetweenAllowsEveryMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &series{stepMs: 1, doubt: map[int][]version{}}
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
