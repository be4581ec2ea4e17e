package crash

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fakeConfig is small: the fake is slow but ends at once.
func fakeConfig(t *testing.T) Config {
	config := DefaultConfig()
	config.Log = t.Output()
	config.Kills = 6
	config.Writers = 4
	config.CycleMax = 120 * time.Millisecond
	config.ChapterCycles = 4
	return config
}

func TestHonestServerPasses(t *testing.T) {
	report, err := Run(t.Context(), fakeConfig(t), newFake(none))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	if report.Kills < 6 || report.Acknowledged == 0 || report.Checked == 0 || report.Chapters < 2 {
		t.Fatalf("the run did not do its work: %s", report)
	}
}

// Each defect has to be found by the tester, and as what it is.
func TestEveryDefectIsFound(t *testing.T) {
	for _, defect := range []defect{loseLast, loseOverwrites, undelete, invent, inventSeries, inventTime, flipBit, twice, swap} {
		t.Run(string(defect), func(t *testing.T) {
			t.Parallel()
			config := fakeConfig(t)
			config.Kills = 40 // a defect needs something to work on: on a busy machine, longer lives
			report, err := Run(t.Context(), config, newFake(defect))
			for err == nil && config.CycleMax < time.Minute {
				config.CycleMax *= 2
				report, err = Run(t.Context(), config, newFake(defect))
			}
			if !errors.Is(err, ErrBroken) {
				t.Fatalf("not found: %v (%s)", err, report)
			}
			t.Log(err)
		})
	}
}

func TestContextEndsARun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, fakeConfig(t), newFake(none)); err == nil {
		t.Fatal("a run whose context has ended passes")
	}
}

func TestValuesSurviveTextAndDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, series := rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "series")
		index, v := rapid.IntRange(0, 1<<20).Draw(t, "index"), version(rapid.Uint32Range(1, 1000).Draw(t, "version"))
		value := valueOf(seed, series, index, v)
		parsed, err := strconv.ParseFloat(string(appendValue(nil, value)), 64)
		if err != nil || math.Float64bits(parsed) != math.Float64bits(value) || math.IsNaN(value) || math.IsInf(value, 0) {
			t.Fatalf("%v is read back as %v (%v)", value, parsed, err)
		}
	})
	seen := map[uint64]bool{}
	for index := range 1000 {
		for v := version(1); v < 50; v++ {
			bits := math.Float64bits(valueOf(1, 2, index, v))
			if seen[bits] {
				t.Fatalf("index %d, version %d: a value that another write has", index, v)
			}
			seen[bits] = true
		}
	}
}

// The oracle keeps, for one point, the set of what a check may see, by the rule
// alone: an acknowledged write excludes all before it.
func TestModelAgainstSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &modelSeries{firstMs: 0, stepMs: 1, open: map[int][]version{}}
		s.grow(1)
		type sent struct {
			v     version
			acked bool
		}
		var history []sent
		var waiting []int // of history, in order
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				history = append(history, sent{v: s.send(0)})
				waiting = append(waiting, len(history)-1)
			case 1:
				if s.points[0].used > 0 {
					s.sendDelete(0, 1)
					history = append(history, sent{})
					waiting = append(waiting, len(history)-1)
				}
			case 2:
				if len(waiting) > 0 {
					history[waiting[0]].acked = true
					s.acknowledge(0, history[waiting[0]].v)
					waiting = waiting[1:]
				}
			}
		}
		allowed := map[version]bool{0: true}
		for _, step := range history {
			if step.acked {
				clear(allowed)
			}
			allowed[step.v] = true
		}
		for v := version(0); v <= s.points[0].used; v++ {
			if s.may(0, v) != allowed[v] {
				t.Fatalf("after %+v version %d may be seen: %v, want %v", history, v, s.may(0, v), allowed[v])
			}
		}
	})
}

func TestOperationsAreFunctionsOfTheSeed(t *testing.T) {
	config := DefaultConfig()
	draw := func() (kinds [3]int, last float64) {
		c := newChapter(&config, 0, 1_700_000_000_000)
		random := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			op := drawOperation(&config, c, c.writers[0], random, 0)
			switch {
			case op.deletion != nil:
				kinds[0]++
			case !op.empty() && op.writes[0].series.aged:
				kinds[1]++
			default:
				kinds[2]++
			}
			for _, write := range op.writes {
				last = c.value(write.series, write.index, write.v)
			}
		}
		return kinds, last
	}
	kinds, last := draw()
	if again, lastAgain := draw(); again != kinds || lastAgain != last {
		t.Fatal("the same seed draws other operations")
	}
	for kind, count := range kinds {
		if count == 0 {
			t.Fatalf("no operation of kind %d among 500: %v", kind, kinds)
		}
	}
}
