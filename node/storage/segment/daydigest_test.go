package segment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"path"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"pgregory.net/rapid"
)

// naiveDayDigests is the plain definition: all samples by day, one after the other.
func naiveDayDigests(s samples) []Rollup {
	var days []Rollup
	for _, t := range s.times() {
		startMs := floorTo(t, DayMs)
		if n := len(days); n == 0 || days[n-1].StartMs != startMs {
			days = append(days, Rollup{StartMs: startMs})
		}
		day := &days[len(days)-1]
		day.Count++
		day.Digest += scan.DigestSamples([]int64{t}, []float64{math.Float64frombits(s[t])})
	}
	return days
}

// checkDayDigests compares the day digests of all series with those of the model.
func checkDayDigests(t fatal, r *Reader, m model) {
	t.Helper()
	for k, s := range m {
		want := naiveDayDigests(s)
		got, err := r.DayDigests(nil, k.shard, k.id, math.MinInt64, math.MaxInt64)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("series %v: %+v instead of %+v, %v", k, got, want, err)
		}
		for _, i := range []int{0, len(want) / 2, len(want) - 1} {
			if got, err := r.DayDigests(nil, k.shard, k.id, want[i].StartMs, want[i].StartMs); err != nil || !slices.Equal(got, want[i:i+1]) {
				t.Fatalf("series %v on one day: %+v instead of %+v, %v", k, got, want[i], err)
			}
		}
	}
}

// TestDayDigestsThroughMerges: what was replaced or hidden is not in the digests of a merge, and
// the file of one shard has those of the file that it comes from.
func TestDayDigestsThroughMerges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		month := testPartition(SpanMonth)
		want := model{}
		var inputs []*Reader
		for i := range uint64(rapid.IntRange(1, 3).Draw(t, "inputs")) {
			m := drawModel(t, month, 100)
			meta := m.write(t, Options{FS: fs, Dir: dir, Partition: month, SequenceLow: i, SequenceHigh: i, Rollups: rapid.Bool().Draw(t, "rollups"), BlockSamples: 16}, 30)
			inputs = append(inputs, openSegment(t, fs, dir, &meta))
			for k, s := range m {
				for at, bits := range s {
					want.put(k, at, math.Float64frombits(bits))
				}
			}
		}
		defer release(t, inputs...)
		hidden := TimeRange{month.StartMs + rapid.Int64Range(0, 20*DayMs).Draw(t, "hidden"), month.StartMs + rapid.Int64Range(0, 20*DayMs).Draw(t, "to")}
		for k, s := range want {
			for at := range s {
				if hidden.Has(at) {
					delete(s, at)
				}
			}
			if len(s) == 0 {
				delete(want, k)
			}
		}
		metas, err := Merge(context.Background(), inputs, MergeOptions{
			Options: Options{FS: fs, Dir: dir, Partition: month, Level: 1, Rollups: true, BlockSamples: 16},
			Hidden:  func(dst []TimeRange, _ *Meta, _ uint16, _ uint32) []TimeRange { return append(dst, hidden) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(metas) == 0 {
			if len(want) > 0 {
				t.Fatal("nothing is left")
			}
			return
		}
		r := openSegment(t, fs, dir, &metas[0])
		defer release(t, r)
		if err := r.Verify(context.Background()); err != nil || !r.Meta().DayDigests {
			t.Fatal(r.Meta(), err)
		}
		checkDayDigests(t, r, want)
		for _, info := range r.Shards() {
			var file bytes.Buffer
			meta, err := r.ExportShard(context.Background(), &file, info.Shard)
			if err != nil {
				t.Fatal(err)
			}
			part := openBytes(t, fs, path.Join(dir, "part"), file.Bytes())
			defer release(t, part)
			if err := part.Verify(context.Background()); err != nil || !meta.DayDigests {
				t.Fatal(meta, err)
			}
			of := model{}
			for k, s := range want {
				if k.shard == info.Shard {
					of[k] = s
				}
			}
			checkDayDigests(t, part, of)
		}
	})
}

// TestDayDigestsAreCarried: of files within one day, which have no rollups, a merge adds up the digests, less what was replaced or
// hidden. Where those of an input are damaged, or it has none, the output has none, and all else.
func TestDayDigestsAreCarried(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs, dir := memFS2(t)
		hours := testPartition(SpanTwoHours)
		want, damaged, without := model{}, rapid.IntRange(-6, 2).Draw(t, "damaged"), rapid.IntRange(-6, 2).Draw(t, "without")
		var inputs []*Reader
		complete := true
		for i := range uint64(rapid.IntRange(1, 3).Draw(t, "inputs")) {
			m := drawModel(t, hours, 100)
			meta := m.write(t, Options{FS: fs, Dir: dir, Partition: hours, SequenceLow: i, SequenceHigh: i, Digests: int(i) != without, BlockSamples: 16}, 30)
			r := openSegment(t, fs, dir, &meta)
			checkDigests := func() {
				if meta.Rollups || meta.DayDigests != (int(i) != without) {
					t.Fatal(meta)
				}
				if err := r.Verify(context.Background()); err != nil {
					t.Fatal(err)
				}
				if meta.DayDigests {
					checkDayDigests(t, r, m)
				}
			}
			checkDigests()
			if int(i) == damaged && meta.DayDigests {
				release(t, r)
				content, err := vfs.ReadFile(fs, path.Join(dir, meta.Name))
				if err != nil {
					t.Fatal(err)
				}
				at := bytes.LastIndex(content, binary.LittleEndian.AppendUint64(nil, naiveDayDigests(m[lastOf(m)])[0].Digest))
				content[at] ^= 1
				if err := vfs.WriteFile(fs, path.Join(dir, meta.Name), content); err != nil {
					t.Fatal(err)
				}
				r = openSegment(t, fs, dir, &meta)
			}
			complete = complete && int(i) != damaged && meta.DayDigests
			inputs = append(inputs, r)
			for k, s := range m {
				for at, bits := range s {
					want.put(k, at, math.Float64frombits(bits))
				}
			}
		}
		defer release(t, inputs...)
		hidden := TimeRange{hours.StartMs + rapid.Int64Range(0, 2*HourMs).Draw(t, "hidden"), hours.StartMs + rapid.Int64Range(0, 2*HourMs).Draw(t, "to")}
		for k, s := range want {
			maps.DeleteFunc(s, func(at int64, _ uint64) bool { return hidden.Has(at) })
			if len(s) == 0 {
				delete(want, k)
			}
		}
		metas, err := Merge(context.Background(), inputs, MergeOptions{
			Options: Options{FS: fs, Dir: dir, Partition: hours, Level: 1, BlockSamples: 16},
			Hidden:  func(dst []TimeRange, _ *Meta, _ uint16, _ uint32) []TimeRange { return append(dst, hidden) },
		})
		if err != nil || len(metas) != min(1, len(want)) {
			t.Fatal(len(metas), len(want), err)
		}
		if len(want) == 0 {
			return
		}
		r := openSegment(t, fs, dir, &metas[0])
		defer release(t, r)
		if err := r.Verify(context.Background()); err != nil || r.Meta().DayDigests != complete {
			t.Fatal(r.Meta(), complete, err)
		}
		if complete {
			checkDayDigests(t, r, want)
		} else {
			checkNoDigestsOf(t, r, want)
		}
	})
}

// lastOf returns the last series of a model.
func lastOf(m model) seriesKey {
	return slices.MaxFunc(slices.Collect(maps.Keys(m)), func(a, b seriesKey) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.id, b.id))
	})
}

func checkNoDigestsOf(t fatal, r *Reader, m model) {
	t.Helper()
	for k := range m {
		if got, err := r.DayDigests(nil, k.shard, k.id, math.MinInt64, math.MaxInt64); err != nil || len(got) != 0 {
			t.Fatalf("series %v: %+v, %v", k, got, err)
		}
	}
}

func openBytes(t fatal, fs vfs.FS, name string, content []byte) *Reader {
	t.Helper()
	if err := vfs.WriteFile(fs, name, content); err != nil {
		t.Fatalf("%v", err)
	}
	r, err := Open(fs, name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r
}

// TestDayDigestsOfNaN: days of which no rollup tells, as all samples are NaN, have digests.
func TestDayDigestsOfNaN(t *testing.T) {
	fs, dir := memFS(t)
	want := model{}
	for day := range int64(3 * pieceDays) {
		want.put(seriesKey{0, 7}, dayStart+day*DayMs+day, math.Float64frombits(0x7ff8000000000000+uint64(day)))
		want.put(seriesKey{0, 8}, dayStart+day*DayMs, math.NaN())
		want.put(seriesKey{0, 8}, dayStart+day*DayMs+1, float64(day%3))
	}
	meta := want.write(t, Options{FS: fs, Dir: dir, Partition: Partition{dayStart - 5, dayStart + 400*DayMs}, Rollups: true}, 100)
	r := openSegment(t, fs, dir, &meta)
	defer release(t, r)
	checkDayDigests(t, r, want)
	if err := r.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestDayDigestsUnknown: a program that knows no day digests copies sections of files that
// have them, as when a shard moves while nodes are upgraded, or gives such a file another
// sequence. The file has none then, and is whole.
func TestDayDigestsUnknown(t *testing.T) {
	fs, dir := memFS(t)
	want := model{}
	for i := range int64(500) {
		want.put(seriesKey{2, uint32(i % 3)}, dayStart+i*HourMs, float64(i))
	}
	meta := want.write(t, Options{FS: fs, Dir: dir, Partition: Partition{dayStart, dayStart + 30*DayMs}, Rollups: true}, 100)
	whole := readFile(t, fs, path.Join(dir, meta.Name))
	footerAt := len(whole) - footerBytes
	pages := binary.LittleEndian.Uint32(whole[footerAt-shardEntryBytes+12:])
	for what, pages := range map[string]uint32{"copied": 0, "renumbered": pages, "anything": math.MaxUint32} {
		content := slices.Clone(whole)
		entry := content[footerAt-shardEntryBytes : footerAt]
		binary.LittleEndian.PutUint32(entry[12:], pages)
		content[footerAt+49] &^= flagDayDigests
		binary.LittleEndian.PutUint32(content[footerAt+104:], crc32.Checksum(entry, castagnoli))
		binary.LittleEndian.PutUint32(content[footerAt+116:], crc32.Checksum(content[footerAt:footerAt+116], castagnoli))
		r := openBytes(t, fs, path.Join(dir, what), content)
		checkNoDayDigests(t, r, want)
		var file bytes.Buffer
		if _, err := r.ExportShard(t.Context(), &file, 2); err != nil {
			t.Fatal(what, err)
		}
		copied := openBytes(t, fs, path.Join(dir, what+" and copied"), file.Bytes())
		checkNoDayDigests(t, copied, want)
		release(t, r, copied)
	}
}

// checkNoDayDigests checks that a segment is whole and has all rollups, but no day digests.
func checkNoDayDigests(t *testing.T, r *Reader, m model) {
	t.Helper()
	if err := r.Verify(t.Context()); err != nil {
		t.Fatal(r.name, err)
	}
	for k, s := range m {
		if got, err := r.DayDigests(nil, k.shard, k.id, math.MinInt64, math.MaxInt64); err != nil || len(got) != 0 {
			t.Fatal(r.name, got, err)
		}
		got, err := r.Rollups(nil, k.shard, k.id, math.MinInt64, math.MaxInt64, DayMs)
		if err != nil {
			t.Fatal(r.name, err)
		}
		checkRollups(t, got, s, DayMs)
	}
}

// TestVerifyDayDigests: Verify compares each day's digest with the samples, though all checksums are right.
func TestVerifyDayDigests(t *testing.T) {
	fs, dir := memFS(t)
	want := model{}
	for day := range int64(200) {
		for id := range uint32(3) {
			for i := range 1 + day%2 {
				want.put(seriesKey{2, id}, dayStart+day*DayMs+i, float64(day)+float64(id))
			}
		}
	}
	meta := want.write(t, Options{FS: fs, Dir: dir, Partition: Partition{dayStart, dayStart + 300*DayMs}, Rollups: true}, 100)
	content := readFile(t, fs, path.Join(dir, meta.Name))
	record := func(b []byte, id uint32, day int64) []byte { // its digest's bytes, with what is before
		digests := naiveDayDigests(want[seriesKey{2, id}])
		sum := binary.LittleEndian.AppendUint64(nil, digests[day].Digest)
		if bytes.Count(b, sum) != 1 {
			t.Fatalf("digest %x", sum)
		}
		at := bytes.Index(b, sum)
		return b[at-2 : at+8]
	}
	for i, c := range []struct {
		what   string
		change func(b []byte)
		intact bool
	}{
		{"nothing", func([]byte) {}, true},
		{"a digest", func(b []byte) { record(b, 1, 77)[9] ^= 1 }, false},
		{"a number of samples", func(b []byte) { record(b, 0, 1)[1]++ }, false},
		{"two numbers of samples", func(b []byte) { record(b, 0, 1)[1], record(b, 0, 2)[1] = 1, 2 }, false},
		{"the last day", func(b []byte) { record(b, 2, 199)[0] += 2 }, false},
		{"two digests", func(b []byte) {
			x, y := record(b, 1, 5), record(b, 1, 7)
			one, other := slices.Clone(x), slices.Clone(y)
			copy(x, other)
			copy(y, one)
		}, false},
	} {
		b := slices.Clone(content)
		c.change(b)
		r := openBytes(t, fs, path.Join(dir, fmt.Sprint("changed-", i)), repaired(b))
		err := r.Verify(t.Context())
		release(t, r)
		var corrupt *CorruptError
		if c.intact != (err == nil) || err != nil && (!errors.As(err, &corrupt) || corrupt.Part != PartDayDigests) {
			t.Errorf("with %s changed: %v", c.what, err)
		}
	}
}

// TestDayDigestsOutside: days outside of the partition, or that do not grow, are damage.
func TestDayDigestsOutside(t *testing.T) {
	p := Partition{dayStart + 5, dayStart + 3*DayMs + 1} // four days, of the first and last a part
	record := func(gap uint64) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, gap<<1|1), 7), make([]byte, 8)...)
	}
	for _, c := range []struct {
		what    string
		entries [][]byte
		whole   bool
	}{
		{"the last day", [][]byte{record(3)}, true},
		{"a day behind it", [][]byte{record(4)}, false},
		{"four days", [][]byte{slices.Concat(record(0), record(0), record(0), record(0))}, true},
		{"five days", [][]byte{slices.Concat(record(0), record(0), record(0), record(0), record(0))}, false},
		{"a day before the first", [][]byte{slices.Concat(record(2), record(1<<63/uint64(DayMs)*2))}, false},
		{"the greatest gap", [][]byte{slices.Concat(record(1), record(math.MaxUint64>>1))}, false},
		{"entries that go on", [][]byte{record(1), record(2)}, true},
		{"a day again", [][]byte{record(1), record(1)}, false},
		{"an entry that goes back", [][]byte{record(2), record(1)}, false},
	} {
		list, whole := newDayDigestList(p), true
		for _, body := range c.entries {
			list.open(body)
			ok, reason := list.next()
			for ; ok; ok, reason = list.next() {
			}
			whole = whole && reason == ""
		}
		if whole != c.whole {
			t.Errorf("%s: whole is %t", c.what, whole)
		}
	}
}

// FuzzDayDigests reads arbitrary bytes as an entry: days lie in the partition and grow, and what
// it holds comes back when it is written again.
func FuzzDayDigests(f *testing.F) {
	f.Add(appendDayDigests(nil, []dayDigest{{dayStart, 1440, 7}, {dayStart + DayMs, 1440, 8}, {dayStart + 9*DayMs, 1, math.MaxUint64}}, dayStart))
	f.Fuzz(func(t *testing.T, body []byte) {
		p := Partition{dayStart + 1, dayStart + 400*DayMs}
		var days []dayDigest
		list, lastMs := newDayDigestList(p), dayStart-DayMs
		list.open(body)
		ok, reason := list.next()
		for ; ok; ok, reason = list.next() {
			if d := list.day; d.samples < 1 || d.startMs <= lastMs || d.startMs >= p.EndMs || d.startMs%DayMs != 0 {
				t.Fatalf("%+v after %d", list.day, lastMs)
			}
			days, lastMs = append(days, list.day), list.day.startMs
		}
		if reason != "" {
			return
		}
		again := newDayDigestList(p)
		again.open(appendDayDigests(nil, days, dayStart))
		for _, want := range days {
			if ok, reason := again.next(); !ok || again.day != want {
				t.Fatalf("%+v instead of %+v: %s", again.day, want, reason)
			}
		}
		if ok, reason := again.next(); ok || reason != "" {
			t.Fatal(again.day, reason)
		}
	})
}
