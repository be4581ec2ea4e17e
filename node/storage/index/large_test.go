package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func openTest(t testing.TB, fs vfs.FS, state State, corrupt func(error)) *Index {
	t.Helper()
	x, err := Open(Options{FS: fs, Dir: "index", State: state, Corrupt: corrupt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return x
}

func noDamage(t testing.TB) func(error) {
	return func(err error) { t.Errorf("damage: %v", err) }
}

// largeModel makes series in the shapes that postings have: dense and sparse
// values, runs, several metrics in turns.
func largeModel(count int) []*modelSeries {
	random := rand.New(rand.NewPCG(7, 7))
	next := map[uint16]series.ID{}
	list := make([]*modelSeries, count)
	for i := range list {
		s := &modelSeries{metric: "m", tags: map[string]string{}, months: map[Month]bool{}, days: map[Day]bool{}}
		s.mark(benchDay)
		if i%7 == 3 {
			s.metric = fmt.Sprintf("n%d", i%3)
		}
		s.tags["device"] = fmt.Sprintf("d_%d", i/5)
		s.tags["_field"] = fmt.Sprintf("s_%d", i%5)
		s.tags["half"] = fmt.Sprint(random.IntN(2))
		s.tags["run"] = fmt.Sprint(i / 3000)
		if random.IntN(100) == 0 {
			s.tags["rare"] = fmt.Sprint(random.IntN(3))
		}
		s.tags["row"] = strings.Repeat("x", i%40)
		s.shard = s.key().Shard(16)
		s.id = next[s.shard]
		next[s.shard]++
		list[i] = s
	}
	return list
}

func createModel(t testing.TB, x *Index, list []*modelSeries) {
	for i, s := range list {
		if local, err := x.Create(s.shard, s.id, s.key(), benchDay); err != nil || local != uint32(i) {
			t.Fatalf("create %d: %d %v", i, local, err)
		}
	}
}

func checkQueries(t *testing.T, x *Index, list []*modelSeries) {
	one := func(name string, kind scan.MatchKind, values ...string) scan.Matcher {
		return scan.Matcher{Name: name, Kind: kind, Values: values}
	}
	for _, matchers := range [][]scan.Matcher{
		nil,
		{one("device", scan.MatchEqual, "d_77")},
		{one("device", scan.MatchEqual, "d_77"), one("_field", scan.MatchNotEqual, "s_2")},
		{one("device", scan.MatchRegexp, "d_1.*"), one("half", scan.MatchEqual, "1")},
		{one("device", scan.MatchRegexp, ".*7"), one("_field", scan.MatchEqual, "s_2"), one("half", scan.MatchNotEqual, "1")},
		{one("half", scan.MatchEqual, "0"), one("_field", scan.MatchIn, "s_0", "s_4")},
		{one("run", scan.MatchEqual, "2"), one("half", scan.MatchEqual, "0")},
		{one("run", scan.MatchNotIn, "2", "1"), one("half", scan.MatchEqual, "0")},
		{one("rare", scan.MatchPresent), one("half", scan.MatchEqual, "0")},
		{one("rare", scan.MatchAbsent), one("half", scan.MatchEqual, "0")},
		{one("rare", scan.MatchEqual, "")},
		{one("rare", scan.MatchNotEqual, ""), one("device", scan.MatchRegexp, "d_[0-9]*5")},
		{one("rare", scan.MatchEqual, "1"), one("device", scan.MatchNotRegexp, "d_[0-9]*5")},
		{one("row", scan.MatchRegexp, "x{3,9}"), one("rare", scan.MatchRegexp, "1|")},
		{one("row", scan.MatchEqualFold, "Xx", ""), one("run", scan.MatchEqual, "0")},
		{one("device", scan.MatchIn, "d_1", "d_2", "d_999"), one("_field", scan.MatchNotRegexp, "s_[12]")},
		{one("half", scan.MatchEqual, "0"), one("device", scan.MatchNotIn, "d_1", "d_2"), one("row", scan.MatchRegexp, ".+")},
	} {
		for _, selector := range []*scan.Selector{
			{Metric: "m", Matchers: matchers}, {MetricAny: true, Matchers: matchers}, {Metric: "n1", Matchers: matchers},
		} {
			var want []uint32
			for i, s := range list {
				if s.selectedBy(selector) {
					want = append(want, uint32(i))
				}
			}
			got, err := x.Select(context.Background(), selector, AllDays(), 0, nil)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%+v: %d series, %v; want %d", selector, len(got), err, len(want))
			}
		}
	}
}

// TestLarge goes over several blocks, mappings, parts and merges, with queries at
// odd moments, and opens again.
func TestLarge(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMemFS()
	x := openTest(t, fs, State{}, noDamage(t))
	list := largeModel(20_000)
	for at, step := 0, 1; at < len(list); at, step = at+step, step*2 {
		end := min(at+step, len(list))
		for _, s := range list[at:end] {
			if _, err := x.Create(s.shard, s.id, s.key(), benchDay); err != nil {
				t.Fatal(err)
			}
		}
		got, err := x.Select(context.Background(), &scan.Selector{MetricAny: true}, AllDays(), 0, nil)
		if err != nil || len(got) != end {
			t.Fatalf("%d of %d series: %v", len(got), end, err)
		}
	}
	checkQueries(t, x, list)
	if err := settle(x); err != nil {
		t.Fatal(err)
	}
	checkQueries(t, x, list)
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	stats := x.Stats()
	if stats.Series != uint32(len(list)) || stats.Unindexed != 0 || stats.KeyFileBytes != state.Bytes || stats.PartBytes == 0 {
		t.Errorf("stats %+v, state %+v", stats, state)
	}
	if state.Bytes < 4*blockBytes {
		t.Errorf("%d bytes of keys are too few for this test", state.Bytes)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	y := openTest(t, fs, state, noDamage(t))
	checkQueries(t, y, list)
	refs, err := y.Refs([]uint32{0, 19_999}, nil)
	if err != nil || refs[1] != (series.Ref{Hint: 19_999, Shard: list[19_999].shard, ID: list[19_999].id}) {
		t.Errorf("refs %v %v", refs, err)
	}
	if _, err := y.Refs([]uint32{20_000}, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("refs beyond the end: %v", err)
	}
}

// TestConcurrent creates, resolves, selects, marks and syncs at once; under the
// race detector it also shows that what readers see is safely published.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMemFS()
	x := openTest(t, fs, State{}, noDamage(t))
	const count, shards, creators = 30_000, 8, 4
	var created [shards][]series.Key
	for n := range count {
		key := benchKey(nil, n, 10)
		shard := key.Shard(shards)
		created[shard] = append(created[shard], key)
	}
	var done [shards]atomic.Int64
	var creating, reading sync.WaitGroup
	for c := range creators {
		creating.Go(func() {
			for shard := c; shard < shards; shard += creators {
				for id, key := range created[shard] {
					if _, err := x.Create(uint16(shard), series.ID(id), key, benchDay+Day(31*(id%3))); err != nil {
						t.Error(err)
						return
					}
					done[shard].Store(int64(id) + 1)
				}
			}
		})
	}
	var over atomic.Bool
	for r := range 2 {
		reading.Go(func() {
			random := rand.New(rand.NewPCG(uint64(r), 0))
			for !over.Load() {
				shard := random.IntN(shards)
				n := done[shard].Load()
				if n == 0 {
					continue
				}
				id := random.Int64N(n)
				ref, ok, err := x.Lookup(created[shard][id])
				if err != nil || !ok || int(ref.Shard) != shard || int64(ref.ID) != id {
					t.Errorf("series %d of shard %d is %v %v %v", id, shard, ref, ok, err)
					return
				}
				x.MarkActive(benchDay+300, ref.Hint)
				if !x.Active(benchDay+300, ref.Hint) {
					t.Errorf("a mark is not seen")
				}
			}
		})
	}
	reading.Go(func() {
		for !over.Load() {
			var before int64
			for i := range done {
				before += done[i].Load()
			}
			got, err := x.Select(context.Background(), &scan.Selector{Metric: "m"}, AllDays(), 0, nil)
			if err != nil || int64(len(got)) < before || !slices.IsSorted(got) {
				t.Errorf("%d series found, %d were created before: %v", len(got), before, err)
				return
			}
			state, err := x.Sync()
			if err != nil {
				t.Error(err)
			}
			given := uint32(0)
			for _, next := range state.Next {
				given += next
			}
			if given != state.Count {
				t.Errorf("%d series, but %d ids were given", state.Count, given)
			}
			cut, err := Open(Options{FS: fs.CrashClone(vfs.CrashOptions{Seed: uint64(given), BlockPercent: 50, NamePercent: 50}), Dir: "index", State: state, Corrupt: noDamage(t)})
			if err != nil {
				t.Error(err)
				return
			}
			if cut.Len() != state.Count {
				t.Errorf("%d series after a power cut, want %d", cut.Len(), state.Count)
			}
			if err := cut.Close(); err != nil {
				t.Error(err)
			}
			if _, err := x.NamesOf(nil).TagValues(context.Background(), "", "m", "device", "d_1", 10); err != nil {
				t.Error(err)
			}
			x.Stats()
		}
	})
	creating.Wait()
	over.Store(true)
	reading.Wait()
	state, err := x.Sync()
	if err != nil || state.Count != count {
		t.Fatalf("%+v %v", state, err)
	}
	y := openTest(t, fs.CrashClone(vfs.CrashOptions{}), state, noDamage(t))
	for shard := range created {
		for id, key := range created[shard] {
			if ref, ok, err := y.Lookup(key); !ok || err != nil || int(ref.ID) != id || !y.Active(benchDay+Day(31*(id%3)), ref.Hint) {
				t.Fatalf("series %d of shard %d is %v after a power cut", id, shard, ref)
			}
		}
	}
}

// TestDiskFull: creation fails while the disk is full, loses nothing, and goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMemFS()
	var full atomic.Bool
	x := openTest(t, vfs.Faults(fs, func(op vfs.Op) error {
		if full.Load() && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpTruncate) {
			return syscall.ENOSPC
		}
		return nil
	}), State{}, noDamage(t))
	list := largeModel(9_000)
	failures := 0
	for i, s := range list {
		full.Store(i%3000 > 100)
		_, err := x.Create(s.shard, s.id, s.key(), benchDay)
		if err != nil {
			if !vfs.IsNoSpace(err) {
				t.Fatal(err)
			}
			failures++
			if _, ok, _ := x.Lookup(s.key()); ok || x.Len() != uint32(i) {
				t.Fatal("a series that failed to be created exists")
			}
			if _, err := x.Sync(); !vfs.IsNoSpace(err) {
				t.Fatalf("sync on a full disk: %v", err)
			}
			full.Store(false)
			if _, err := x.Create(s.shard, s.id, s.key(), benchDay); err != nil {
				t.Fatal(err)
			}
		}
	}
	if failures == 0 {
		t.Error("the disk was never full when it mattered")
	}
	full.Store(false)
	state, err := x.Sync()
	if err != nil {
		t.Fatal(err)
	}
	checkQueries(t, openTest(t, fs.CrashClone(vfs.CrashOptions{}), state, noDamage(t)), list)
}

// TestSyncFailed: after a failed fsync nothing is promised any more.
func TestSyncFailed(t *testing.T) {
	var fail atomic.Bool
	x := openTest(t, vfs.Faults(vfs.NewMemFS(), func(op vfs.Op) error {
		if fail.Load() && op.Kind == vfs.OpSync && path.Base(op.Name) == keyFileName {
			return syscall.EIO
		}
		return nil
	}), State{}, noDamage(t))
	if _, err := x.Create(1, 0, benchKey(nil, 1, 10), 680); err != nil {
		t.Fatal(err)
	}
	fail.Store(true)
	if _, err := x.Sync(); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	fail.Store(false)
	if _, err := x.Sync(); !errors.Is(err, ErrFailed) {
		t.Fatalf("sync after a failed one: %v", err)
	}
}

func TestSelectCancelled(t *testing.T) {
	x := openTest(t, vfs.NewMemFS(), State{}, noDamage(t))
	createModel(t, x, largeModel(100))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := x.Select(ctx, &scan.Selector{Metric: "m"}, AllDays(), 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("select: %v", err)
	}
	if _, err := x.NamesOf(nil).TagValues(ctx, "", "", "device", "", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("tag values: %v", err)
	}
}

func TestBadMatchers(t *testing.T) {
	x := openTest(t, vfs.NewMemFS(), State{}, noDamage(t))
	for _, c := range []struct {
		matcher scan.Matcher
		want    error
	}{
		{scan.Matcher{Name: "a", Kind: scan.MatchRegexp, Values: []string{"a)(b"}}, ErrRegexp},
		{scan.Matcher{Name: "a", Kind: scan.MatchEqual}, ErrMatcher},
		{scan.Matcher{Name: "a", Kind: 77}, ErrMatcher},
	} {
		_, err := x.Select(context.Background(), &scan.Selector{Matchers: []scan.Matcher{c.matcher}}, AllDays(), 0, nil)
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.matcher, err, c.want)
		}
	}
}

func TestCreateRefusesBadKeys(t *testing.T) {
	x := openTest(t, vfs.NewMemFS(), State{}, noDamage(t))
	long := series.AppendKey(nil, nil, make([]byte, series.KeyBytesMax), nil)
	for _, key := range []series.Key{nil, {0}, {0, 1}, {0, 1, 'm', 1}, {0, 0x81, 0x00}, long} {
		if _, err := x.Create(0, 0, key, 0); !errors.Is(err, series.ErrKey) {
			t.Errorf("%d bytes: %v", len(key), err)
		}
	}
	if _, err := x.Create(0, 0, series.Key{0, 0}, 0); err != nil {
		t.Errorf("the least key: %v", err)
	}
	longest := series.AppendKey(nil, nil, make([]byte, series.KeyBytesMax-4), nil)
	if len(longest) != series.KeyBytesMax {
		t.Fatal(len(longest))
	}
	if _, err := x.Create(0, 1, longest, 0); err != nil {
		t.Errorf("the longest key: %v", err)
	}
	if got, err := x.KeyOf(0, 1, nil); err != nil || string(got) != string(longest) {
		t.Errorf("the longest key: %v", err)
	}
}
