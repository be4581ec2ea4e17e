package segment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func smallFile(t testing.TB) (model, []byte) {
	mem, dir := memFS(t)
	want := walkModel(2, 6, 20, testPartition(SpanDay), 400_000)
	meta := want.write(t, Options{FS: mem, Dir: dir, Partition: testPartition(SpanDay), BlockSamples: 8, Rollups: true, SequenceLow: 3, SequenceHigh: 4}, 100)
	return want, readFile(t, mem, path.Join(dir, meta.Name))
}

// Every single flipped bit is either without effect or an error for what it
// touches; what is read without an error is right.
func TestFlippedBits(t *testing.T) {
	want, file := smallFile(t)
	mem, dir := memFS(t)
	name := path.Join(dir, "x.seg")
	step := 1
	if testing.Short() {
		step = 7
	}
	damage := map[string]int{}
	rollups := intactRollups(t, file, want)
	for i := 0; i < len(file); i += step {
		flipped := append([]byte(nil), file...)
		flipped[i] ^= 1 << (i % 8)
		writeFile(t, mem, name, flipped)
		r, err := Open(mem, name)
		if err != nil {
			requireCorrupt(t, err)
			damage["file"]++
			continue
		}
		lost := readDamaged(t, r, want, rollups)
		if err := r.Verify(context.Background()); err == nil {
			t.Fatalf("Verify did not see the bit at %d of %d", i, len(file))
		} else {
			requireCorrupt(t, err)
		}
		damage[lost]++
		release(t, r)
	}
	for _, part := range []string{"file", "page directory", "index page", "rollup page", "block"} {
		if damage[part] == 0 {
			t.Errorf("no bit hit a %s: %v", part, damage)
		}
	}
}

// rollupsByWidth has the rollups of each series by hour and by day.
type rollupsByWidth map[int64]map[seriesKey][]Rollup

func intactRollups(t testing.TB, file []byte, want model) rollupsByWidth {
	mem, dir := memFS(t)
	writeFile(t, mem, path.Join(dir, "x.seg"), file)
	r := openSegment(t, mem, dir, &Meta{Name: "x.seg"})
	defer release(t, r)
	rollups := rollupsByWidth{HourMs: {}, DayMs: {}}
	for width, of := range rollups {
		for k, s := range want {
			var err error
			if of[k], err = r.Rollups(nil, k.shard, k.id, math.MinInt64, math.MaxInt64, width); err != nil {
				t.Fatal(err)
			}
			checkRollups(t, of[k], s, width)
		}
	}
	return rollups
}

func requireCorrupt(t testing.TB, err error) *CorruptError {
	t.Helper()
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) {
		t.Fatalf("not a corruption: %v", err)
	}
	return corrupt
}

// readDamaged reads all series and rollups of a segment with one damaged part,
// compares what comes without an error, and returns the part that was lost.
func readDamaged(t testing.TB, r *Reader, want model, wantRollups rollupsByWidth) (lost string) {
	t.Helper()
	blocksLost := 0
	for k, s := range want {
		var c Cursor
		if err := r.Find(&c, k.shard, k.id, math.MinInt64, math.MaxInt64); err != nil {
			lost = requireCorrupt(t, err).Part.String()
			continue
		}
		missing := maps.Clone(s)
		for c.Next() {
			points, err := pointsOf(&c)
			if err != nil {
				corrupt := requireCorrupt(t, err)
				if corrupt.Part != PartBlock || corrupt.ID != k.id || corrupt.Shard != k.shard {
					t.Fatalf("%+v for series %v", corrupt, k)
				}
				lost = "block"
				blocksLost++
				for at := range missing {
					if at >= c.Block().MinMs && at <= c.Block().MaxMs {
						delete(missing, at)
					}
				}
				continue
			}
			for at, v := range points {
				if got, ok := missing[at]; !ok || got != v {
					t.Fatalf("series %v: %d at %d was never written", k, v, at)
				}
				delete(missing, at)
			}
		}
		if c.Err() != nil {
			lost = requireCorrupt(t, c.Err()).Part.String()
		} else if len(missing) > 0 {
			t.Fatalf("series %v: %d samples are missing without an error", k, len(missing))
		}
		for width, of := range wantRollups {
			rollups, err := r.Rollups(nil, k.shard, k.id, math.MinInt64, math.MaxInt64, width)
			if err != nil {
				if lost == "" {
					lost = requireCorrupt(t, err).Part.String()
				}
				continue
			}
			if !slices.Equal(rollups, of[k]) {
				t.Fatalf("series %v: rollups %v instead of %v", k, rollups, of[k])
			}
		}
	}
	if blocksLost > 1 {
		t.Fatalf("one bit cost %d blocks", blocksLost)
	}
	return lost
}

func pointsOf(c *Cursor) (samples, error) {
	var points codec.Points
	if err := c.Points(&codec.BlockReader{}, &points); err != nil {
		return nil, err
	}
	got := samples{}
	for i, at := range points.Times {
		got[at] = math.Float64bits(points.Values[i])
	}
	return got, nil
}

// A merge stops at a damaged block and leaves nothing behind.
func TestMergeOfDamage(t *testing.T) {
	_, file := smallFile(t)
	mem, dir := memFS(t)
	file[headerBytes+10] ^= 1
	writeFile(t, mem, path.Join(dir, "x.seg"), file)
	r, err := Open(mem, path.Join(dir, "x.seg"))
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, r)
	_, err = Merge(context.Background(), []*Reader{r}, MergeOptions{Options: Options{FS: mem, Dir: dir, Partition: testPartition(SpanDay), Level: 1}})
	if requireCorrupt(t, err).Part != PartBlock {
		t.Fatal(err)
	}
	if names, _ := mem.List(dir); len(names) != 1 {
		t.Fatalf("left behind: %v", names)
	}
}

// A file that is cut while it is mapped makes errors, not a crash.
func TestFileCutWhileMapped(t *testing.T) {
	dir := t.TempDir()
	big := walkModel(1, 400, 64, testPartition(SpanDay), 1000)
	meta := big.write(t, Options{FS: vfs.OS(), Dir: dir, Partition: testPartition(SpanDay), BlockSamples: 8}, 100)
	r := openSegment(t, vfs.OS(), dir, &meta)
	defer release(t, r)
	f, err := vfs.OS().OpenReadWrite(path.Join(dir, meta.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(8192); err != nil {
		t.Fatal(err)
	}
	_, err = readModel(r)
	var fault *vfs.FaultError
	if !errors.As(err, &fault) {
		t.Fatalf("%v", err)
	}
}

// At every step of Finish a power cut leaves the whole segment under its final
// name or nothing of it; a failing disk leaves no file.
func TestPowerCutDuringFinish(t *testing.T) {
	want := walkModel(2, 40, 30, testPartition(SpanDay), 1000)
	for seed := range uint64(40) {
		mem, dir := memFS(t)
		random := rand.New(rand.NewPCG(seed, 0))
		var crashed []*vfs.MemFS
		fs := vfs.Faults(mem, func(op vfs.Op) error {
			crashed = append(crashed, mem.CrashClone(vfs.CrashOptions{Seed: random.Uint64(), BlockPercent: random.IntN(101), NamePercent: random.IntN(101)}))
			return nil
		})
		meta := want.write(t, Options{FS: fs, Dir: dir, Partition: testPartition(SpanDay), BlockSamples: 8}, 100)
		if len(crashed) < 5 {
			t.Fatalf("only %d operations", len(crashed))
		}
		for _, c := range crashed {
			names, err := c.List(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if strings.HasSuffix(name, TemporarySuffix) {
					continue
				}
				requireWhole(t, c, path.Join(dir, name), want)
			}
		}
		final := mem.CrashClone(vfs.CrashOptions{Seed: seed})
		requireWhole(t, final, path.Join(dir, meta.Name), want)
	}
}

func requireWhole(t testing.TB, fs vfs.FS, name string, want model) {
	t.Helper()
	r, err := Open(fs, name)
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, r)
	got, err := readModel(r)
	if err != nil {
		t.Fatal(err)
	}
	equalModels(t, got, want)
}

func TestFailingDisk(t *testing.T) {
	m := walkModel(2, 40, 30, testPartition(SpanDay), 1000)
	broken := errors.New("the disk says no")
	for failing := 0; ; failing++ {
		mem, dir := memFS(t)
		n := 0
		fs := vfs.Faults(mem, func(op vfs.Op) error {
			if n++; n-1 == failing {
				return broken
			}
			return nil
		})
		err := tryWrite(m, Options{FS: fs, Dir: dir, Partition: testPartition(SpanDay), BlockSamples: 8})
		if n <= failing {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, broken) && err != nil {
			t.Fatalf("operation %d: %v", failing, err)
		}
		names, _ := mem.List(dir)
		if err != nil && len(names) != 0 {
			t.Fatalf("operation %d: left behind %v", failing, names)
		}
	}
}

func tryWrite(m model, o Options) error {
	w, err := Create(o)
	if err != nil {
		return err
	}
	for _, k := range m.keys() {
		if err := w.Add(k.shard, k.id, m[k].columns(math.MinInt64, math.MaxInt64)); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	if _, err := w.Finish(); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}
