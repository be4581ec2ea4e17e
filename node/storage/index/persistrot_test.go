package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// rotModel is a folder with persisted series, and the answers of an index of the same series that reads no file.
type rotModel struct {
	fs      *vfs.MemFS
	state   State
	list    []*modelSeries
	answers map[string]any // by question; they do not change, so each is asked for once
}

var rotModelOnce = sync.OnceValue(func() *rotModel {
	m := &rotModel{fs: vfs.NewMemFS(), list: largeModel(24_000)}
	for _, end := range []int{8_000, 21_000, 24_000} { // parts that are large enough for all kinds of postings
		x, err := Open(Options{FS: m.fs, Dir: "index", State: m.state, persist: persistAll})
		if err != nil {
			panic(err)
		}
		for i, s := range m.list[m.state.Count:end] {
			if local, err := x.Create(s.shard, s.id, s.key(), benchDay); err != nil || local != m.state.Count+uint32(i) {
				panic(fmt.Sprint(local, err))
			}
		}
		if err := settle(x); err != nil {
			panic(err)
		}
		if m.state, err = x.Sync(); err != nil {
			panic(err)
		}
		if err := x.Close(); err != nil {
			panic(err)
		}
	}
	memory, err := Open(Options{FS: vfs.NewMemFS(), Dir: "index"})
	if err != nil {
		panic(err)
	}
	for _, s := range m.list {
		if _, err := memory.Create(s.shard, s.id, s.key(), benchDay); err != nil {
			panic(err)
		}
	}
	m.answers = map[string]any{}
	for name, ask := range rotQueries(m) {
		if m.answers[name], err = ask(memory); err != nil {
			panic(err)
		}
	}
	return m
})

// counted returns how many bytes of a file of persisted series count.
func (m *rotModel) counted(name string) int64 {
	switch name {
	case offsetsFileName:
		return chunkPlace(int(m.state.Persisted.Offsets), offsetsBytes)
	case idsFileName:
		return chunkPlace(int(m.state.Persisted.IDs), idHeadBytes+idChunkBytes)
	}
	info, err := m.fs.Stat(path.Join("index", name))
	if err != nil {
		panic(err)
	}
	return info.Size
}

// rotQueries are questions, each with its answer by an index.
func rotQueries(m *rotModel) map[string]func(x *Index) (any, error) {
	ctx := context.Background()
	queries := map[string]func(x *Index) (any, error){
		"metrics":       func(x *Index) (any, error) { return x.NamesOf(nil).Metrics(ctx, "", "", 0) },
		"databases":     func(x *Index) (any, error) { return x.NamesOf(nil).Databases(ctx) },
		"tag names":     func(x *Index) (any, error) { return x.NamesOf(nil).TagNames(ctx, "", "m", "", 0) },
		"tag values":    func(x *Index) (any, error) { return x.NamesOf(nil).TagValues(ctx, "", "m", "device", "d_2", 0) },
		"names, shards": func(x *Index) (any, error) { return x.NamesOf([]uint16{3, 7}).TagValues(ctx, "", "", "row", "", 0) },
		"count":         func(x *Index) (any, error) { return x.NamesOf(nil).Count(ctx, "") },
		"count, shards": func(x *Index) (any, error) { return x.NamesOf([]uint16{1, 2, 15}).Count(ctx, "") },
		"cardinalities": func(x *Index) (any, error) { return x.MetricCardinalities(ctx, "", 0) },
		"tags of m":     func(x *Index) (any, error) { return x.TagCardinalities(ctx, "", "m") },
		"local ids": func(x *Index) (any, error) {
			var list []uint32
			for i := 0; i < len(m.list); i += 5 {
				local, ok := x.Local(m.list[i].shard, m.list[i].id)
				if !ok {
					return nil, fmt.Errorf("series %d has no id", i)
				}
				list = append(list, local)
			}
			return list, nil
		},
		"keys": func(x *Index) (any, error) {
			var list []string
			for i := 0; i < len(m.list); i += 11 {
				key, err := x.Key(uint32(i), nil)
				if err != nil {
					return nil, err
				}
				list = append(list, string(key))
			}
			return list, nil
		},
		"refs": func(x *Index) (any, error) {
			var locals []uint32
			for i := 0; i < len(m.list); i += 3 {
				locals = append(locals, uint32(i))
			}
			return x.Refs(locals, nil)
		},
		"look up": func(x *Index) (any, error) {
			var list []series.Ref
			for i := 0; i < len(m.list); i += 7 {
				ref, ok, err := x.Lookup(m.list[i].key())
				if err != nil || !ok {
					return nil, fmt.Errorf("series %d is unknown: %w", i, err)
				}
				list = append(list, ref)
			}
			return list, nil
		},
		"resolve": func(x *Index) (any, error) {
			var keys []series.Key
			for i := range 1500 {
				keys = append(keys, m.list[i*7919%len(m.list)].key())
			}
			refs := make([]series.Ref, len(keys))
			return refs, x.Guard(func() error {
				if found := x.ResolveBatch(LocalNone, keys, refs); found != len(keys) {
					return fmt.Errorf("%d of %d found", found, len(keys))
				}
				return nil
			})
		},
		"unknown": func(x *Index) (any, error) {
			for i := range 500 {
				if ref, ok, err := x.Lookup(benchKey(nil, i, 10)); ok || err != nil {
					return nil, fmt.Errorf("%v %w", ref, err)
				}
			}
			return nil, nil
		},
		"create what exists": func(x *Index) (any, error) {
			for i := 0; i < len(m.list); i += 17 {
				s := m.list[i]
				if local, err := x.Create(s.shard, s.id, s.key(), benchDay); err != nil || local != uint32(i) {
					return nil, fmt.Errorf("series %d is %d: %w", i, local, err)
				}
			}
			return nil, nil
		},
	}
	one := func(name string, kind scan.MatchKind, values ...string) scan.Matcher {
		return scan.Matcher{Name: name, Kind: kind, Values: values}
	}
	for i, matchers := range [][]scan.Matcher{
		nil,
		{one("device", scan.MatchEqual, "d_77")},
		{one("half", scan.MatchEqual, "1")},
		{one("half", scan.MatchEqual, "0"), one("row", scan.MatchEqual, "xxxx")},
		{one("device", scan.MatchRegexp, "d_[0-9]*5"), one("half", scan.MatchNotEqual, "1")},
		{one("row", scan.MatchRegexp, "x{3,9}"), one("rare", scan.MatchRegexp, "1|")},
		{one("rare", scan.MatchPresent), one("half", scan.MatchEqual, "0")},
	} {
		for _, selector := range []*scan.Selector{
			{Metric: "m", Matchers: matchers}, {MetricAny: true, Matchers: matchers}, {MetricAny: true, Matchers: matchers, Shards: []uint16{2, 9}},
		} {
			queries[fmt.Sprint("select ", i, selector.MetricAny, len(selector.Shards))] = func(x *Index) (any, error) {
				return x.Select(ctx, selector, AllDays(), 0, nil)
			}
		}
	}
	return queries
}

// rot damages persisted files while they are in use, in between questions whose answers are compared with those of
// an index in memory.
func rot(t *rapid.T) {
	m := rotModelOnce()
	fs := m.fs.CrashClone(vfs.CrashOptions{})
	x, err := Open(Options{FS: fs, Dir: "index", State: m.state, persist: persistAll, Corrupt: func(err error) {
		if !strings.Contains(err.Error(), "built again") {
			t.Fatalf("damage: %v", err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	queries := rotQueries(m)
	names := make([]string, 0, len(queries))
	for name := range queries {
		names = append(names, name)
	}
	slices.Sort(names)
	check := func(x *Index, name string) {
		got, err := queries[name](x)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := m.answers[name]; !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %.200v, want %.200v", name, got, want)
		}
	}
	state, files := m.state, append(m.state.Persisted.names(), offsetsFileName, idsFileName)
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0, 1, 2, 3:
			name := rapid.SampledFrom(files).Draw(t, "file")
			size := m.counted(name)
			at := rapid.Int64Range(0, size-1).Draw(t, "at")
			n := min(rapid.SampledFrom([]int64{1, 1, 8, 4096, 1 << 20}).Draw(t, "bytes"), size-at)
			value := rapid.Byte().Draw(t, "value")
			if _, err := fs.Stat(path.Join("index", name)); err != nil {
				break // it was replaced
			}
			change(t, fs, path.Join("index", name), func(b []byte) {
				for i := at; i < at+n; i++ {
					if value < 128 {
						b[i] ^= 1 << (value % 8)
					} else {
						b[i] = value - 128 + value%2*128
					}
				}
			})
		case 4:
			if state, err = x.Sync(); err != nil || state.Persisted == nil {
				t.Fatal(state.Persisted, err)
			}
			x.Published(state)
		default:
			check(x, rapid.SampledFrom(names).Draw(t, "question"))
		}
	}
	for _, name := range names {
		check(x, name)
	}
	if state, err = x.Sync(); err != nil || state.Persisted == nil {
		t.Fatal(state.Persisted, err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if x, err = Open(Options{FS: fs, Dir: "index", State: state, persist: persistAll}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		check(x, name)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPersistedRot: what was whole when it was mapped may be read otherwise later. All answers stay right.
func TestPersistedRot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, rot)
}

func FuzzPersistedRot(f *testing.F) { f.Fuzz(rapid.MakeFuzz(rot)) }

// TestPersistedRotIsTold: each file that does not read as before is told of once and counted, and the next Sync
// writes it again, so that the next start finds no damage.
func TestPersistedRotIsTold(t *testing.T) {
	t.Parallel()
	m := rotModelOnce()
	for _, kind := range []string{offsetsFileName, idsFileName, tablePrefix, partPrefix} {
		fs := m.fs.CrashClone(vfs.CrashOptions{})
		var told []error
		x, err := Open(Options{FS: fs, Dir: "index", State: m.state, persist: persistAll, Corrupt: func(err error) { told = append(told, err) }})
		if err != nil {
			t.Fatal(err)
		}
		files := append(m.state.Persisted.names(), offsetsFileName, idsFileName)
		name := files[slices.IndexFunc(files, func(name string) bool { return strings.HasPrefix(name, kind) })]
		change(t, fs, path.Join("index", name), func(b []byte) {
			for i := chunkFileHeader + chunkHeadBytes; i < min(len(b), chunkFileHeader+2000); i++ {
				b[i] ^= 0x55
			}
		})
		for question, ask := range rotQueries(m) {
			if _, err := ask(x); err != nil {
				t.Fatalf("%s, %s: %v", name, question, err)
			}
		}
		var damage *CorruptError
		if s := x.Stats(); s.Rebuilt != 1 || len(told) != 1 || !errors.As(told[0], &damage) || path.Base(damage.File) != name {
			t.Errorf("%s: %d times built again, told %v", name, s.Rebuilt, told)
		}
		state, err := x.Sync()
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		y := openPersisting(t, fs, state, noDamage(t))
		if p := y.Stats(); p.PersistErrors > 0 || state.Persisted == nil || state.Persisted.Table == nil {
			t.Errorf("%s: %+v", name, p)
		}
		checkDamaged(t, y, m.list)
	}
}

// TestPersistedUnreadable: what the disk cannot read any more is built again from the keys.
func TestPersistedUnreadable(t *testing.T) {
	t.Parallel()
	m := rotModelOnce()
	for _, kind := range []string{offsetsFileName, idsFileName, tablePrefix, partPrefix} {
		x, _, dir := openOnDisk(t)
		for _, name := range append(m.state.Persisted.names(), offsetsFileName, idsFileName) {
			if strings.HasPrefix(name, kind) {
				if err := os.Truncate(filepath.Join(dir, name), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		for question, ask := range rotQueries(m) {
			got, err := ask(x)
			if err != nil {
				t.Fatalf("%s, %s: %v", kind, question, err)
			}
			if want := m.answers[question]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %.200v, want %.200v", kind, question, got, want)
			}
		}
		if s := x.Stats(); s.Rebuilt == 0 {
			t.Errorf("%s: nothing is told of it", kind)
		}
	}
}
