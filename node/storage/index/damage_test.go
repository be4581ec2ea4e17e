package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// change applies a function to the bytes of a file.
func change(t rapid.TB, fs vfs.FS, name string, f func(b []byte)) {
	t.Helper()
	file, err := fs.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := file.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	f(b)
	if _, err := file.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

// checkDamaged: every series is either as it was or unknown, lost ones are
// counted, and their ids are not given again.
func checkDamaged(t rapid.TB, x *Index, list []*modelSeries) (lost int) {
	t.Helper()
	if int(x.Len()) != len(list) {
		t.Fatalf("%d series, want %d", x.Len(), len(list))
	}
	found, err := x.Select(context.Background(), &scan.Selector{MetricAny: true}, AllDays(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	next := map[uint16]series.ID{}
	for local, s := range list {
		next[s.shard] = max(next[s.shard], s.id+1)
		ref, ok, err := x.Lookup(s.key())
		if err != nil {
			t.Fatal(err)
		}
		if _, seen := slices.BinarySearch(found, uint32(local)); seen != ok {
			t.Fatalf("series %d is known: %v, selected: %v", local, ok, seen)
		}
		key, err := x.KeyOf(s.shard, s.id, nil)
		if !ok {
			lost++
			if !errors.Is(err, ErrUnknown) {
				t.Fatalf("series %d is lost but has key %v, %v", local, key, err)
			}
			continue
		}
		if want := (series.Ref{Hint: uint32(local), Shard: s.shard, ID: s.id}); ref != want || err != nil || string(key) != string(s.key()) {
			t.Fatalf("series %d is %v %v %v, want %v", local, ref, key, err, want)
		}
	}
	for shard, id := range next {
		if x.ShardSeries(shard) != uint32(id) {
			t.Fatalf("shard %d has %d series, want %d", shard, x.ShardSeries(shard), id)
		}
	}
	if s := x.Stats(); s.SeriesLost != int64(lost) || (lost > 0) && s.Damages == 0 {
		t.Fatalf("%d series are lost, stats %+v", lost, s)
	}
	return lost
}

// TestDamage changes bytes anywhere in the key file: what was not touched stays.
func TestDamage(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMemFS()
	list := largeModel(4_000)
	x := openTest(t, fs, State{}, noDamage(t))
	createModel(t, x, list)
	state, err := x.Sync()
	if err != nil || state.Bytes <= blockBytes {
		t.Fatal(state.Bytes, err)
	}
	var touches [][2]int64 // where the records are
	for local := range uint32(len(list)) {
		at := x.keys.offset(local)
		touches = append(touches, [2]int64{at, at + recordKeyAt + int64(len(list[local].key()))})
	}
	rapid.Check(t, func(t *rapid.T) {
		crashed := fs.CrashClone(vfs.CrashOptions{})
		hit := map[int]bool{}
		change(t, crashed, "index/keys", func(b []byte) {
			for range rapid.IntRange(1, 5).Draw(t, "damages") {
				at := rapid.Int64Range(0, state.Bytes-1).Draw(t, "at")
				n := min(rapid.SampledFrom([]int64{1, 1, 2, 40, 5000, 100_000}).Draw(t, "length"), state.Bytes-at)
				fill := rapid.Byte().Draw(t, "fill")
				for i := at; i < at+n; i++ {
					if fill < 128 {
						b[i] ^= 1 << (fill % 8)
					} else {
						b[i] = fill - 128
					}
				}
				for local, span := range touches {
					if span[0] < at+n && span[1] > at {
						hit[local] = true
					}
				}
			}
		})
		told := 0
		y, err := Open(Options{FS: crashed, Dir: "index", State: state, Corrupt: func(error) { told++ }})
		if err != nil {
			t.Fatal(err)
		}
		defer y.Close()
		if lost := checkDamaged(t, y, list); lost > len(hit) {
			t.Fatalf("%d series lost, %d were touched", lost, len(hit))
		}
	})
}

// TestRecreateLost: a lost series may be created again under its id, and stays.
func TestRecreateLost(t *testing.T) {
	fs := vfs.NewMemFS()
	x := openTest(t, fs, State{}, noDamage(t))
	list := largeModel(50)
	createModel(t, x, list)
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	at := x.keys.offset(20)
	change(t, fs, "index/keys", func(b []byte) { b[at+recordKeyAt+1] ^= 1 })
	y := openTest(t, fs, state, nil)
	if lost := checkDamaged(t, y, list); lost != 1 {
		t.Fatalf("%d series are lost", lost)
	}
	for range 2 { // the second time it is a repetition
		local, err := y.Create(list[20].shard, list[20].id, list[20].key(), 680)
		if err != nil || local != 50 {
			t.Fatalf("create again: %d %v", local, err)
		}
	}
	if state, err = y.Sync(); err != nil || state.Count != 51 {
		t.Fatal(state, err)
	}
	z := openTest(t, fs, state, nil)
	if ref, ok, err := z.Lookup(list[20].key()); !ok || err != nil || ref != (series.Ref{Hint: 50, Shard: list[20].shard, ID: list[20].id}) {
		t.Errorf("after opening again: %v %v %v", ref, ok, err)
	}
}

// TestTwinRecords: of two whole records with one identity the first counts.
func TestTwinRecords(t *testing.T) {
	fs := vfs.NewMemFS()
	x := openTest(t, fs, State{}, noDamage(t))
	createModel(t, x, largeModel(3))
	a := benchKey(nil, 1, 10)
	x.keys.mu.Lock()
	for _, r := range []struct {
		shard uint16
		id    series.ID
		key   series.Key
	}{
		{90, 0, a}, {90, 1, a}, // one key twice
		{90, 0, benchKey(nil, 2, 10)},       // one id twice
		{90, 1 << 30, benchKey(nil, 3, 10)}, // an id that cannot be
	} {
		local, err := x.keys.appendLocked(r.shard, r.id, r.key)
		if err != nil {
			t.Fatal(err)
		}
		x.keys.publishLocked(local)
	}
	x.keys.mu.Unlock()
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	state.Next = append(state.Next, make([]uint32, 91-len(state.Next))...)
	state.Next[90] = 1
	y := openTest(t, fs, state, func(err error) {
		var damage *CorruptError
		if !errors.As(err, &damage) {
			t.Errorf("%v is no CorruptError", err)
		}
		told = append(told, err.Error())
	})
	if ref, ok, err := y.Lookup(a); !ok || err != nil || ref != (series.Ref{Hint: 3, Shard: 90, ID: 0}) {
		t.Errorf("the first twin: %v %v %v", ref, ok, err)
	}
	if len(told) != 3 || y.Stats().SeriesLost != 3 {
		t.Errorf("told %q, stats %+v", told, y.Stats())
	}
	got, err := y.Select(context.Background(), &scan.Selector{MetricAny: true}, AllDays(), 0, nil)
	if err != nil || len(got) != 3 { // those of appendLocked have no activity
		t.Errorf("selected %v %v", got, err)
	}
}

func TestHeader(t *testing.T) {
	fs := vfs.NewMemFS()
	x := openTest(t, fs, State{}, noDamage(t))
	list := largeModel(10)
	createModel(t, x, list)
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	broken := fs.CrashClone(vfs.CrashOptions{})
	change(t, broken, "index/keys", func(b []byte) { b[3] ^= 4 })
	told := 0
	if lost := checkDamaged(t, openTest(t, broken, state, func(error) { told++ }), list); lost != 0 || told != 1 {
		t.Errorf("%d series lost with the header, told %d times", lost, told)
	}
	if lost := checkDamaged(t, openTest(t, broken, state, noDamage(t)), list); lost != 0 {
		t.Errorf("the header was not written again")
	}
	change(t, fs, "index/keys", func(b []byte) {
		putKeyHeader(b)
		b[8] = 99
		copy(b[12:], sumBytes(b[:12]))
	})
	if _, err := Open(Options{FS: fs, Dir: "index", State: state}); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "99") {
		t.Errorf("another version: %v", err)
	}
	if err := fs.Remove("index/keys"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{FS: fs, Dir: "index", State: state}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no key file: %v", err)
	}
	for _, state := range []State{
		{Count: 1 << 30, Bytes: 100}, {Count: 1}, {Count: 1, Bytes: 100, Next: []uint32{1, 1}}, {Bytes: 100, Next: make([]uint32, 1<<16+1)},
	} {
		if _, err := Open(Options{FS: fs, Dir: "index", State: state}); err == nil {
			t.Errorf("an impossible state was taken: %d series, %d bytes", state.Count, state.Bytes)
		}
	}
}

// TestActivityDamaged: a month that cannot be read counts for all series, and days for those of
// their month.
func TestActivityDamaged(t *testing.T) {
	fs := vfs.NewMemFS()
	x := openTest(t, fs, State{}, noDamage(t))
	list := largeModel(5000)
	createModel(t, x, list)
	late := benchDay + 700
	for _, day := range []Day{late, late + 1} {
		x.MarkActive(day, 17)
		x.MarkActive(day, 18)
	}
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{daysFile(late.Month()), monthFile(late.Month())} {
		change(t, fs, path.Join("index", name), func(b []byte) { b[25] ^= 1 })
	}
	told := 0
	y := openTest(t, fs, state, func(error) { told++ })
	for local := range uint32(5000) {
		if !y.Active(late, local) || !y.Active(benchDay, local) || !y.activity.view(late.Month().Days()).has(local) {
			t.Fatalf("activity of series %d", local)
		}
	}
	if told != 2 {
		t.Errorf("told %d times", told)
	}
	y.DropMonthsBefore(late.Month())
	if state, err = y.Sync(); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("index")
	want := []string{monthFile(late.Month()), daysFile(late.Month()), keyFileName, offsetsFileName}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("files %v %v, want %v", names, err, want)
	}
	if z := openTest(t, fs, state, noDamage(t)); !z.Active(late, 4999) || z.Active(benchDay, 17) {
		t.Errorf("activity after dropping and opening again")
	}
}

// TestTruncatedFile: reading keys that another program cut off returns errors.
func TestTruncatedFile(t *testing.T) {
	dir := t.TempDir()
	x, err := Open(Options{FS: vfs.OS(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	list := largeModel(9000)
	createModel(t, x, list)
	if err := os.Truncate(filepath.Join(dir, keyFileName), 0); err != nil {
		t.Fatal(err)
	}
	var fault *vfs.FaultError
	if _, err := x.Key(5, nil); !errors.As(err, &fault) {
		t.Errorf("key: %v", err)
	}
	if _, _, err := x.Lookup(list[5].key()); !errors.As(err, &fault) {
		t.Errorf("lookup: %v", err)
	}
	if _, err := x.Create(list[5].shard, list[5].id, list[5].key(), benchDay); !errors.As(err, &fault) {
		t.Errorf("create of what exists: %v", err)
	}
	if _, err := x.Refs([]uint32{1, 2}, nil); !errors.As(err, &fault) {
		t.Errorf("refs: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

func sumBytes(b []byte) []byte {
	sum := make([]byte, 4)
	binary.LittleEndian.PutUint32(sum, crc32.Checksum(b, castagnoli))
	return sum
}

func TestFailpoints(t *testing.T) {
	for _, point := range Failpoints() {
		t.Run(point, func(t *testing.T) {
			set, err := failpoint.Parse(point+"=error@2", Failpoints())
			if err != nil {
				t.Fatal(err)
			}
			fs := vfs.NewMemFS()
			x, err := Open(Options{FS: fs, Dir: "index", Failpoints: set})
			if err != nil {
				t.Fatal(err)
			}
			list := largeModel(20)
			createModel(t, x, list)
			failures := 0
			var state State
			for round := range 4 {
				x.MarkActive(Month(600+round).Days().From, 3)
				x.DropMonthsBefore(Month(600 + round))
				for {
					if state, err = x.Sync(); err == nil {
						break
					}
					failures++
					if !errors.Is(err, failpoint.ErrHit) {
						t.Fatal(err)
					}
				}
			}
			if failures == 0 && set.Hits(point) > 1 {
				t.Errorf("%d hits and no failure", set.Hits(point))
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			y := openTest(t, fs.CrashClone(vfs.CrashOptions{}), state, noDamage(t))
			checkDamaged(t, y, list)
			if !y.Active(Month(603).Days().From, 3) || y.Active(Month(602).Days().From, 3) {
				t.Error("the marks are not those of the last Sync")
			}
		})
	}
}

func TestMonthOf(t *testing.T) {
	for _, c := range []struct {
		timeMs int64
		want   Month
	}{
		{0, 0}, {-1, 0}, {scan.TimeMsMin, 0}, {scan.TimeMsMax, MonthMax}, {1<<63 - 1, MonthMax}, {-1 << 63, 0},
		{31*86400_000 - 1, 0}, {31 * 86400_000, 1}, {951_782_400_000, 361} /* 2000-02-29 */, {951_868_800_000, 362},
	} {
		if got := MonthOf(c.timeMs); got != c.want {
			t.Errorf("month of %d is %d, want %d", c.timeMs, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		timeMs := rapid.Int64Range(0, 7_258_118_399_999).Draw(t, "time") // the end of 2199
		want := time.UnixMilli(timeMs).UTC().Format("2006-01")
		if got := MonthOf(timeMs).String(); got != want {
			t.Fatalf("%d is in %s, want %s", timeMs, got, want)
		}
		for _, prefix := range []string{monthPrefix, daysPrefix} {
			if m, ok := monthOfFile(prefix+want, prefix); !ok || m != MonthOf(timeMs) {
				t.Fatal(fmt.Sprint(m, ok))
			}
		}
		day := time.UnixMilli(timeMs).UTC().Format("2006-01-02")
		if d, ok := dayOfFile("day-" + day); !ok || d != DayOf(timeMs) || d.Month() != MonthOf(timeMs) {
			t.Fatal(fmt.Sprint(d, ok))
		}
		if of := MonthOf(timeMs).Days(); DayOf(timeMs) < of.From || DayOf(timeMs) > of.To || of.To.Month() != MonthOf(timeMs) || (of.To+1).Month() == MonthOf(timeMs) && of.To != DayMax {
			t.Fatal(timeMs, of)
		}
	})
}
