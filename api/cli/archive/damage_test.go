package archive

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

// sampleBackup makes a store with one small backup of a few objects.
func sampleBackup(t testing.TB, s Store) {
	t.Helper()
	w, err := Begin(t.Context(), s, WriterOptions{Name: "b", Cluster: "c", ObjectBytes: 1, Now: func() time.Time { return time.UnixMilli(7) }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		metric := fmt.Sprint("m", i)
		err := w.Unit(t.Context(), "db", metric, 0, 9, func(visit Visitor) error {
			return visit(keyOf(metric, "a"), []int64{1, 2, 3}, []float64{1, math.NaN(), float64(i)})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
}

func loadAndCheck(t testing.TB, s Store) error {
	b, err := Load(t.Context(), s, "b")
	if err != nil {
		return err
	}
	return b.Check(t.Context(), nil)
}

// TestDamage changes each byte of a backup, and cuts each object everywhere: each change
// is found, and the object is named.
func TestDamage(t *testing.T) {
	s := memory{}
	sampleBackup(t, s)
	b, err := Load(t.Context(), s, "b")
	if err != nil {
		t.Fatal(err)
	}
	needed := map[string]bool{b.Index.key(): true, manifestKey("b"): true}
	for i := range b.index.Objects {
		needed[b.index.Objects[i].key()] = true
	}
	for key := range needed {
		intact := s[key]
		try := func(what string, content []byte) {
			t.Helper()
			s[key] = content
			if err := loadAndCheck(t, s); (!errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat)) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s %s: %v", key, what, err)
			}
		}
		for i := range intact {
			changed := bytes.Clone(intact)
			changed[i] ^= 1 << (i % 8)
			try(fmt.Sprintf("changed at %d", i), changed)
			try(fmt.Sprintf("cut at %d", i), intact[:i])
		}
		try("with a byte more", append(bytes.Clone(intact), 0))
		delete(s, key)
		if err := loadAndCheck(t, s); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNone) {
			t.Errorf("%s is missing: %v", key, err)
		}
		s[key] = intact
	}
	if err := loadAndCheck(t, s); err != nil {
		t.Fatal(err)
	}
}

// TestPruneRefuses: nothing is swept while nobody can say what a backup needs, and a
// backup that may be written is not deleted.
func TestPruneRefuses(t *testing.T) {
	s := memory{}
	sampleBackup(t, s)
	manifest := s[manifestKey("b")]
	later := time.Now().Add(100 * time.Hour)
	for name, content := range map[string][]byte{"damaged": manifest[1:], "of later": []byte(`{"format":4}` + "\n")} {
		s[manifestKey("b")] = content
		objects := len(s)
		if _, err := Prune(t.Context(), s, PruneOptions{Grace: time.Hour, Now: later}); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		if len(s) != objects {
			t.Errorf("%s: something was deleted", name)
		}
	}
	if _, err := Prune(t.Context(), s, PruneOptions{Names: []string{"b"}, Grace: time.Hour, Now: later}); err != nil || len(s) != 0 {
		t.Errorf("a damaged backup cannot be deleted: %v, %d objects", err, len(s))
	}
	if _, err := Begin(t.Context(), s, WriterOptions{Name: "w", Cluster: "c", Now: time.Now, ObjectBytes: 1}); err != nil {
		t.Fatal(err)
	}
	o := PruneOptions{Names: []string{"w"}, Grace: time.Hour, Now: time.Now()}
	if _, err := Prune(t.Context(), s, o); !errors.Is(err, ErrUsed) {
		t.Errorf("a backup that is being written: %v", err)
	}
	if o.Running = true; true {
		if done, err := Prune(t.Context(), s, o); err != nil || len(done.Backups) != 1 {
			t.Errorf("%+v %v", done, err)
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	s := memory{}
	sampleBackup(t, s)
	begin := func(name, cluster string) error {
		_, err := Begin(t.Context(), s, WriterOptions{Name: name, Cluster: cluster, Now: time.Now, ObjectBytes: 1})
		return err
	}
	if err := begin("b", "c"); !errors.Is(err, ErrUsed) {
		t.Errorf("a complete backup: %v", err)
	}
	if err := begin("w", "c"); err != nil {
		t.Error(err)
	}
	if err := begin("w", "other"); !errors.Is(err, ErrUsed) {
		t.Errorf("another cluster's: %v", err)
	}
	for _, name := range []string{"", "A", "../x", "a/b", ".a", "a.", strings.Repeat("a", NameBytesMax+1)} {
		if err := begin(name, "c"); !errors.Is(err, ErrTarget) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := Load(t.Context(), s, "w"); !errors.Is(err, ErrUsed) {
		t.Errorf("a backup that is not complete: %v", err)
	}
	if _, err := Load(t.Context(), s, "none"); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if b, err := Load(t.Context(), s, ""); err != nil || b.Name != "b" {
		t.Errorf("%+v %v", b, err)
	}
	if _, err := Load(t.Context(), memory{}, ""); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// FuzzBlocks reads any bytes as blocks, and as a block's runs: it ends with an error of
// the package, or what was read can be written and read again.
func FuzzBlocks(f *testing.F) {
	f.Add(appendRun(nil, keyOf("m", "a"), []int64{1, 5}, []float64{1, math.Inf(1)}), true)
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0}, false)
	f.Fuzz(func(t *testing.T, content []byte, asRuns bool) {
		if !asRuns {
			d, err := newDecoder()
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			if err := d.blocks(content, func(series.Key, []int64, []float64) error { return nil }); err != nil && !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		var r run
		for rest := content; len(rest) > 0; {
			before := len(rest)
			var err error
			if rest, err = r.next(rest); err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatal(err)
				}
				return
			}
			if len(rest) >= before || len(r.timesMs) != len(r.values) || len(r.timesMs) == 0 {
				t.Fatal("no progress")
			}
			var again run
			left, err := again.next(appendRun(nil, r.key, r.timesMs, r.values))
			var one, other Digest
			one.Add(r.key, r.timesMs, r.values)
			other.Add(again.key, again.timesMs, again.values)
			if err != nil || len(left) > 0 || one != other || !bytes.Equal(r.key, again.key) {
				t.Fatal("not the same again:", err)
			}
		}
	})
}

// FuzzManifest reads any text as a manifest, and any bytes as an index.
func FuzzManifest(f *testing.F) {
	s := memory{}
	sampleBackup(f, s)
	f.Add(s[manifestKey("b")])
	b, err := Load(f.Context(), s, "b")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s[b.Index.key()])
	f.Fuzz(func(t *testing.T, content []byte) {
		if m, err := decodeManifest("b", content); err == nil {
			if again, err := m.encode(); err != nil || !bytes.Equal(again, content) {
				t.Fatalf("%s became %s, %v", content, again, err)
			}
		} else if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
		x, err := decodeIndex(content)
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if again, err := x.encode(); err != nil {
			t.Fatal(err)
		} else if _, err := decodeIndex(again); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	const n, hosts = 1000, 256 // so many that no block has the same samples twice
	var runs [hosts]run
	random := rand.New(rand.NewPCG(1, 2))
	for h := range runs {
		r := &runs[h]
		r.key = keyOf("cpu", fmt.Sprint(h))
		for i := range n {
			r.timesMs = append(r.timesMs, int64(1_700_000_000_000+10_000*i)+random.Int64N(20))
			r.values = append(r.values, float64(random.IntN(1000))/10)
		}
	}
	w, err := Begin(b.Context(), NewFolder(b.TempDir()), WriterOptions{Name: "b", Cluster: "c", ObjectBytes: ObjectBytesDefault, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	err = w.Unit(b.Context(), "db", "cpu", 0, math.MaxInt64, func(visit Visitor) error {
		for i := range b.N {
			r := &runs[i%hosts]
			if err := visit(r.key, r.timesMs, r.values); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	m, err := w.Finish(b.Context(), hosts)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "samples/s")
	b.ReportMetric(float64(m.Written)/float64(b.N*n), "bytes/sample")
}
