package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/big"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"pgregory.net/rapid"
)

// naiveRollups is the plain definition: group by window, leave NaN out.
func naiveRollups(s samples, widthMs int64) map[int64][]float64 {
	windows := map[int64][]float64{}
	for t, bits := range s {
		if v := math.Float64frombits(bits); !math.IsNaN(v) {
			start := floorTo(t, widthMs)
			windows[start] = append(windows[start], v)
		}
	}
	return windows
}

// exactSum adds up with as many digits as it takes; ok is false for infinities.
func exactSum(values []float64) (sum, magnitude float64, ok bool) {
	total, absolute := new(big.Float).SetPrec(2200), new(big.Float).SetPrec(2200)
	for _, v := range values {
		if math.IsInf(v, 0) {
			return 0, 0, false
		}
		total.Add(total, new(big.Float).SetFloat64(v))
		absolute.Add(absolute, new(big.Float).SetFloat64(math.Abs(v)))
	}
	sum, _ = total.Float64()
	magnitude, _ = absolute.Float64()
	return sum, magnitude, true
}

// orderedSums adds up the samples of each hour, and then the hours.
func orderedSums(s samples, widthMs int64) map[int64]float64 {
	hours := map[int64]float64{}
	for _, t := range s.times() {
		if v := math.Float64frombits(s[t]); !math.IsNaN(v) {
			hours[floorTo(t, HourMs)] += v
		}
	}
	sums := map[int64]float64{}
	for _, hourMs := range slices.Sorted(maps.Keys(hours)) {
		sums[floorTo(hourMs, widthMs)] += hours[hourMs]
	}
	return sums
}

func checkRollups(t fatal, got []Rollup, s samples, widthMs int64) {
	t.Helper()
	want, sums := naiveRollups(s, widthMs), orderedSums(s, widthMs)
	if len(got) != len(want) {
		t.Fatalf("%d windows instead of %d", len(got), len(want))
	}
	last := int64(math.MinInt64)
	for _, r := range got {
		values, ok := want[r.StartMs]
		if ordered := sums[r.StartMs]; math.Float64bits(r.Sum) != math.Float64bits(ordered) && !(math.IsNaN(r.Sum) && math.IsNaN(ordered)) {
			t.Fatalf("window %+v: sum %v in order of time wanted", r, ordered)
		}
		if !ok || r.StartMs <= last || r.Count != int64(len(values)) {
			t.Fatalf("window %+v: %d samples wanted", r, len(values))
		}
		last = r.StartMs
		least, most := math.Inf(1), math.Inf(-1)
		for _, v := range values {
			least, most = math.Min(least, v), math.Max(most, v)
		}
		if r.Min != least || r.Max != most {
			t.Fatalf("window %+v: from %v to %v wanted", r, least, most)
		}
		sum, magnitude, finite := exactSum(values)
		if finite && !math.IsInf(magnitude, 0) && math.Abs(r.Sum-sum) > magnitude*1e-13+1e-300 {
			t.Fatalf("window %+v: sum %v wanted", r, sum)
		}
	}
}

// checkEnds compares the ends of rollups with those of the model, or with none.
func checkEnds(t fatal, r *Reader, got []Rollup, s samples, widthMs int64) {
	t.Helper()
	want := map[int64]Ends{}
	for _, at := range s.times() {
		v, start := math.Float64frombits(s[at]), floorTo(at, widthMs)
		if math.IsNaN(v) || widthMs == DayMs && !r.Meta().DayRollups || widthMs == HourMs && !r.Meta().HourEnds {
			continue
		}
		e, known := want[start]
		if !known {
			e.First, e.FirstMs = v, at
		}
		e.Last, e.LastMs = v, at
		if widthMs == DayMs && (!known || v < math.Float64frombits(s[e.MinMs])) {
			e.MinMs = at
		}
		if widthMs == DayMs && (!known || v > math.Float64frombits(s[e.MaxMs])) {
			e.MaxMs = at
		}
		want[start] = e
	}
	for _, r := range got {
		e := want[r.StartMs]
		if r.Ends != e || math.Float64bits(r.First) != math.Float64bits(e.First) || math.Float64bits(r.Last) != math.Float64bits(e.Last) {
			t.Fatalf("ends of %d: %+v, want %+v", r.StartMs, r.Ends, e)
		}
	}
}

// rollupsWithEnds returns all rollups of a series, with ends if the segment has them.
func rollupsWithEnds(t fatal, r *Reader, k seriesKey, widthMs int64) []Rollup {
	t.Helper()
	got, err := r.Rollups(nil, k.shard, k.id, math.MinInt64, math.MaxInt64, widthMs)
	if err == nil && widthMs == HourMs && r.Meta().HourEnds && len(got) > 0 {
		err = r.HourEnds(got, k.shard, k.id)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return got
}

func TestRollups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		partition := testPartition(rapid.SampledFrom([]Span{SpanTwoHours, SpanDay, SpanMonth}).Draw(t, "span"))
		if rapid.Bool().Draw(t, "odd") { // a partition that begins within an hour and lasts longer than an entry takes
			partition = Partition{dayStart + 12345, dayStart + 100*DayMs}
		}
		want := drawModel(t, partition, 200)
		meta := want.write(t, Options{FS: fs, Dir: dir, Partition: partition, Rollups: true, BlockSamples: 32}, 50)
		r := openSegment(t, fs, dir, &meta)
		defer release(t, r)
		checkDayDigests(t, r, want)
		if !meta.HourEnds || !r.Meta().HourEnds || meta.DayRollups != (partition.EndMs-partition.StartMs >= DayMs) || r.Meta().DayRollups != meta.DayRollups {
			t.Fatalf("rollups by day: %+v", meta)
		}
		for k, s := range want {
			for _, width := range []int64{HourMs, DayMs} {
				got := rollupsWithEnds(t, r, k, width)
				checkRollups(t, got, s, width)
				checkEnds(t, r, got, s, width)
				if len(got) > 2 {
					some, err := r.Rollups(nil, k.shard, k.id, got[1].StartMs, got[1].StartMs, width)
					if err == nil && width == HourMs && len(some) > 0 {
						err = r.HourEnds(some, k.shard, k.id)
					}
					if err != nil || len(some) != 1 || some[0] != got[1] && !math.IsNaN(got[1].Sum) {
						t.Fatalf("one window: %+v, %v", some, err)
					}
				}
			}
		}
		if got, err := r.Rollups(nil, 3, 1, math.MinInt64, math.MaxInt64, HourMs); err != nil || len(got) != 0 {
			t.Fatalf("a shard that is not there: %v, %v", got, err)
		}
	})
}

// Months of hours: several entries for one series.
func TestRollupsOfLongSeries(t *testing.T) {
	fs, dir := memFS(t)
	partition := Partition{dayStart, dayStart + 400*DayMs}
	want := model{}
	for id := range uint32(3) {
		for at := partition.StartMs; at < partition.EndMs; at += HourMs / 2 {
			want.put(seriesKey{0, id}, at, float64(at%977)/10)
		}
	}
	meta := want.write(t, Options{FS: fs, Dir: dir, Partition: partition, Rollups: true}, 1000)
	r := openSegment(t, fs, dir, &meta)
	defer release(t, r)
	checkDayDigests(t, r, want)
	for k, s := range want {
		for _, width := range []int64{HourMs, DayMs} {
			got := rollupsWithEnds(t, r, k, width)
			checkRollups(t, got, s, width)
			checkEnds(t, r, got, s, width)
		}
	}
	at := partition.StartMs + 333*DayMs
	got, err := r.Rollups(nil, 0, 1, at, at+5*DayMs, DayMs)
	if err != nil || len(got) != 6 || got[0].StartMs != at {
		t.Fatalf("%+v, %v", got, err)
	}
}

// A sum is that of the floats, in order of time, and not that of the decimals.
func TestRollupSumIsThatOfFloats(t *testing.T) {
	fs, dir := memFS(t)
	want, sum := model{}, 0.0
	for i := range int64(1000) {
		want.put(seriesKey{}, dayStart+i, 0.1)
		sum += 0.1
	}
	meta := want.write(t, Options{FS: fs, Dir: dir, Partition: testPartition(SpanDay), Rollups: true}, 10)
	r := openSegment(t, fs, dir, &meta)
	defer release(t, r)
	got, err := r.Rollups(nil, 0, 0, dayStart, dayStart, DayMs)
	if err != nil || len(got) != 1 || got[0].Sum != sum || sum == 100 || !meta.ScanSums {
		t.Fatalf("%+v, %v", got, err)
	}
}

// A file that was written before rollups told the sums of floats is read, and says so.
func TestRollupsOfVersionOne(t *testing.T) {
	r, err := Open(vfs.OS(), filepath.Join("testdata", "version1.seg"))
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, r)
	if err := r.Verify(t.Context()); err != nil || r.Meta().ScanSums || !r.Meta().Rollups {
		t.Fatal(r.Meta(), err)
	}
	if got, err := r.DayDigests(nil, 1, 0, math.MinInt64, math.MaxInt64); err != nil || len(got) != 0 || r.Meta().DayDigests {
		t.Fatal(got, err)
	}
	for id := range uint32(2) {
		for _, width := range []int64{HourMs, DayMs} {
			got, err := r.Rollups(nil, 1, id, math.MinInt64, math.MaxInt64, width)
			if err != nil || int64(len(got)) != 2*DayMs/width {
				t.Fatal(got, err)
			}
			for n, rollup := range got {
				const stepMs = 600_000
				hundredths := int64(0)
				for i := int64(n) * width / stepMs; i < int64(n+1)*width/stepMs; i++ {
					hundredths += i*i%977 + int64(id)
				}
				if want := float64(hundredths) / 100; rollup.Sum != want || rollup.Count != width/stepMs {
					t.Fatalf("%+v, want a sum of %v", rollup, want)
				}
			}
		}
	}
}

// Files that were written before rollups of days, or of hours, had ends are read, and say so; so are new ones
// after programs that know no such pages have given them another sequence.
func TestRollupsWithoutEnds(t *testing.T) {
	check := func(r *Reader, days bool) {
		if err := r.Verify(t.Context()); err != nil || !r.Meta().ScanSums || !r.Meta().DayDigests || r.Meta().DayRollups != days || r.Meta().HourEnds {
			t.Fatal(r.Meta(), err)
		}
		for id := range uint32(2) {
			s := samples{}
			for i := range int64(2 * 144) {
				s[dayStart+i*600_000] = math.Float64bits(float64(i*i%977+int64(id)) / 100)
			}
			for _, width := range []int64{HourMs, DayMs} {
				got := rollupsWithEnds(t, r, seriesKey{1, id}, width)
				checkRollups(t, got, s, width)
				checkEnds(t, r, got, s, width)
			}
		}
		release(t, r)
	}
	for name, days := range map[string]bool{"version2.seg": false, "version2days.seg": true} {
		r, err := Open(vfs.OS(), filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		check(r, days)
	}

	fs, dir := memFS(t)
	m := model{}
	for id := range uint32(2) {
		for i := range int64(2 * 144) {
			m.put(seriesKey{1, id}, dayStart+i*600_000, float64(i*i%977+int64(id))/100)
		}
	}
	meta := m.write(t, Options{FS: fs, Dir: dir, Partition: Partition{dayStart, dayStart + 2*DayMs}, Rollups: true}, 100)
	content := readFile(t, fs, path.Join(dir, meta.Name))
	footer := content[len(content)-footerBytes:]
	for _, flag := range []byte{flagHourEnds, flagDayRollups} {
		footer[49] &^= flag
		binary.LittleEndian.PutUint32(footer[116:], crc32.Checksum(footer[:116], castagnoli))
		check(openBytes(t, fs, path.Join(dir, fmt.Sprint("renumbered", flag)), content), flag != flagDayRollups)
	}
}

// A day belongs to a range that begins with it, whatever hour its samples begin at.
func TestRollupsOfDayThatBeginsLate(t *testing.T) {
	fs, dir := memFS(t)
	want := model{}
	want.put(seriesKey{}, dayStart+5*HourMs, 7)
	meta := want.write(t, Options{FS: fs, Dir: dir, Partition: testPartition(SpanDay), Rollups: true}, 10)
	r := openSegment(t, fs, dir, &meta)
	defer release(t, r)
	got, err := r.Rollups(nil, 0, 0, dayStart, dayStart, DayMs)
	if err != nil || len(got) != 1 || got[0].StartMs != dayStart || got[0].Sum != 7 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// What dst holds already stays as it is: two segments below a day, each with hours
// of the same day, give one rollup each.
func TestRollupsAppend(t *testing.T) {
	fs, dir := memFS(t)
	var got []Rollup
	for i := range int64(2) {
		partition := PartitionOf(dayStart+2*i*HourMs, SpanTwoHours)
		m := model{}
		for k := range int64(4) { // in two hours
			m.put(seriesKey{}, partition.StartMs+k*HourMs/2, float64(i+1))
		}
		meta := m.write(t, Options{FS: fs, Dir: dir, Partition: partition, Rollups: true}, 10)
		r := openSegment(t, fs, dir, &meta)
		var err error
		if got, err = r.Rollups(got, 0, 0, math.MinInt64, math.MaxInt64, DayMs); err != nil {
			t.Fatal(err)
		}
		release(t, r)
	}
	if len(got) != 2 || got[0].Sum != 4 || got[1].Sum != 8 || got[0].Count != 4 {
		t.Fatalf("%+v", got)
	}
}

// TestRollupsOutside: windows outside of the partition, and those of no samples, are damage.
func TestRollupsOutside(t *testing.T) {
	p := Partition{dayStart + 5, dayStart + 3*DayMs + 1} // four days, of the first and last a part
	record := func(gap, count uint64, ends bool) []byte {
		b := binary.AppendUvarint(binary.AppendUvarint(nil, gap<<1|1), count)
		if count == 0 {
			b = binary.AppendUvarint(nil, gap<<1)
		}
		if ends {
			return append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) // times, minimum to difference of sums, values
		}
		return append(b, 0, 0, 0, 0)
	}
	list := func(records ...[]byte) []byte {
		b := slices.Concat(records...)
		head := binary.LittleEndian.AppendUint16(binary.AppendUvarint(nil, uint64(len(records))), uint16(1+len(b)))
		return slices.Concat(head, []byte{0}, b)
	}
	for _, c := range []struct {
		what  string
		gaps  []uint64
		count uint64
		whole bool
	}{
		{"the last", []uint64{3}, 7, true},
		{"four", []uint64{0, 0, 0, 0}, 7, true},
		{"one behind", []uint64{4}, 7, false},
		{"five", []uint64{0, 0, 0, 0, 0}, 7, false},
		{"one at the end of time", []uint64{uint64((math.MaxInt64 - dayStart) / DayMs)}, 7, false},
		{"one before the first", []uint64{2, 1 << 63 / uint64(DayMs) * 2}, 7, false},
		{"the greatest gap", []uint64{1, math.MaxUint64 >> 1}, 7, false},
		{"no samples", []uint64{1}, 0, false},
	} {
		for _, ends := range []bool{true, false} {
			var records [][]byte
			for _, gap := range c.gaps {
				records = append(records, record(gap, c.count, ends))
			}
			body, kind := list(records...), pageDayRollups
			if !ends {
				body, kind = append([]byte{0}, body...), pageRollup
			}
			q := rollupQuery{fromMs: math.MinInt64, toMs: math.MaxInt64, widthMs: DayMs}
			if reason := q.readBody(body, kind, &Meta{Partition: p, ScanSums: true}); c.whole != (reason == "") {
				t.Errorf("%s, with ends %t: %q, %+v", c.what, ends, reason, q.dst)
			}
		}
	}
}

// TestEndsOfAnyTime: days and hours have their ends at any time that there is, after merges of files without them, too.
func TestEndsOfAnyTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		at := genTime().Draw(t, "time")
		month, k, want := PartitionOf(at, SpanMonth), seriesKey{}, model{}
		var readers []*Reader
		defer func() { release(t, readers...) }()
		for i := range 3 {
			m := model{}
			for range rapid.IntRange(1, 60).Draw(t, "samples") {
				sampleMs := rapid.Int64Range(max(month.StartMs, at-DayMs), min(month.EndMs-1, at+DayMs)).Draw(t, "at")
				m.put(k, sampleMs, genValue().Draw(t, "value"))
				want.put(k, sampleMs, math.Float64frombits(m[k][sampleMs]))
			}
			meta := m.write(t, Options{FS: fs, Dir: dir, Partition: month, SequenceLow: uint64(i), SequenceHigh: uint64(i), Rollups: i > 0}, 7)
			if i == 2 {
				if err := DropDayDigests(fs, path.Join(dir, meta.Name)); err != nil {
					t.Fatal(err)
				}
			}
			readers = append(readers, openSegment(t, fs, dir, &meta))
		}
		metas, err := Merge(t.Context(), readers, MergeOptions{Options: Options{FS: fs, Dir: dir, Partition: month, Level: 1, Rollups: true}})
		if err != nil {
			t.Fatal(err)
		}
		r := openSegment(t, fs, dir, &metas[0])
		readers = append(readers, r)
		days, err := r.Rollups(nil, 0, 0, math.MinInt64, math.MaxInt64, DayMs)
		if err == nil {
			err = r.Verify(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		checkRollups(t, days, want[k], DayMs)
		checkEnds(t, r, days, want[k], DayMs)
		checkEnds(t, r, rollupsWithEnds(t, r, k, HourMs), want[k], HourMs)
	})
}

// TestHourEndsThatDoNotFit: hours without ends, and ends beyond what the hours' rollups say, are damage.
func TestHourEndsThatDoNotFit(t *testing.T) {
	fs, dir := memFS(t)
	m := model{}
	for i := range int64(4) {
		m.put(seriesKey{}, dayStart+2*i*HourMs, float64(i))
	}
	meta := m.write(t, Options{FS: fs, Dir: dir, Partition: testPartition(SpanDay), Rollups: true}, 10)
	r := openSegment(t, fs, dir, &meta)
	defer release(t, r)
	for what, change := range map[string]func([]Rollup) []Rollup{
		"nothing":        func(hours []Rollup) []Rollup { return hours },
		"hours left out": func(hours []Rollup) []Rollup { return []Rollup{hours[1], hours[3]} },
		"an hour before": func(hours []Rollup) []Rollup {
			return append([]Rollup{{StartMs: dayStart - HourMs, Count: 1}}, hours...)
		},
		"an hour between": func(hours []Rollup) []Rollup {
			return append(hours[:1:1], Rollup{StartMs: dayStart + HourMs, Count: 1})
		},
		"an hour behind":      func(hours []Rollup) []Rollup { return append(hours, Rollup{StartMs: dayStart + 9*HourMs, Count: 1}) },
		"a lesser maximum":    func(hours []Rollup) []Rollup { hours[2].Max = 1.5; return hours },
		"a greater minimum":   func(hours []Rollup) []Rollup { hours[2].Min = 2.5; return hours },
		"a minimum of no use": func(hours []Rollup) []Rollup { hours[2].Min = math.NaN(); return hours },
	} {
		hours, err := r.Rollups(nil, 0, 0, math.MinInt64, math.MaxInt64, HourMs)
		if err != nil {
			t.Fatal(err)
		}
		hours = change(hours)
		err = r.HourEnds(hours, 0, 0)
		var corrupt *CorruptError
		if fits := what == "nothing" || what == "hours left out"; fits != (err == nil) || !fits && !errors.As(err, &corrupt) {
			t.Errorf("%s: %v", what, err)
		}
		for _, h := range hours {
			if want := (Ends{First: h.Min, Last: h.Min, FirstMs: h.StartMs, LastMs: h.StartMs}); err == nil && h.Ends != want || err != nil && h.Ends != (Ends{}) {
				t.Errorf("%s: %+v", what, h)
			}
		}
	}
}
