package tenant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
	"github.com/tickmesh/tickmesh/api/tenancy"
)

// storage is a scan.Source and Deleter of databases with a number of samples each. As in
// real storage, a database without samples is told of as long as its series are known.
type storage struct {
	scan.Source
	samples map[string]int
	down    bool
}

var errDown = errors.New("the storage does not answer")

func (s *storage) Databases(context.Context) ([]string, error) {
	if s.down {
		return nil, errDown
	}
	var all []string
	for name := range s.samples {
		all = append(all, name)
	}
	slices.Sort(all)
	return all, nil
}

func (s *storage) Last(_ context.Context, selector *scan.Selector, _ int64, _ scan.Limits, visit func(scan.Point) error) error {
	if s.samples[selector.Database] > 0 {
		return visit(scan.Point{})
	}
	return nil
}

func (s *storage) Delete(_ context.Context, selector *scan.Selector, fromMs, toMs int64) (int64, error) {
	if s.down {
		return 0, errDown
	}
	if !selector.MetricAny || len(selector.Matchers) > 0 || fromMs != scan.TimeMsMin || toMs != scan.TimeMsMax {
		return 0, errors.New("this is not all of a database")
	}
	if _, ok := s.samples[selector.Database]; ok {
		s.samples[selector.Database] = 0
	}
	return 1, nil
}

// marksFor returns the marks of a server on its own and of a cluster, and how to stop what
// keeps them.
func marksFor(t *testing.T) map[string]struct {
	Marks
	cut func()
} {
	t.Helper()
	folder, err := OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := memstore.NewServer()
	store := server.Open(shardmap.Seen{})
	cluster := NewCluster(store)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		for view := range store.Watch(ctx) {
			cluster.See(view)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; store.Close() })
	type kept = struct {
		Marks
		cut func()
	}
	return map[string]kept{"folder": {folder, nil}, "cluster": {cluster, func() { store.SetReachable(false) }}}
}

func TestDirectory(t *testing.T) {
	for name, marks := range marksFor(t) {
		t.Run(name, func(t *testing.T) {
			s, c := &storage{samples: map[string]int{}}, newClock()
			rules := func() *tenancy.Rules { return rules(t, "databases: {named: {}}") }
			d := NewDirectory(DirectoryOptions{Source: s, Deleter: s, Marks: marks, Rules: rules, Clock: c.Now})
			list := func(want ...string) {
				t.Helper()
				c.move(lifeKept)
				got, err := d.List(t.Context())
				if err != nil || !slices.Equal(got, append([]string{""}, want...)) {
					t.Fatalf("%q, %v, want %q", got, err, want)
				}
			}
			do := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			list("named")
			do(d.Create(t.Context(), "made"))
			do(d.Create(t.Context(), "made"))
			do(d.Create(t.Context(), "named"))
			do(d.Create(t.Context(), "default"))
			do(d.Create(t.Context(), ""))
			list("made", "named")
			s.samples["written"], s.samples["made"], s.samples[""] = 3, 2, 1
			list("made", "named", "written")
			do(d.Drop(t.Context(), "written"))
			do(d.Drop(t.Context(), "made"))
			do(d.Drop(t.Context(), "never"))
			list("named")
			s.samples["written"] = 1 // again
			list("named", "written")
			do(d.Drop(t.Context(), "written"))
			list("named")
			do(d.Create(t.Context(), "written"))
			list("named", "written")
			do(d.Drop(t.Context(), "default"))
			if s.samples[""] != 0 {
				t.Error("the default database was not emptied")
			}
			list("named", "written")
			for _, bad := range []string{"a/b", "..", "*", strings.Repeat("x", 200)} {
				if err := d.Create(t.Context(), bad); !errors.Is(err, series.ErrDatabase) {
					t.Errorf("%q: %v", bad, err)
				}
			}
			if marks.cut == nil {
				return
			}
			marks.cut()
			do(d.Create(t.Context(), "written")) // is noted
			do(d.Create(t.Context(), "named"))
			s.samples["later"] = 1
			do(d.Create(t.Context(), "later")) // has series
			if err := d.Create(t.Context(), "new"); !errors.Is(err, shardmap.ErrUnavailable) {
				t.Errorf("a new one without the store: %v", err)
			}
			s.down = true
			if _, err := d.List(t.Context()); !errors.Is(err, errDown) {
				t.Errorf("%v", err)
			}
			if err := d.Drop(t.Context(), "later"); !errors.Is(err, errDown) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, mark := range map[string]shardmap.DatabaseMark{"a": shardmap.DatabaseCreated, "wetter süd": shardmap.DatabaseDropped, "x": shardmap.DatabaseCreated} {
		if err := f.Set(t.Context(), name, mark); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Set(t.Context(), "x", ""); err != nil {
		t.Fatal(err)
	}
	again, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if all := again.All(); len(all) != 2 || all["a"] != shardmap.DatabaseCreated || all["wetter süd"] != shardmap.DatabaseDropped {
		t.Errorf("%v", all)
	}
	if err := f.Set(t.Context(), "a/b", shardmap.DatabaseCreated); !errors.Is(err, shardmap.ErrDatabase) {
		t.Errorf("%v", err)
	}
	full := map[string]shardmap.DatabaseMark{}
	for i := range shardmap.DatabasesMax {
		full[fmt.Sprint(i)] = shardmap.DatabaseCreated
	}
	err = f.file.Change(t.Context(), func(all map[string]shardmap.DatabaseMark) error {
		maps.Copy(all, full)
		delete(all, "a")
		delete(all, "wetter süd")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Set(t.Context(), "more", shardmap.DatabaseCreated); !errors.Is(err, shardmap.ErrDatabases) {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"", "null", "[]", `{"a": "lost"}`, `{"a/b": "created"}`, `{"a": ""}`, `{"a": 1}`} {
		if err := os.WriteFile(filepath.Join(dir, FolderFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFolder(dir); !errors.Is(err, ErrFolder) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzDecodeMarks(f *testing.F) {
	f.Add([]byte(`{"a": "created", "b": "dropped"}`))
	f.Add([]byte(`{"a": {}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		marks, err := decodeMarks(text)
		if err != nil {
			if !errors.Is(err, ErrFolder) {
				t.Fatal(err)
			}
			return
		}
		for name, mark := range marks {
			if shardmap.ValidateDatabase(name, mark) != nil || mark == "" {
				t.Fatalf("%q %q", name, mark)
			}
		}
	})
}
