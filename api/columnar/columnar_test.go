package columnar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/series"
)

// sample is a row as a reader has it.
type sample struct {
	metric string
	tags   string // name=value, in order
	host   string // or "-"
	timeMs int64
	bits   uint64
}

// row is sample as the library reads it.
type row struct {
	Host   *string           `parquet:"host,optional"`
	Metric string            `parquet:"metric"`
	Tags   map[string]string `parquet:"tags"`
	Time   int64             `parquet:"time,timestamp(millisecond)"`
	Value  float64           `parquet:"value"`
}

// readBack returns the rows of a file, and those of each row group. api/python/tests/test_parquet.py reads such files with
// Apache's own library.
func readBack(t interface{ Fatal(args ...any) }, file []byte) (samples []sample, groups []int64) {
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range f.RowGroups() {
		groups = append(groups, g.NumRows())
	}
	rows := parquet.NewGenericReader[row](f)
	for {
		chunk := make([]row, 100)
		n, err := rows.Read(chunk)
		for _, r := range chunk[:n] {
			s := sample{metric: r.Metric, host: "-", timeMs: r.Time, bits: math.Float64bits(r.Value)}
			if r.Host != nil {
				s.host = *r.Host
			}
			var tags []string
			for name, v := range r.Tags {
				tags = append(tags, name+"="+v)
			}
			slices.Sort(tags)
			s.tags = strings.Join(tags, ",")
			samples = append(samples, s)
		}
		if errors.Is(err, io.EOF) {
			return samples, groups
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestWriter compares what is read back with what was written, whatever the names and values.
func TestWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		w, err := NewWriter(&out, Options{Columns: []string{"host"}})
		if err != nil {
			t.Fatal(err)
		}
		var want []sample
		for range rapid.IntRange(0, 5).Draw(t, "series") {
			metric := rapid.StringN(1, 8, 20).Draw(t, "metric")
			var tags []series.Tag
			var texts []string
			host := "-"
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"host", "dc", "time", "zone", "ü"}), 0, 5, rapid.ID).Draw(t, "names") {
				v := rapid.StringN(1, 8, 20).Draw(t, "value")
				tags = append(tags, series.Tag{Name: []byte(name), Value: []byte(v)})
				texts = append(texts, name+"="+v)
				if name == "host" {
					host = v
				}
			}
			slices.Sort(texts)
			var times []int64
			var values []float64
			for range rapid.IntRange(0, 2*batchRows+1).Draw(t, "samples") {
				times = append(times, rapid.Int64Range(-1<<61, 1<<61).Draw(t, "time"))
				values = append(values, math.Float64frombits(rapid.Uint64().Draw(t, "bits")))
				want = append(want, sample{metric, strings.Join(texts, ","), host, times[len(times)-1], math.Float64bits(values[len(values)-1])})
			}
			if err := w.Write(series.AppendKey(nil, []byte("db"), []byte(metric), tags), times, values); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, _ := readBack(t, out.Bytes()); !slices.Equal(got, want) {
			t.Fatalf("read %v, want %v", got, want)
		}
	})
}

// noise returns values that cannot be compressed.
func noise(n int) []float64 {
	values := make([]float64, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range values {
		values[i] = r.NormFloat64()
	}
	return values
}

// TestRowGroups writes more than a row group holds, of rows and of bytes, with more names than a dictionary holds: each is
// out before the next begins, and its place in the directory was asked for.
func TestRowGroups(t *testing.T) {
	for _, c := range []struct {
		name           string
		valueBytes     int
		series, length int
	}{
		{"rows", 1, 2, rowGroupRowsMax},
		{"bytes", 4000, 300, 30},
		{"long texts", 15_000, 700, 2},
	} {
		var out bytes.Buffer
		var taken int64
		w, err := NewWriter(&out, Options{Take: func(bytes int64) error { taken += bytes; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		times, values := make([]int64, c.length), noise(c.length)
		var want int64
		for s := range c.series {
			before := out.Len()
			value := fmt.Sprintf("%0*d", c.valueBytes, s)
			key := series.AppendKey(nil, nil, []byte("m"), []series.Tag{{Name: []byte("a"), Value: []byte(value)}})
			if err := w.Write(key, times, values); err != nil {
				t.Fatal(err)
			}
			want += int64(c.length)
			if w.groupBytes >= rowGroupBytesMax || w.rows > rowGroupRowsMax {
				t.Fatalf("%s: %d rows of %d bytes wait", c.name, w.rows, w.groupBytes)
			}
			if c.length == rowGroupRowsMax && out.Len() == before {
				t.Errorf("%s: nothing is out behind series %d", c.name, s)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		samples, groups := readBack(t, out.Bytes())
		if int64(len(samples)) != want || len(groups) < 2 {
			t.Errorf("%s: %d rows in groups of %v", c.name, len(samples), groups)
		}
		if directory := directoryOf(t, out.Bytes()); taken < directory || taken > 16*directory {
			t.Errorf("%s: %d bytes were taken for a directory of %d", c.name, taken, directory)
		}
		for column, index := range w.file.File().ColumnIndexes() {
			for i := range index.MinValues {
				if held := cap(index.MinValues[i]) + cap(index.MaxValues[i]); held > 4<<10 {
					t.Errorf("%s: column %d holds %d bytes for a page of its directory", c.name, column, held)
				}
			}
		}
		for s := range c.series {
			if got := samples[s*c.length].tags; got != fmt.Sprintf("a=%0*d", c.valueBytes, s) {
				t.Fatalf("%s: series %d is %.20s", c.name, s, got)
			}
		}
	}
}

// directoryOf returns the length of a file's directory: of all that is behind the pages.
func directoryOf(t *testing.T, file []byte) int64 {
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var pages int64
	for _, group := range f.Metadata().RowGroups {
		for i := range group.Columns {
			m := &group.Columns[i].MetaData
			begin := m.DataPageOffset
			if m.DictionaryPageOffset > 0 {
				begin = min(begin, m.DictionaryPageOffset)
			}
			pages = max(pages, begin+m.TotalCompressedSize)
		}
	}
	return int64(len(file)) - pages
}

// A file that was not closed is none, so that nobody takes a part for the whole.
func TestUnclosed(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(series.AppendKey(nil, nil, []byte("m"), nil), make([]int64, 2*rowGroupRowsMax), noise(2*rowGroupRowsMax)); err != nil {
		t.Fatal(err)
	}
	if _, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len())); err == nil || out.Len() == 0 {
		t.Errorf("%d bytes without an end are a file", out.Len())
	}
}

func TestNamesThatAreNoText(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := series.AppendKey(nil, nil, []byte("m\xff"), []series.Tag{{Name: []byte("a"), Value: []byte("\xfe")}})
	if err := errors.Join(w.Write(key, []int64{1}, []float64{2}), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got, _ := readBack(t, out.Bytes()); len(got) != 1 || got[0].metric != "m\uFFFD" || got[0].tags != "a=\uFFFD" {
		t.Error(got)
	}
}

func TestColumns(t *testing.T) {
	many := make([]string, ColumnsMax+1)
	for i := range many {
		many[i] = fmt.Sprint("c", i)
	}
	for _, columns := range [][]string{{""}, {"a", "a"}, {"time"}, {"tags"}, {"\xff"}, {strings.Repeat("x", columnNameBytesMax+1)}, many} {
		if _, err := NewWriter(io.Discard, Options{Columns: columns}); !errors.Is(err, ErrColumns) {
			t.Errorf("%.40q: %v", columns, err)
		}
	}
}

func TestErrorsEnd(t *testing.T) {
	full := errors.New("full")
	w, err := NewWriter(io.Discard, Options{Take: func(int64) error { return full }})
	if err != nil {
		t.Fatal(err)
	}
	key := series.AppendKey(nil, nil, []byte("m"), nil)
	if err := w.Write(key, make([]int64, 2*rowGroupRowsMax), noise(2*rowGroupRowsMax)); !errors.Is(err, full) {
		t.Error(err)
	}
	if err := w.Write(series.Key("\xff"), nil, nil); !errors.Is(err, series.ErrKey) {
		t.Error(err)
	}
}

func BenchmarkWrite(b *testing.B) {
	const samples = 1000
	times, values := make([]int64, samples), make([]float64, samples)
	for i := range times {
		times[i], values[i] = int64(i)*10_000, float64(i%97)/8
	}
	key := series.AppendKey(nil, nil, []byte("cpu"), []series.Tag{{Name: []byte("core"), Value: []byte("3")}, {Name: []byte("dc"), Value: []byte("eu")}, {Name: []byte("host"), Value: []byte("web1")}})
	w, err := NewWriter(io.Discard, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := w.Write(key, times, values); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*samples/b.Elapsed().Seconds(), "samples/s")
}
