package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	benchSeries = 2_000_000
	benchFields = 10 // of a device
	benchShards = 128
	benchDay    = Day(20_700)
)

// benchKey is series n of db "", metric m, tags device=d_N, _field=s_K.
func benchKey(dst []byte, n, fields int) series.Key {
	var device, field [16]byte
	d := strconv.AppendInt(append(device[:0], "d_"...), int64(n/fields), 10)
	f := strconv.AppendInt(append(field[:0], "s_"...), int64(n%fields), 10)
	dst = append(dst, 0, 1, 'm')
	dst = series.AppendPart(series.AppendPart(dst, []byte("_field")), f)
	return series.AppendPart(series.AppendPart(dst, []byte("device")), d)
}

// status reads a line of /proc/self/status, in bytes.
func status(b testing.TB, name string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib << 10
		}
	}
	b.Skip("no " + name)
	return 0
}

// processorTime is what the process has used.
func processorTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// createAll creates count series with so many creators. The shards are those of
// the keys, each served by one creator, in order.
func createAll(tb testing.TB, x *Index, count, fields, creators int) {
	var group sync.WaitGroup
	for c := range creators {
		group.Go(func() {
			next := make([]series.ID, benchShards)
			var key []byte
			// Each creator walks all devices and takes those whose shard is its own.
			for n := 0; n < count; n += fields {
				key = benchKey(key[:0], n, fields)
				shard := series.Key(key).Shard(benchShards)
				if int(shard)%creators != c {
					continue
				}
				for f := n; f < min(n+fields, count); f++ {
					key = benchKey(key[:0], f, fields)
					if _, err := x.Create(shard, next[shard], key, benchDay); err != nil {
						tb.Error(err)
						return
					}
					next[shard]++
				}
			}
		})
	}
	group.Wait()
}

func benchOpen(tb testing.TB, dir string, state State) *Index {
	x, err := Open(Options{FS: vfs.OS(), Dir: filepath.Join(dir, "index"), State: state})
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

func settle(x *Index) error {
	_, err := x.parts.current()
	for x.parts.mergeNext() {
	}
	if err == nil {
		_, err = x.Sync()
	}
	return err
}

// BenchmarkCreate makes 2 M series with two creators, until all are in postings.
func BenchmarkCreate(b *testing.B) {
	for _, fields := range []int{10, 1} {
		b.Run(fmt.Sprintf("fields=%d", fields), func(b *testing.B) {
			for b.Loop() {
				x := benchOpen(b, b.TempDir(), State{})
				runtime.GC()
				start, cpu := time.Now(), processorTime(b)
				createAll(b, x, benchSeries, fields, 2)
				created := time.Since(start)
				if _, err := x.parts.current(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64((processorTime(b)-cpu).Nanoseconds())/benchSeries, "cpu-ns/series")
				b.ReportMetric(benchSeries/created.Seconds()/1e6, "Mcreates/s")
				b.ReportMetric(benchSeries/time.Since(start).Seconds()/1e6, "Mseries/s")
				x.Close()
			}
		})
	}
}

// BenchmarkMemory measures what 2 M series take, all included.
func BenchmarkMemory(b *testing.B) {
	for _, fields := range []int{10, 1} {
		b.Run(fmt.Sprintf("fields=%d", fields), func(b *testing.B) {
			for b.Loop() {
				debug.FreeOSMemory()
				rss, file := status(b, "VmRSS"), status(b, "RssFile")
				x := benchOpen(b, b.TempDir(), State{})
				createAll(b, x, benchSeries, fields, 2)
				if err := settle(x); err != nil {
					b.Fatal(err)
				}
				var key []byte
				err := vfs.Guard(func() error { // touch every page of the mapping
					for local := range uint32(benchSeries) {
						key = append(key[:0], recordKey(x.keys.record(local))...)
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				before := status(b, "VmRSS")
				debug.FreeOSMemory()
				s := x.Stats()
				b.ReportMetric(float64(before-rss)/benchSeries, "B/series-before-GC")
				b.ReportMetric(float64(status(b, "VmRSS")-rss)/benchSeries, "B/series")
				b.ReportMetric(float64(status(b, "RssFile")-file)/benchSeries, "B/series-file")
				b.ReportMetric(float64(s.TableBytes)/benchSeries, "B/series-table")
				b.ReportMetric(float64(s.PartBytes)/benchSeries, "B/series-parts")
				b.ReportMetric(float64(s.OffsetBytes+s.ShardBytes+s.ActivityBytes)/benchSeries, "B/series-arrays")
				runtime.KeepAlive(x)
				x.Close()
			}
		})
	}
}

// BenchmarkOpen rebuilds everything from the key file.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	x := benchOpen(b, dir, State{})
	createAll(b, x, benchSeries, benchFields, 2)
	state, err := x.Sync()
	if err != nil {
		b.Fatal(err)
	}
	x.Close()
	state.Persisted = nil
	for b.Loop() {
		x = benchOpen(b, dir, state)
		x.Close()
	}
	b.ReportMetric(benchSeries*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mseries/s")
}

// BenchmarkOpenSilent maps what 10 M series have persisted, and returns what they take while they are silent.
func BenchmarkOpenSilent(b *testing.B) {
	const count = 10_000_000
	dir := b.TempDir()
	x := benchOpen(b, dir, State{})
	createAll(b, x, count, benchFields, 2)
	if err := settle(x); err != nil {
		b.Fatal(err)
	}
	state, err := x.Sync()
	if err != nil {
		b.Fatal(err)
	}
	x.Close()
	debug.FreeOSMemory()
	anonymous, all := status(b, "RssAnon"), status(b, "VmRSS")
	for b.Loop() {
		x = benchOpen(b, dir, state)
		b.StopTimer()
		debug.FreeOSMemory()
		b.ReportMetric(float64(status(b, "RssAnon")-anonymous)/count, "B/series-anonymous")
		b.ReportMetric(float64(status(b, "VmRSS")-all)/count, "B/series")
		x.Close()
		b.StartTimer()
	}
}

func BenchmarkResolve(b *testing.B) {
	x := benchOpen(b, b.TempDir(), State{})
	defer x.Close()
	createAll(b, x, benchSeries, benchFields, 1)
	if err := settle(x); err != nil {
		b.Fatal(err)
	}
	keys := make([]series.Key, 1<<16)
	random := rand.New(rand.NewPCG(1, 2))
	resolve := func(b *testing.B, hint uint32, follow bool) {
		b.ReportAllocs()
		err := vfs.Guard(func() error {
			for i := 0; b.Loop(); i++ {
				ref, ok := x.Resolve(hint, keys[i%len(keys)])
				if !ok {
					b.Fatal("not found")
				}
				if follow {
					hint = ref.Hint
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for i := range keys {
		keys[i] = benchKey(nil, random.IntN(benchSeries), benchFields)
	}
	b.Run("random", func(b *testing.B) { resolve(b, LocalNone, false) })
	// The successor of the last key is the first one's guess once in 65,536.
	batch := func(b *testing.B) {
		b.ReportAllocs()
		refs := make([]series.Ref, 200)
		err := vfs.Guard(func() error {
			for i := 0; b.Loop(); i++ {
				at := i % (len(keys) / 200) * 200
				if x.ResolveBatch(LocalNone, keys[at:at+200], refs) != 200 {
					b.Fatal("not found")
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200, "ns/key")
	}
	b.Run("random-batch", batch)
	for i := range keys {
		keys[i], _ = x.Key(uint32(i)+1_000_000, nil)
	}
	b.Run("next", func(b *testing.B) { resolve(b, LocalNone, true) })
	b.Run("next-batch", batch)
}

func BenchmarkMarkActive(b *testing.B) {
	x := benchOpen(b, b.TempDir(), State{})
	defer x.Close()
	createAll(b, x, 100_000, benchFields, 1)
	for i := 0; b.Loop(); i++ {
		x.MarkActive(benchDay, uint32(i)*7919%100_000)
	}
}

func BenchmarkSelect(b *testing.B) {
	x := benchOpen(b, b.TempDir(), State{})
	defer x.Close()
	createAll(b, x, benchSeries, benchFields, 2)
	if err := settle(x); err != nil {
		b.Fatal(err)
	}
	device := func(kind scan.MatchKind, values ...string) scan.Matcher {
		return scan.Matcher{Name: "device", Kind: kind, Values: values}
	}
	field := func(kind scan.MatchKind, values ...string) scan.Matcher {
		return scan.Matcher{Name: "_field", Kind: kind, Values: values}
	}
	for _, c := range []struct {
		name     string
		matchers []scan.Matcher
	}{
		{"one", []scan.Matcher{device(scan.MatchEqual, "d_12345"), field(scan.MatchEqual, "s_3")}},
		{"device", []scan.Matcher{device(scan.MatchEqual, "d_12345")}},
		{"device-not-field", []scan.Matcher{device(scan.MatchEqual, "d_12345"), field(scan.MatchNotEqual, "s_3")}},
		{"field-200k", []scan.Matcher{field(scan.MatchEqual, "s_3")}},
		{"prefix-11k", []scan.Matcher{device(scan.MatchRegexp, "d_12.*"), field(scan.MatchEqual, "s_3")}},
		{"regexp", []scan.Matcher{device(scan.MatchRegexp, "d_[0-9]*77"), field(scan.MatchEqual, "s_3")}},
		{"alternatives", []scan.Matcher{device(scan.MatchRegexp, "d_(1|2|3)[0-9]"), field(scan.MatchEqual, "s_3")}},
		{"all-2M", nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			var found []uint32
			var err error
			for b.Loop() {
				found, err = x.Select(context.Background(), &scan.Selector{Metric: "m", Matchers: c.matchers}, AllDays(), 0, found[:0])
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(found)), "series")
		})
	}
	b.Run("regexp-new", func(b *testing.B) { // never the same expression
		var found []uint32
		var err error
		for i := 0; b.Loop(); i++ {
			matchers := []scan.Matcher{device(scan.MatchRegexp, fmt.Sprintf("d_[0-9]*%03d%s", i%1000, strings.Repeat("(?:)", i/1000))), field(scan.MatchEqual, "s_3")}
			found, err = x.Select(context.Background(), &scan.Selector{Metric: "m", Matchers: matchers}, AllDays(), 0, found[:0])
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(found)), "series")
	})
	b.Run("tag-values-prefix", func(b *testing.B) {
		for b.Loop() {
			if v, err := x.NamesOf(nil).TagValues(context.Background(), "", "m", "device", "d_19", 25); err != nil || len(v) != 25 {
				b.Fatal(len(v), err)
			}
		}
	})
}

// BenchmarkTagValues lists the 200,000 values of a tag of 2 M series.
func BenchmarkTagValues(b *testing.B) {
	x := benchOpen(b, b.TempDir(), State{})
	defer x.Close()
	createAll(b, x, benchSeries, benchFields, 2)
	if err := settle(x); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if v, err := x.NamesOf(nil).TagValues(context.Background(), "", "m", "device", "", 0); err != nil || len(v) != benchSeries/benchFields {
			b.Fatal(len(v), err)
		}
	}
}
