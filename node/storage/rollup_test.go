package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/read"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/storagetest"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// rollupLab is an engine with two series over some days, written in and out of order,
// deleted in parts, and merged at random.
type rollupLab struct {
	t       *testing.T
	fs      *vfs.MemFS
	e       *Engine
	rng     *rand.Rand
	applied uint64
}

const (
	rollupStartMs = 1_749_945_600_000 // a Sunday, 00:00
	rollupDays    = 5
)

func newRollupLab(t *testing.T, seed uint64) *rollupLab {
	fs := vfs.NewMemFS()
	e, err := Open(Options{FS: fs, Dir: "/data", Shards: 1, ExtentBytes: 64 << 10, SyncLog: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rollupLab{t: t, fs: fs, e: e, rng: rand.New(rand.NewPCG(seed, 7))}
}

func (l *rollupLab) apply(kind entry.Kind, body []byte) {
	l.t.Helper()
	l.applied++
	if err := l.e.Apply(0, &entry.Entry{Kind: kind, Term: 1, Index: l.applied, Body: body}); err != nil {
		l.t.Fatal(err)
	}
}

// write appends samples of a series: a stretch in order of time, somewhere.
func (l *rollupLab) write(id int, fromMs, stepMs int64, count int) {
	var batch series.BatchEncoder
	at := batch.Define(benchKey(id))
	nan := []float64{math.NaN(), math.Float64frombits(scan.StaleBits), 7}[l.applied%3]
	for i := range int64(count) {
		number := series.Number{Mantissa: l.rng.Int64N(20_000) - 5000, Scale: 2}
		switch l.rng.IntN(30) {
		case 0:
			number = series.FloatNumber(nan)
		case 1:
			number = series.FloatNumber(l.rng.NormFloat64())
		case 2:
			number = series.FloatNumber(math.Copysign(0, -1))
		}
		batch.Append(at, fromMs+i*stepMs, number.Mantissa, number.Scale)
	}
	l.apply(entry.Samples, samplesBody(batch.AppendTo(nil)))
}

func (l *rollupLab) someMs() int64 { return rollupStartMs + l.rng.Int64N(rollupDays*segment.DayMs) }

func (l *rollupLab) settle() {
	l.t.Helper()
	if err := l.e.Checkpoint(Checkpoint{Applied: []uint64{l.applied}, SealAll: true}); err != nil {
		l.t.Fatal(err)
	}
	if err := l.e.Flush(); err != nil {
		l.t.Fatal(err)
	}
	l.compact(l.rng.Int64N(2) * 60) // days, or months too
}

// compact merges what there is to merge so many days after the last one.
func (l *rollupLab) compact(days int64) {
	l.t.Helper()
	nowMs := rollupStartMs + (rollupDays+days)*segment.DayMs
	for more := true; more; {
		var err error
		if more, err = l.e.Compact(context.Background(), nowMs); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *rollupLab) step() {
	id := l.rng.IntN(2)
	switch l.rng.IntN(7) {
	case 6: // in the middle of an hour, or where one begins
		cutMs := rollupStartMs + l.rng.Int64N(2*segment.DayMs)
		cutMs -= l.rng.Int64N(2) * (cutMs % segment.HourMs)
		cuts := retention.Cuts{Rules: []retention.Cut{{Database: "^default$", Metric: "^cpu", CutMs: cutMs}}, OtherMs: retention.NoCut}
		l.apply(entry.RuleCuts, retention.Encode(&cuts))
	case 0:
		l.settle()
	case 1: // late samples
		l.write(id, l.someMs(), 1000, 1+l.rng.IntN(5))
	case 2:
		from := l.someMs()
		l.apply(entry.Delete, entry.DeleteBody([]uint32{uint32(id)}, from, from+l.rng.Int64N(segment.DayMs/4)))
	default:
		l.write(id, l.someMs(), 60_000, 200+l.rng.IntN(1000))
	}
}

// scanned returns what a scan finds of each series, as one chunk.
func (l *rollupLab) scanned(request *scan.Request) map[string]*scan.Chunk {
	l.t.Helper()
	found := map[string]*scan.Chunk{}
	request.Selector = scan.Selector{Metric: "cpu.usage"}
	err := l.e.Scan(context.Background(), request, func(_ int, c *scan.Chunk) error {
		have := found[string(c.Key)]
		if have == nil {
			have = &scan.Chunk{}
			found[string(c.Key)] = have
		}
		have.Times, have.Values = append(have.Times, c.Times...), append(have.Values, c.Values...)
		have.Sum, have.Count = append(have.Sum, c.Sum...), append(have.Count, c.Count...)
		have.Min, have.Max = append(have.Min, c.Min...), append(have.Max, c.Max...)
		have.First, have.Last = append(have.First, c.First...), append(have.Last, c.Last...)
		have.Digest = append(have.Digest, c.Digest...)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return found
}

// digestsByWindow is the definition.
func digestsByWindow(w *scan.Windows, times []int64, values []float64) (out scan.Chunk) {
	for i, t := range times {
		start := w.OriginMs + int64(math.Floor(float64(t-w.OriginMs)/float64(w.WidthMs)))*w.WidthMs
		if n := len(out.Times); n == 0 || out.Times[n-1] != start {
			out.Times, out.Count, out.Digest = append(out.Times, start), append(out.Count, 0), append(out.Digest, 0)
		}
		last := len(out.Times) - 1
		out.Count[last]++
		out.Digest[last] += scan.DigestSamples(times[i:i+1], values[i:i+1])
	}
	return out
}

func digestsOf(c *scan.Chunk) (text string) {
	for i := range c.Times {
		text += fmt.Sprintf("%d: %d %x\n", c.Times[i], c.Count[i], c.Digest[i])
	}
	return text
}

// checkDigests compares digests, whether they are recorded ones or not, with those of samples.
func (l *rollupLab) checkDigests(what string, fromMs, toMs int64, samples map[string]*scan.Chunk) {
	l.t.Helper()
	for _, recorded := range []bool{true, true, false} {
		w := &scan.Windows{
			WidthMs: (1 + l.rng.Int64N(3)) * segment.DayMs, OriginMs: []int64{0, rollupStartMs, rollupStartMs + segment.HourMs}[l.rng.IntN(3)],
			Aggregates: scan.AggregateDigest | scan.AggregateCount, RecordedDigests: recorded,
		}
		got := l.scanned(&scan.Request{FromMs: fromMs, ToMs: toMs, Windows: w})
		if len(got) != len(samples) {
			l.t.Fatalf("%s: digests of %d series instead of %d", what, len(got), len(samples))
		}
		for key, of := range samples {
			want := digestsByWindow(w, of.Times, of.Values)
			if a, b := digestsOf(got[key]), digestsOf(&want); a != b {
				l.t.Fatalf("%s: %+v in [%d, %d]:\n got %s\nwant %s", what, *w, fromMs, toMs, a, b)
			}
		}
	}
}

// checkSteps compares what steps, at whole hours and elsewhere, see of the samples with the slow model's.
func (l *rollupLab) checkSteps(what string, fromMs, toMs int64, samples map[string]*scan.Chunk) {
	l.t.Helper()
	model := modelOf(l.t, samples)
	for range 6 {
		s := &scan.Steps{
			FirstMs:  rollupStartMs + (l.rng.Int64N(4)-2)*[]int64{7 * segment.HourMs, segment.DayMs}[l.rng.IntN(2)] + l.rng.Int64N(5)/4,
			StepMs:   []int64{segment.HourMs, 2 * segment.HourMs, 7 * segment.HourMs, segment.DayMs, segment.HourMs / 2}[l.rng.IntN(5)],
			RangeMs:  []int64{300_000, segment.HourMs, segment.HourMs - 1, segment.HourMs + 1, segment.DayMs}[l.rng.IntN(5)],
			Function: []scan.StepFunction{scan.StepNewest, scan.StepLast, scan.StepPresent, scan.StepMax}[l.rng.IntN(4)],
		}
		s.LastMs = s.FirstMs + l.rng.Int64N(rollupDays*segment.DayMs/s.StepMs)*s.StepMs
		request := &scan.Request{FromMs: max(fromMs, s.FirstMs-s.RangeMs+1), ToMs: min(toMs, s.LastMs), Steps: s}
		l.compareWithModel(fmt.Sprintf("%s: %+v", what, *s), request, model)
	}
}

// samplesOf writes samples so that every bit shows.
func samplesOf(c *scan.Chunk) (text string) {
	if c == nil {
		return "none"
	}
	for i := range c.Times {
		text += fmt.Sprintf("%d: %x\n", c.Times[i], math.Float64bits(c.Values[i]))
	}
	return text
}

// windowsByHours is the definition: samples by hour, hours by day, days by window.
func windowsByHours(w *scan.Windows, times []int64, values []float64) (out scan.Chunk) {
	type sums struct{ window, day, hour float64 }
	var s sums
	startMs, hourMs, dayMs := int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64)
	last := func() int { return len(out.Times) - 1 }
	for i, t := range times {
		if math.IsNaN(values[i]) {
			continue
		}
		start := w.OriginMs + int64(math.Floor(float64(t-w.OriginMs)/float64(w.WidthMs)))*w.WidthMs
		hour := int64(math.Floor(float64(t)/3_600_000)) * 3_600_000
		day := int64(math.Floor(float64(t)/86_400_000)) * 86_400_000
		if start != startMs {
			s, startMs, hourMs, dayMs = sums{}, start, hour, day
			out.Times, out.Count, out.Sum = append(out.Times, start), append(out.Count, 0), append(out.Sum, 0)
			out.Min, out.Max = append(out.Min, math.Inf(1)), append(out.Max, math.Inf(-1))
			out.First, out.Last = append(out.First, values[i]), append(out.Last, 0)
		}
		if hour != hourMs {
			s.day, s.hour, hourMs = s.day+s.hour, 0, hour
		}
		if day != dayMs {
			s.window, s.day, dayMs = s.window+s.day, 0, day
		}
		s.hour += values[i]
		out.Count[last()]++
		out.Sum[last()] = s.window + (s.day + s.hour)
		out.Last[last()] = values[i]
		out.Min[last()], out.Max[last()] = math.Min(out.Min[last()], values[i]), math.Max(out.Max[last()], values[i])
	}
	return out
}

// check asks for windows and compares every bit with those of the samples.
func (l *rollupLab) check(what string) {
	l.t.Helper()
	fromMs := rollupStartMs + l.rng.Int64N(4)*segment.HourMs*7
	toMs := fromMs + l.rng.Int64N(rollupDays*segment.DayMs)
	if l.rng.IntN(2) == 0 {
		fromMs, toMs = scan.TimeMsMin, scan.TimeMsMax
	}
	samples := l.scanned(&scan.Request{FromMs: fromMs, ToMs: toMs})
	l.checkDigests(what, fromMs, toMs, samples)
	l.checkSteps(what, fromMs, toMs, samples)
	widths := []int64{segment.HourMs, 3 * segment.HourMs, segment.DayMs, 2 * segment.DayMs, 7 * segment.DayMs, 5*segment.HourMs + 1, segment.DayMs + 77, 90 * 60_000}
	origins := []int64{0, rollupStartMs, rollupStartMs + 1, rollupStartMs + segment.HourMs, rollupStartMs - 1800_000}
	for range 6 {
		w := &scan.Windows{
			WidthMs: widths[l.rng.IntN(len(widths))], OriginMs: origins[l.rng.IntN(len(origins))],
			Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax,
		}
		if l.rng.IntN(2) == 0 {
			w.Aggregates |= scan.AggregateFirst | scan.AggregateLast
		}
		got := l.scanned(&scan.Request{FromMs: fromMs, ToMs: toMs, Windows: w})
		for key, of := range samples {
			want := windowsByHours(w, of.Times, of.Values)
			if w.Aggregates&scan.AggregateFirst == 0 {
				want.First, want.Last = nil, nil
			}
			have := got[key]
			if have == nil {
				have = &scan.Chunk{}
			}
			if a, b := bitsOf(have), bitsOf(&want); a != b {
				l.t.Fatalf("%s: %+v in [%d, %d]:\n got %s\nwant %s", what, *w, fromMs, toMs, a, b)
			}
			delete(got, key)
		}
		if len(got) > 0 {
			l.t.Fatalf("%s: %d series have windows but no samples", what, len(got))
		}
	}
}

// bitsOf writes windows so that every bit of their sums shows.
func bitsOf(c *scan.Chunk) (text string) {
	for i := range c.Times {
		text += fmt.Sprintf("%d: %d %x %v %v", c.Times[i], c.Count[i], math.Float64bits(c.Sum[i]), c.Min[i]+0, c.Max[i]+0)
		if len(c.First) > 0 {
			text += fmt.Sprintf(", from %x to %x", math.Float64bits(c.First[i]), math.Float64bits(c.Last[i]))
		}
		text += "\n"
	}
	return text
}

// TestRollupsHaveTheBitsOfSamples: whatever was written late, deleted or merged, windows
// have the same bits; and rollups do stand for samples where nothing disturbs them.
func TestRollupsHaveTheBitsOfSamples(t *testing.T) {
	used := int64(0)
	for seed := range uint64(storagetest.Seeds(12)) {
		l := newRollupLab(t, seed)
		for step := range 16 {
			l.step()
			l.check(fmt.Sprintf("seed %d, step %d", seed, step))
		}
		l.settle()
		l.check(fmt.Sprintf("seed %d, settled", seed))
		used += l.e.Stats().ScannedRollups
	}
	if used == 0 {
		t.Error("no rollup was used")
	}
}

// TestRollupsSpareSamples: in five settled days of which one hour has a late sample, only
// that hour's samples are read, and those of windows that cut an hour.
func TestRollupsSpareSamples(t *testing.T) {
	l := newRollupLab(t, 1)
	const perHour = 60
	l.write(0, rollupStartMs, 60_000, rollupDays*24*perHour)
	l.settle()
	l.compact(2)
	all := &scan.Windows{OriginMs: rollupStartMs, WidthMs: segment.HourMs, Aggregates: scan.AggregateMax | scan.AggregateSum}
	read := func(w *scan.Windows) (samples, rollups int64) {
		before := l.e.Stats()
		l.scanned(&scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Windows: w})
		after := l.e.Stats()
		rollups = after.ScannedRollups - before.ScannedRollups
		return after.ScannedSamples - before.ScannedSamples - rollups, rollups
	}
	if samples, rollups := read(all); samples != 0 || rollups != rollupDays*24 {
		t.Errorf("%d samples and %d rollups of hours", samples, rollups)
	}
	days := &scan.Windows{OriginMs: rollupStartMs, WidthMs: segment.DayMs, Aggregates: scan.AggregateCount}
	if samples, rollups := read(days); samples != 0 || rollups != rollupDays {
		t.Errorf("%d samples and %d rollups of days", samples, rollups)
	}
	cut := &scan.Windows{OriginMs: rollupStartMs + 1, WidthMs: segment.DayMs, Aggregates: scan.AggregateMin}
	if samples, rollups := read(cut); samples != rollupDays*perHour || rollups != rollupDays*23 {
		t.Errorf("%d samples and %d rollups of days that cut hours", samples, rollups)
	}
	l.write(0, rollupStartMs+30*segment.HourMs+5, 1, 1)
	if samples, rollups := read(all); samples != perHour+1 || rollups != rollupDays*24-1 {
		t.Errorf("%d samples and %d rollups beside a late one", samples, rollups)
	}
	l.settle()
	l.compact(60)
	if samples, rollups := read(all); samples != 0 || rollups != rollupDays*24 {
		t.Errorf("%d samples and %d rollups after the late one was merged", samples, rollups)
	}
	if samples, rollups := read(&scan.Windows{WidthMs: segment.HourMs, Aggregates: scan.AggregateFirst | scan.AggregateLast}); rollups != rollupDays*24 || samples != 0 {
		t.Errorf("%d samples and %d rollups of first and last values by hour", samples, rollups)
	}
	if samples, rollups := read(&scan.Windows{WidthMs: segment.DayMs, Aggregates: scan.AggregateFirst | scan.AggregateLast}); rollups != rollupDays || samples != 0 {
		t.Errorf("%d samples and %d rollups of first and last values by day", samples, rollups)
	}
	whole := &scan.Windows{OriginMs: rollupStartMs + 1, WidthMs: 100 * segment.DayMs, Aggregates: scan.AggregateLast}
	if samples, rollups := read(whole); rollups != rollupDays-1 || samples != 24*perHour {
		t.Errorf("%d samples and %d rollups of last values of windows that cut one day", samples, rollups)
	}
}

// TestDayDigestsSpareSamples: recorded digests are read instead of samples, but of the day that
// has a late sample; and only when they are asked for.
func TestDayDigestsSpareSamples(t *testing.T) {
	l := newRollupLab(t, 1)
	const perDay = 24 * 60
	l.write(0, rollupStartMs, 60_000, rollupDays*perDay)
	l.settle()
	l.compact(2)
	read := func(recorded bool) (samples, digests int64) {
		before := l.e.Stats()
		l.scanned(&scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Windows: &scan.Windows{
			WidthMs: segment.DayMs, Aggregates: scan.AggregateDigest | scan.AggregateCount, RecordedDigests: recorded,
		}})
		after := l.e.Stats()
		digests = after.ScannedRollups - before.ScannedRollups
		return after.ScannedSamples - before.ScannedSamples - digests, digests
	}
	expect := func(what string, recorded bool, samples, digests int64) {
		t.Helper()
		if s, d := read(recorded); s != samples || d != digests {
			t.Errorf("%s: %d samples and %d digests were read, not %d and %d", what, s, d, samples, digests)
		}
	}
	expect("settled", true, 0, rollupDays)
	expect("settled, read", false, rollupDays*perDay, 0)
	l.write(0, rollupStartMs+30*segment.HourMs+5, 1, 1)
	expect("beside a late sample", true, perDay+1, rollupDays-1)
	l.settle()
	l.compact(60)
	expect("after the late one was merged", true, 0, rollupDays)
	l.apply(entry.Delete, entry.DeleteBody([]uint32{0}, rollupStartMs+5, rollupStartMs+segment.HourMs))
	expect("beside a delete", true, perDay-60, rollupDays-1)
}

// TestDayDigestsLackSamples: digests that do not tell of all samples of a series, though their checksums are
// right, are no answer: the samples are read. Damage is reported once, not by each scan.
func TestDayDigestsLackSamples(t *testing.T) {
	l := newRollupLab(t, 4)
	const perDay = 24 * 60
	l.write(0, rollupStartMs, 60_000, rollupDays*perDay)
	l.settle()
	l.compact(60)
	request := func(recorded bool) *scan.Request {
		return &scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Windows: &scan.Windows{
			WidthMs: segment.DayMs, Aggregates: scan.AggregateDigest | scan.AggregateCount, RecordedDigests: recorded,
		}}
	}
	key := benchKey(0)
	want := l.scanned(request(false))[string(key)]
	file, content := l.segmentContent()
	defer file.Close()
	page, at := dayDigestPage(content)
	forgeDayCount(t, page, want.Digest[0], perDay, perDay-1)
	if _, err := file.WriteAt(page, at); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		before := l.e.Stats()
		got := l.scanned(request(true))[string(key)]
		after := l.e.Stats()
		if a, b := digestsOf(got), digestsOf(want); a != b {
			t.Fatalf("got %s\nwant %s", a, b)
		}
		if n := after.ScannedSamples - before.ScannedSamples; n != rollupDays*perDay || after.Corruptions != 1 {
			t.Fatalf("%d samples were read, and %d damages reported", n, after.Corruptions)
		}
	}
}

// TestDamagedDayDigestsMove: a shard whose samples are whole is copied without its digests by day if these are
// damaged, and with them if not.
func TestDamagedDayDigestsMove(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprint(damaged), func(t *testing.T) {
			from, to := newRollupLab(t, 5), newRollupLab(t, 6)
			for id := range 2 {
				from.write(id, rollupStartMs, 60_000, rollupDays*24*60)
			}
			from.settle()
			from.compact(60)
			request := &scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Windows: &scan.Windows{
				WidthMs: segment.DayMs, Aggregates: scan.AggregateDigest | scan.AggregateCount, RecordedDigests: true,
			}}
			want := from.scanned(request)
			if damaged {
				from.damageDayDigests()
			}
			x, err := from.e.ExportShard(0)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if _, err := to.e.InstallShard(context.Background(), 0, 0, x.OpenAt(0)); err != nil {
				t.Fatal(err)
			}
			segments := to.e.files.Current().Segments
			if len(segments) != 1 || segments[0].Meta().DayDigests == damaged {
				t.Fatalf("%d segments, %+v", len(segments), segments[0].Meta())
			}
			if err := segments[0].Verify(context.Background()); err != nil {
				t.Fatal(err)
			}
			for key, got := range to.scanned(request) {
				if a, b := digestsOf(got), digestsOf(want[key]); a != b {
					t.Fatalf("%s: got %s\nwant %s", key, a, b)
				}
			}
		})
	}
}

// damageDayDigests changes a byte of the only page of day digests of the only segment: FORMAT.md.
func (l *rollupLab) damageDayDigests() {
	l.t.Helper()
	file, content := l.segmentContent()
	defer file.Close()
	_, at := dayDigestPage(content)
	if _, err := file.WriteAt([]byte{content[at+3] ^ 1}, at+3); err != nil {
		l.t.Fatal(err)
	}
}

// segmentContent returns the only segment's file, and what it has.
func (l *rollupLab) segmentContent() (vfs.File, []byte) {
	l.t.Helper()
	meta := l.e.files.Current().Segments[0].Meta()
	file, err := l.fs.OpenReadWrite("/data/" + dirSegments + "/" + meta.Name)
	if err != nil {
		l.t.Fatal(err)
	}
	content := make([]byte, meta.Bytes)
	if _, err := file.ReadAt(content, 0); err != nil {
		l.t.Fatal(err)
	}
	return file, content
}

// dayDigestPage returns the only page of day digests of a file with one shard, and where it is.
func dayDigestPage(content []byte) (page []byte, offset int64) {
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	const footerBytes, shardEntryBytes, pageEntryBytes, crcBytes = 128, 80, 24, 4
	entry := content[len(content)-footerBytes-shardEntryBytes:]
	begin, end := u64(entry[16:]), u64(entry[16:])+u64(entry[24:])
	directory := content[end-crcBytes-uint64(u32(entry[4:])+u32(entry[8:]))*pageEntryBytes-crcBytes-pageEntryBytes:]
	offset = int64(begin + u64(directory[8:]))
	return content[offset:][:u32(directory[4:])], offset
}

// forgeDayCount changes the number of samples in the record of a digest, in a page of day digests of shard 0,
// and puts its checksum right.
func forgeDayCount(t *testing.T, page []byte, digest uint64, count, forged uint64) {
	t.Helper()
	const crcBytes, kind = 4, 3
	record := func(count uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.AppendUvarint(nil, count), digest)
	}
	at := bytes.Index(page, record(count))
	if at < 0 || len(record(count)) != len(record(forged)) {
		t.Fatalf("no record of %d samples with digest %x", count, digest)
	}
	copy(page[at:], record(forged))
	body := page[:len(page)-crcBytes]
	binary.LittleEndian.PutUint32(page[len(body):], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))^kind<<16)
}

// TestDamagedRollups: with any byte of a segment changed, windows are right or an error.
// Of damaged rollups they are right, as the samples are there.
func TestDamagedRollups(t *testing.T) {
	t.Run("hours", func(t *testing.T) {
		testDamagedRollups(t, scan.Request{Windows: &scan.Windows{
			WidthMs: segment.HourMs, Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax,
		}}, bitsOf, func(m *segment.Meta) (from, step int64) { return 0, m.Bytes/200 + 1 })
	})
	t.Run("ends of hours", func(t *testing.T) { // which lie at the end
		testDamagedRollups(t, scan.Request{Windows: &scan.Windows{
			WidthMs: segment.HourMs, Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast,
		}}, bitsOf, func(m *segment.Meta) (from, step int64) { return m.Bytes - 1500, 7 })
	})
	t.Run("steps", func(t *testing.T) {
		testDamagedRollups(t, scan.Request{Steps: &scan.Steps{
			FirstMs: rollupStartMs, StepMs: segment.HourMs, LastMs: rollupStartMs + rollupDays*segment.DayMs, RangeMs: 300_000, Function: scan.StepNewest,
		}}, samplesOf, func(m *segment.Meta) (from, step int64) { return m.Bytes - 2500, 11 })
	})
	t.Run("steps of days", func(t *testing.T) {
		testDamagedRollups(t, scan.Request{Steps: &scan.Steps{
			FirstMs: rollupStartMs, StepMs: segment.DayMs, LastMs: rollupStartMs + rollupDays*segment.DayMs, RangeMs: 300_000, Function: scan.StepLast,
		}}, samplesOf, func(m *segment.Meta) (from, step int64) { return m.Bytes - 900, 4 })
	})
	t.Run("digests", func(t *testing.T) { // which lie at the end
		testDamagedRollups(t, scan.Request{Windows: &scan.Windows{
			WidthMs: segment.DayMs, Aggregates: scan.AggregateDigest | scan.AggregateCount, RecordedDigests: true,
		}}, digestsOf, func(m *segment.Meta) (from, step int64) { return m.Bytes - 700, 3 })
	})
	t.Run("days", func(t *testing.T) { // which lie there, too
		testDamagedRollups(t, scan.Request{Windows: &scan.Windows{
			WidthMs: segment.DayMs, Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast,
		}}, bitsOf, func(m *segment.Meta) (from, step int64) { return m.Bytes - 900, 4 })
	})
}

func testDamagedRollups(t *testing.T, question scan.Request, textOf func(*scan.Chunk) string, places func(*segment.Meta) (from, step int64)) {
	l := newRollupLab(t, 3)
	for range 3 { // the third one has no NaN
		l.write(0, rollupStartMs, 60_000, rollupDays*24*60)
	}
	l.settle()
	l.compact(60)
	question.Selector, question.FromMs, question.ToMs = scan.Selector{Metric: "cpu.usage"}, scan.TimeMsMin, scan.TimeMsMax
	request := func() *scan.Request { r := question; return &r }
	var want string
	for _, c := range l.scanned(request()) {
		want = textOf(c)
	}
	v := l.e.files.Current()
	if len(v.Segments) != 1 || l.e.Stats().ScannedRollups == 0 {
		t.Fatalf("%d segments, %d rollups read", len(v.Segments), l.e.Stats().ScannedRollups)
	}
	meta := v.Segments[0].Meta()
	file, err := l.fs.OpenReadWrite("/data/" + dirSegments + "/" + meta.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mended := 0
	var b [1]byte
	for at, step := places(meta); at < meta.Bytes; at += step {
		for range 2 { // change it, and back
			if _, err := file.ReadAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			b[0] ^= 0x10
			if _, err := file.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			before := l.e.Stats()
			got := &scan.Chunk{}
			err := l.e.Scan(context.Background(), request(), func(_ int, c *scan.Chunk) error {
				got.Times, got.Sum, got.Count = append(got.Times, c.Times...), append(got.Sum, c.Sum...), append(got.Count, c.Count...)
				got.Min, got.Max = append(got.Min, c.Min...), append(got.Max, c.Max...)
				got.First, got.Last = append(got.First, c.First...), append(got.Last, c.Last...)
				got.Digest, got.Values = append(got.Digest, c.Digest...), append(got.Values, c.Values...)
				return nil
			})
			after := l.e.Stats()
			switch {
			case err != nil:
			case textOf(got) != want:
				t.Fatalf("with byte %d changed:\n got %s\nwant %s", at, textOf(got), want)
			case after.ScannedRollups == before.ScannedRollups:
				mended++
			}
		}
	}
	if mended == 0 {
		t.Error("no scan was answered in spite of damaged rollups")
	}
}

// TestManyRollups: more hours than are held at once.
func TestManyRollups(t *testing.T) {
	l := newRollupLab(t, 5)
	const hours = 2*read.RollupsAtOnce + 100
	l.write(0, rollupStartMs, segment.HourMs/2, 2*hours)
	l.settle()
	l.compact(200)
	w := &scan.Windows{WidthMs: segment.HourMs, Aggregates: scan.AggregateSum | scan.AggregateCount | scan.AggregateMin | scan.AggregateMax | scan.AggregateFirst | scan.AggregateLast}
	samples := l.scanned(&scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax})
	got := l.scanned(&scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Windows: w})
	for key, of := range samples {
		want := windowsByHours(w, of.Times, of.Values)
		if a, b := bitsOf(got[key]), bitsOf(&want); a != b || len(want.Times) < hours-100 {
			t.Fatalf("%d windows differ from %d", len(got[key].Times), len(want.Times))
		}
	}
	if n := l.e.Stats().ScannedRollups; n < hours-100 {
		t.Errorf("%d rollups were read", n)
	}
}

// TestStepsAtHoursSpareSamples: of what steps at whole hours or days can see the first and the last samples of these are read, but of days
// that have a marker of staleness or a late sample, and of what the range cuts, all.
func TestStepsAtHoursSpareSamples(t *testing.T) {
	l := newRollupLab(t, 1)
	const perDay = 24 * 60
	put := func(fromMs, stepMs int64, count int, value float64) {
		var batch series.BatchEncoder
		at, number := batch.Define(benchKey(0)), series.DecimalOf(value, 0)
		for i := range int64(count) {
			batch.Append(at, fromMs+i*stepMs, number.Mantissa, number.Scale)
		}
		l.apply(entry.Samples, samplesBody(batch.AppendTo(nil)))
		l.settle()
		l.compact(60)
	}
	put(rollupStartMs, 60_000, rollupDays*perDay, 7.25)
	read := func(first, step int64, function scan.StepFunction) (samples, hours int64) {
		before := l.e.Stats()
		l.scanned(&scan.Request{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax, Steps: &scan.Steps{
			FirstMs: rollupStartMs + first, StepMs: step, LastMs: rollupStartMs + rollupDays*segment.DayMs, RangeMs: 300_000, Function: function,
		}})
		after := l.e.Stats()
		hours = after.ScannedRollups - before.ScannedRollups
		return after.ScannedSamples - before.ScannedSamples - hours, hours
	}
	expect := func(what string, samples, hours, wantSamples, wantHours int64) {
		t.Helper()
		if samples != wantSamples || hours != wantHours {
			t.Errorf("%s: %d samples and %d hours, not %d and %d", what, samples, hours, wantSamples, wantHours)
		}
	}
	for _, f := range []scan.StepFunction{scan.StepNewest, scan.StepLast, scan.StepPresent} {
		samples, days := read(0, segment.DayMs, f)
		expect("days", samples, days, 0, rollupDays)
		samples, days = read(segment.DayMs, 2*segment.DayMs, f)
		expect("every other day", samples, days, 0, rollupDays)
		samples, hours := read(segment.HourMs, 3*segment.HourMs, f)
		expect("hours", samples, hours, 0, rollupDays*24)
		samples, hours = read(1, segment.DayMs, f)
		expect("steps beside hours", samples, hours, rollupDays*perDay, 0)
		samples, hours = read(0, segment.HourMs/2, f)
		expect("steps of half an hour", samples, hours, rollupDays*perDay, 0)
	}
	samples, hours := read(0, segment.HourMs, scan.StepAvg)
	expect("another function", samples, hours, rollupDays*perDay, 0)

	put(rollupStartMs+segment.DayMs+5, 1, 1, math.Float64frombits(scan.StaleBits))
	samples, hours = read(0, segment.HourMs, scan.StepNewest)
	expect("with a marker", samples, hours, perDay+1, (rollupDays-1)*24)
	samples, days := read(0, segment.DayMs, scan.StepNewest)
	expect("days with a marker", samples, days, perDay+1, rollupDays-1)

	l.write(0, rollupStartMs+3*segment.DayMs+77, 1, 1)
	samples, hours = read(0, segment.HourMs, scan.StepNewest)
	expect("with a marker and a late sample", samples, hours, 2*perDay+2, (rollupDays-2)*24)
}
