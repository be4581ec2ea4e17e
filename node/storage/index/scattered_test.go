package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// fileCount returns how many files of marks there are.
func fileCount(t *testing.T, fs vfs.FS) (n int) {
	t.Helper()
	names, err := fs.List("index")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != keyFileName {
			n++
		}
	}
	return n
}

// TestScatteredDaysAreFewFiles: a writer that scatters times over 55 years makes two files for
// each month, and none for each day.
func TestScatteredDaysAreFewFiles(t *testing.T) {
	const days = 20_000
	fs := vfs.NewMemFS()
	x := openTest(t, fs, State{}, noDamage(t))
	createModel(t, x, largeModel(100))
	for day := range Day(days) {
		x.MarkActive(day, uint32(day)%100)
	}
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	months := int(Day(days-1).Month()) + 2 // that of benchDay, too
	if n := fileCount(t, fs); n > 2*months {
		t.Errorf("%d files of marks for %d months", n, months)
	}
	y := openTest(t, fs, state, noDamage(t))
	for day := range Day(days) {
		for local := range uint32(100) {
			if y.Active(day, local) != (local == uint32(day)%100) {
				t.Fatalf("series %d on %s is %v", local, day, y.Active(day, local))
			}
		}
	}
}

// TestDaysAreBounded: marks of more days than fit make the earliest months coarse, and no
// series is missed, before and after a start.
func TestDaysAreBounded(t *testing.T) {
	const bound, days, list = 200_000, 3000, 500
	fs := vfs.NewMemFS()
	open := func(state State) *Index {
		x, err := Open(Options{FS: fs, Dir: "index", State: state, daysBytesMax: bound, Corrupt: noDamage(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { x.Close() })
		return x
	}
	x := open(State{})
	createModel(t, x, largeModel(list))
	marked := func(day Day, local uint32) bool { return (uint32(day)*7919+local*31)%97 == 0 }
	for day := range Day(days) {
		for local := range uint32(list) {
			if marked(day, local) {
				x.MarkActive(day, local)
			}
		}
		x.activity.mu.Lock()
		bytes := x.activity.daysBytes
		x.activity.mu.Unlock()
		if bytes > bound {
			t.Fatalf("marks of days take %d bytes, %d are allowed", bytes, bound)
		}
	}
	check := func(x *Index) {
		t.Helper()
		s := x.Stats()
		if s.MonthsCoarse == 0 || s.MonthsCoarse == s.Months {
			t.Errorf("%d of %d months are coarse", s.MonthsCoarse, s.Months)
		}
		for day := range Day(days) {
			coarse := x.activity.find(day).coarse()
			for local := range uint32(list) {
				if got, want := x.Active(day, local), marked(day, local); want && !got || got && !want && !coarse {
					t.Fatalf("series %d on %s is %v, coarse %v", local, day, got, coarse)
				}
			}
		}
		if x.activity.find(days - 1).coarse() {
			t.Error("the latest month is coarse, not the earliest")
		}
	}
	check(x)
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	check(x)
	check(open(state))
}

// TestCoarseMonthsWhileRead: a reader finds what is marked while months become coarse, and
// nobody waits.
func TestCoarseMonthsWhileRead(t *testing.T) {
	x, err := Open(Options{FS: vfs.NewMemFS(), Dir: "index", daysBytesMax: 3000, Corrupt: noDamage(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	createModel(t, x, largeModel(64))
	var readers, writers sync.WaitGroup
	done := make(chan struct{})
	for day := range Day(4) {
		x.MarkActive(day, 63)
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if found, err := x.Select(context.Background(), &scan.Selector{MetricAny: true}, Days{day, day}, 0, nil); err != nil || !slices.Contains(found, 63) {
					t.Errorf("series 63 is not found on %s: %v, %v", day, found, err)
					return
				}
			}
		})
	}
	for w := range uint32(2) {
		writers.Go(func() {
			for day := range Day(2000) {
				x.MarkActive(day, w)
				if !x.Active(day, w) {
					t.Errorf("series %d is not active on %s", w, day)
				}
				if day%500 == 0 {
					if _, err := x.Sync(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

// dailyFolder opens a folder that was written by a program that kept a file for each day.
func dailyFolder(t *testing.T) (*vfs.MemFS, State) {
	t.Helper()
	return keptFolder(t, "testdata/daily")
}

// keptFolder copies a folder that an earlier program has written, and its state.
func keptFolder(t *testing.T, dir string) (*vfs.MemFS, State) {
	t.Helper()
	text, err := os.ReadFile(dir + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var state State
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMemFS()
	if err := fs.MkdirAll("index"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		b, err := os.ReadFile(dir + "/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create("index/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt(b, 0)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.SyncDir("index"); err != nil {
		t.Fatal(err)
	}
	return fs, state
}

func checkDaily(t *testing.T, x *Index, coarse ...Month) {
	t.Helper()
	for local := range uint32(300) {
		for day, want := range map[Day]bool{
			20_700: true, 20_701: local%2 == 0, 20_702: false, 20_730: local%100 == 7, 0: local == 299, 1: false, DayMax: local == 1, DayMax - 1: false,
		} {
			if got := x.Active(day, local); got != want && (want || !slices.Contains(coarse, day.Month())) {
				t.Fatalf("series %d on %s is %v", local, day, got)
			}
		}
	}
}

// TestFolderOfDailyFiles: the marks of a folder with a file for each day are read, and come into
// files of months, whenever the power goes.
func TestFolderOfDailyFiles(t *testing.T) {
	fs, state := dailyFolder(t)
	checkDaily(t, openTest(t, fs, state, noDamage(t)))
	coarse := state
	coarse.Days = &DaysState{Coarse: []Month{Day(20_701).Month()}}
	x := openTest(t, fs, coarse, noDamage(t))
	if checkDaily(t, x, Day(20_701).Month()); !x.Active(20_701, 1) {
		t.Error("a month that was coarse is not")
	}

	for seed := range uint64(40) {
		fs, state := dailyFolder(t)
		point := []string{PointActivityFile, PointActivityDrops}[seed%2]
		set, err := failpoint.Parse(fmt.Sprintf("%s=error@%d", point, 1+seed/2), Failpoints())
		if err != nil {
			t.Fatal(err)
		}
		x, err := Open(Options{FS: fs, Dir: "index", State: state, Failpoints: set, Corrupt: noDamage(t)})
		if err != nil {
			t.Fatal(err)
		}
		after, err := x.Sync()
		if err != nil {
			after = state
		}
		x.Close()
		cut := fs.CrashClone(vfs.CrashOptions{Seed: seed, NamePercent: 50, BlockPercent: 50, ReorderNames: true})
		for _, from := range []State{state, after} { // its manifest may have come out or not
			y := openTest(t, cut, from, noDamage(t))
			checkDaily(t, y)
			if from, err = y.Sync(); err != nil {
				t.Fatal(err)
			}
			z := openTest(t, cut, from, noDamage(t))
			checkDaily(t, z)
			if from, err = z.Sync(); err != nil {
				t.Fatal(err)
			}
			checkDaily(t, openTest(t, cut, from, noDamage(t)))
		}
		names, err := cut.List("index")
		if err != nil || slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(name, dayPrefix) || strings.HasPrefix(name, activityNew)
		}) {
			t.Errorf("files %v, %v", names, err)
		}
	}
}

// TestFolderWithoutMarksOfDays: what a program leaves that keeps none makes months coarse, and
// what another has left there does not count.
func TestFolderWithoutMarksOfDays(t *testing.T) {
	fs := vfs.NewMemFS()
	x := openTest(t, fs, State{}, noDamage(t))
	createModel(t, x, largeModel(10))
	x.MarkActive(benchDay+1, 3)
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	state.DaysByMonth = false
	fs2 := fs.CrashClone(vfs.CrashOptions{})
	if err := fs2.Remove(path.Join("index", daysFile(benchDay.Month()))); err != nil {
		t.Fatal(err)
	}
	for _, fs := range []*vfs.MemFS{fs, fs2} {
		y := openTest(t, fs, state, noDamage(t))
		if !y.Active(benchDay+1, 5) {
			t.Error("a day is known that may have samples without marks")
		}
		again, err := y.Sync()
		if err != nil || again.DaysByMonth {
			t.Fatal(again, err)
		}
		y.MarkDaysComplete()
		if again, err = y.Sync(); err != nil || !again.DaysByMonth {
			t.Fatal(again, err)
		}
		if z := openTest(t, fs, again, noDamage(t)); !z.Active(benchDay+1, 5) || z.Active(benchDay+60, 5) {
			t.Error("the month is not coarse, or others are")
		}
	}
}
