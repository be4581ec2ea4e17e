package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// unit is what a test puts into an archive.
type unit struct {
	metric string
	fails  bool
	runs   []run
}

func keyOf(metric, host string) series.Key {
	return series.AppendKey(nil, []byte("db"), []byte(metric), []series.Tag{{Name: []byte("host"), Value: []byte(host)}})
}

func drawUnits(t *rapid.T) (units []unit) {
	bits := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1 << 63, 0x7ff8000000000001, 0xfff0000000000000, 0x7ff0000000000001}))
	for i := range rapid.IntRange(0, 6).Draw(t, "units") {
		u := unit{metric: fmt.Sprintf("m%d", i), fails: rapid.IntRange(0, 3).Draw(t, "fails") == 0}
		for j := range rapid.IntRange(0, 4).Draw(t, "series") {
			key, ms := keyOf(u.metric, fmt.Sprint(j)), rapid.Int64Range(scan.TimeMsMin, scan.TimeMsMin+10).Draw(t, "from")
			for range rapid.IntRange(1, 3).Draw(t, "runs") {
				r := run{key: key}
				for range rapid.IntRange(0, 30).Draw(t, "samples") {
					ms += rapid.Int64Range(1, scan.TimeMsMax/100).Draw(t, "step")
					r.timesMs, r.values = append(r.timesMs, ms), append(r.values, math.Float64frombits(bits.Draw(t, "bits")))
				}
				u.runs = append(u.runs, r)
			}
		}
		units = append(units, u)
	}
	return units
}

// texts gives the samples of runs, a line each, in their order.
func texts(runs []run) (lines []string) {
	for _, r := range runs {
		for i, ms := range r.timesMs {
			lines = append(lines, fmt.Sprintf("%x %d %x", []byte(r.key), ms, math.Float64bits(r.values[i])))
		}
	}
	return lines
}

func contentsOf(t rapid.TB, dir string) (lines []string) {
	m, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Files {
		if err := Check(dir, &m.Files[i]); err != nil {
			t.Fatal(err)
		}
		err := Read(dir, &m.Files[i], func(key series.Key, timesMs []int64, values []float64) error {
			lines = append(lines, texts([]run{{key, timesMs, values}})...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

var errFill = errors.New("no more")

func put(t rapid.TB, w *Writer, u unit) {
	err := w.Unit([]byte("db"), []byte(u.metric), 1, 2, func(visit Visitor) error {
		for _, r := range u.runs {
			if err := visit(r.key, r.timesMs, r.values); err != nil {
				return err
			}
		}
		if u.fails {
			return errFill
		}
		return nil
	})
	if u.fails != errors.Is(err, errFill) || !u.fails && err != nil {
		t.Fatal(err)
	}
}

// TestArchive writes units, of which some fail, with ends in between, and reads what
// succeeded.
func TestArchive(t *testing.T) {
	root := t.TempDir()
	turn := 0
	rapid.Check(t, func(t *rapid.T) {
		turn++
		dir := filepath.Join(root, fmt.Sprint(turn))
		fileBytes := rapid.Int64Range(1, 5000).Draw(t, "file bytes")
		open := func() *Writer {
			w, err := Create(dir, "c", 7, fileBytes)
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		w := open()
		var want []string
		units, kept := drawUnits(t), 0
		for _, u := range units {
			put(t, w, u)
			if !u.fails {
				want, kept = append(want, texts(u.runs)...), kept+1
			}
			if rapid.IntRange(0, 3).Draw(t, "reopen") == 0 {
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				w = open()
			}
		}
		if err := w.Finish(9); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := contentsOf(t, dir); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%d samples, want %d", len(got), len(want))
		}
		m, err := ReadManifest(dir)
		if err != nil || m.StartedMs != 7 || m.FinishedMs != 9 || m.Samples() != int64(len(want)) {
			t.Fatalf("%+v, %v", m, err)
		}
		for _, f := range m.Files {
			kept -= len(f.Units)
		}
		if kept != 0 {
			t.Fatalf("%d units are missing", kept)
		}
		if _, err := Create(dir, "c", 7, 1); !errors.Is(err, ErrUsed) {
			t.Fatalf("a complete archive: %v", err)
		}
	})
}

func sampleArchive(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	w, err := Create(dir, "c", 7, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		put(t, w, unit{metric: fmt.Sprint(i), runs: []run{{keyOf("m", fmt.Sprint(i)), []int64{1, 2, 3}, []float64{1, math.NaN(), 3}}}})
	}
	if err := errors.Join(w.Finish(9), w.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDamage changes each byte of an archive, and cuts it everywhere: each change is
// found, and the file is named.
func TestDamage(t *testing.T) {
	dir := sampleArchive(t)
	for _, name := range []string{"samples-000001.tma", "samples-000002.tma", manifestName} {
		path := filepath.Join(dir, name)
		intact, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		try := func(what string, content []byte) {
			t.Helper()
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := checkAll(dir); (!errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat)) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
		for i := range intact {
			changed := bytes.Clone(intact)
			changed[i] ^= 1 << (i % 8)
			try(fmt.Sprintf("changed at %d", i), changed)
			try(fmt.Sprintf("cut at %d", i), intact[:i])
		}
		try("with a byte more", append(bytes.Clone(intact), 0))
		if err := os.WriteFile(path, intact, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "samples-000001.tma")); err != nil {
		t.Fatal(err)
	}
	if err := checkAll(dir); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

func checkAll(dir string) error {
	m, err := ReadManifest(dir)
	if err != nil {
		return err
	}
	for i := range m.Files {
		if err := Check(dir, &m.Files[i]); err != nil {
			return err
		}
	}
	return nil
}

func TestCreateRefusals(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, "c", 7, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, "c", 7, 1); !errors.Is(err, ErrUsed) {
		t.Errorf("two at once: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, "other", 7, 1); !errors.Is(err, ErrUsed) {
		t.Errorf("another cluster: %v", err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(full, "c", 7, 1); !errors.Is(err, ErrUsed) {
		t.Errorf("a folder with something else: %v", err)
	}
	if _, err := ReadManifest(full); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// FuzzRead reads any bytes as a file of samples: it ends with an error of the package,
// or what was read can be written and read again.
func FuzzRead(f *testing.F) {
	var block []byte
	block = appendRun(block, keyOf("m", "a"), []int64{1, 5}, []float64{1, math.Inf(1)})
	f.Add(block, true)
	f.Add(binary.LittleEndian.AppendUint32([]byte(fileMagic), Format), false)
	f.Fuzz(func(t *testing.T, content []byte, asBlock bool) {
		if asBlock {
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
				if err != nil || len(left) > 0 || strings.Join(texts([]run{again}), "\n") != strings.Join(texts([]run{r}), "\n") {
					t.Fatal("not the same again:", err)
				}
			}
			return
		}
		r, err := newReader(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		defer r.zstd.Close()
		err = r.readAll(func(series.Key, []int64, []float64) error { return nil })
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	w, err := Create(b.TempDir(), "c", 7, 1<<40)
	if err != nil {
		b.Fatal(err)
	}
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
	b.ResetTimer()
	err = w.Unit([]byte("db"), []byte("cpu"), 0, 1, func(visit Visitor) error {
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
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "samples/s")
	b.ReportMetric(float64(w.written)/float64(b.N*n), "bytes/sample")
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
