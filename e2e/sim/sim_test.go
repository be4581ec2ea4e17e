package sim

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedsFlag   = flag.Uint64("sim.seeds", 0, "seeds to run; 0: as many as fit into a test run")
	startFlag   = flag.Uint64("sim.start", 1, "first seed")
	freshFlag   = flag.Uint64("sim.fresh", 0, "first seed of TestUnseenSeeds; 0: the clock's")
	variantFlag = flag.String("sim.variant", "Sound", "variant that TestSeeds plays; see variant.go")
	mixFlag     = flag.String("sim.mix", "draw", "options of a seed: draw, power, fresh, forget, or the name of a variant for the trouble that shows it; and +always or +kill")
)

// workers is how many seeds are run at once. Each is a world of its own.
const workers = 2

// freshStart returns the first of the seeds that no run has played before: those of the
// clock, printed, so that a failure can be played again by -sim.start.
func freshStart(t *testing.T) uint64 {
	start := *freshFlag
	if start == 0 {
		start = uint64(time.Now().UnixMilli())
	}
	t.Logf("fresh seeds from %d on", start)
	return start
}

// seedCount is how many seeds a test runs.
func seedCount(most uint64) uint64 {
	switch {
	case *seedsFlag > 0:
		return *seedsFlag
	case testing.Short():
		return most / 20
	}
	return most
}

// variantOf returns the variant with a name.
func variantOf(name string) (Variant, error) {
	var names []string
	for v := Sound; v < variants; v++ {
		if v.String() == name {
			return v, nil
		}
		names = append(names, v.String())
	}
	return Sound, fmt.Errorf("no variant %q; there are %s", name, strings.Join(names, ", "))
}

// optionsOf returns the options of a seed in a mix, which "+always" and "+kill" make stricter.
func optionsOf(mix string, seed uint64) (o Options, err error) {
	name, more, added := strings.Cut(mix, "+")
	switch name {
	case "draw":
		o = Draw(seed)
	case "power":
		o = DrawPower(seed)
	case "fresh":
		o = DrawFresh(seed)
	case "forget":
		o = DrawForget(seed)
	default:
		v, err := variantOf(name)
		if err != nil {
			return Options{}, fmt.Errorf("no mix %q; there are draw, power, fresh, forget, and those of variants: %w", name, err)
		}
		o = DrawFor(v, seed)
	}
	switch {
	case !added:
	case more == "always":
		o.Always = true
	case more == "kill":
		o.Faults |= faultsOf(FaultKill)
	default:
		return Options{}, fmt.Errorf("mix %q: a mix may end in +always or +kill", mix)
	}
	return o, nil
}

// replay returns the command that plays a seed of a mix again.
func replay(mix string, o Options) string {
	command := fmt.Sprintf("go test ./e2e/sim -run TestSeeds -sim.start %d -sim.seeds 1 -sim.mix %s", o.Seed, mix)
	if o.Variant != Sound {
		command += " -sim.variant " + o.Variant.String()
	}
	return command
}

// report reports how to see a failure again, and what led to it.
func report(t *testing.T, mix string, o Options, err error) {
	t.Helper()
	small := Shrink(o)
	small.Trace = 60
	r := Run(small)
	t.Errorf("seed %d: %v\nagain: %s\n"+
		"%+v\nfaults: %v\nleast that fails so: %+v\nfaults: %v\n%v\nlast events:\n%s",
		o.Seed, err, replay(mix, o), o, o.Faults, small, small.Faults, r.Err, strings.Join(r.Trace, "\n"))
}

// runSeeds runs seeds of a mix, a few at a time.
func runSeeds(t *testing.T, mix string, start, count uint64) (total Stats) {
	t.Helper()
	variant, err := variantOf(*variantFlag)
	if err != nil {
		t.Fatal("-sim.variant: ", err)
	}
	var next atomic.Uint64
	next.Store(start)
	var mu sync.Mutex
	var all sync.WaitGroup
	failures := 0
	for range workers {
		all.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= start+count {
					return
				}
				o, err := optionsOf(mix, seed)
				if err != nil {
					t.Error(err)
					return
				}
				o.Variant = variant
				r := Run(o)
				mu.Lock()
				total.add(&r.Stats)
				failures += oneIf(r.Err != nil)
				first := failures <= 3 // shrinking takes a while
				mu.Unlock()
				if r.Err != nil && first {
					report(t, mix, o, r.Err)
				}
			}
		})
	}
	all.Wait()
	if failures > 0 {
		t.Errorf("%d of %d seeds fail", failures, count)
	}
	return total
}

func TestSeeds(t *testing.T) {
	count := seedCount(500)
	total := runSeeds(t, *mixFlag, *startFlag, count)
	t.Logf("%d seeds: %+v", count, total)
	if count >= 100 && (total.Writes < int(count) || total.Reads < int(count) || total.Installs == 0 || total.Epochs == 0) {
		t.Fatal("hardly anything happened")
	}
	if uint64(total.Stranded) > 2+count/500 {
		t.Fatalf("%d groups are stranded", total.Stranded)
	}
}

// Groups lose their majority for good, and go on by themselves from what is left.
func TestPowerSeeds(t *testing.T) {
	count := seedCount(300)
	total := runSeeds(t, "power", 1, count)
	t.Logf("%d seeds: %+v", count, total)
	if count >= 20 && total.Eras == 0 || total.Stranded > 0 {
		t.Fatalf("%d groups began an era, %d are stranded", total.Eras, total.Stranded)
	}
}

// TestFreshSeeds plays trouble of the first second of clusters.
func TestFreshSeeds(t *testing.T) {
	count := seedCount(200)
	t.Logf("%d seeds: %+v", count, runSeeds(t, "fresh", 1, count))
}

// TestForgetSeeds has series forgotten, and written again.
func TestForgetSeeds(t *testing.T) {
	count := seedCount(120)
	total := runSeeds(t, "forget", 1, count)
	t.Logf("%d seeds: %+v", count, total)
	if count >= 20 && (total.Forgotten == 0 || total.Refused == 0) {
		t.Fatal("hardly anything was forgotten")
	}
}

// Each run plays seeds that no run has played before, of every mix.
func TestUnseenSeeds(t *testing.T) {
	start := freshStart(t)
	for _, mix := range [...]string{"draw", "power", "fresh", "forget"} {
		runSeeds(t, mix, start, seedCount(100))
	}
}

// What shows a variant is the roughest trouble for the sound cluster, too.
func TestRoughSeeds(t *testing.T) {
	played := map[Options]bool{Draw(1): true} // several variants share a mix
	for v := Sound + 1; v < variants; v++ {
		if o := DrawFor(v, 1); !played[o] {
			played[o] = true
			runSeeds(t, v.String(), 1000, seedCount(10))
		}
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	for seed := range uint64(20) {
		o := Draw(seed)
		if seed%2 == 1 {
			o = DrawPower(seed)
		}
		a, b := Run(o), Run(o)
		if a.Hash != b.Hash || a.Stats != b.Stats {
			t.Fatalf("%s: %x %+v and %x %+v", replay([]string{"draw", "power"}[seed%2], o), a.Hash, a.Stats, b.Hash, b.Stats)
		}
		if c := Run(Draw(seed + 100)); c.Hash == a.Hash {
			t.Fatalf("seeds %d and %d have one trace", seed, seed+100)
		}
	}
}

// variantSeeds is in how many seeds each variant has to show: more than six times as many as the
// rarest, RaftIDTwice, needs on average.
const variantSeeds = 2000

// shownBy is the seed that shows a variant, where that is not among the first.
// Histories change with the code, and then a later one does.
var shownBy = map[Variant]uint64{
	ReadUnconfirmed: 84, RaftIDTwice: 260, BatchIDsInMemory: 95, DropOnMap: 58, EpochsGoBack: 8, DeleteWithoutID: 82,
	ReadBeforeApplied: 68, EraIgnored: 41, StatesNotHeld: 37, EpochUntold: 27, StatesNotSynced: 18, EpochNotDrained: 57,
	CheckpointAheadOfLog: 41, TrimToCheckpoint: 6, SwapNotDrained: 62, SwapUnprepared: 17, FilesBeforeLog: 6, DropUndrained: 22,
}

func TestVariantsAreCaught(t *testing.T) {
	for v := Sound + 1; v < variants; v++ {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			start := max(shownBy[v], 1)
			for seed := start; seed < start+variantSeeds; seed++ {
				sound := DrawFor(v, seed)
				o := sound
				o.Variant = v
				var violation *Violation
				if !errors.As(Run(o).Err, &violation) {
					continue
				}
				t.Logf("seed %d: %v\nagain: %s", seed, violation, replay(v.String(), o))
				if err := Run(sound).Err; err != nil {
					t.Error("the sound cluster fails, too")
					report(t, v.String(), sound, err)
				}
				return
			}
			t.Fatalf("not caught in %d seeds", variantSeeds)
		})
	}
}

// Seeds that found bugs, each in a line: mix, seed, what it was.
//
//go:embed testdata/seeds.txt
var foundBugs string

func TestFoundBugs(t *testing.T) {
	for line := range strings.Lines(foundBugs) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		seed, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		o, err := optionsOf(fields[0], seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := Run(o).Err; err != nil {
			report(t, fields[0], o, err)
		}
	}
}
