package index

import (
	"context"
	"encoding/binary"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// FuzzKeyFile opens arbitrary bytes: nothing panics, and each series that is
// there can be found by its key and by its id.
func FuzzKeyFile(f *testing.F) {
	whole := make([]byte, keyHeaderBytes, 1<<10)
	putKeyHeader(whole)
	for n := range 4 {
		at := len(whole)
		whole = whole[:at+100]
		whole = whole[:at+putRecord(whole[at:], uint32(n), 3, series.ID(n), benchKey(nil, n, 2))]
	}
	f.Add(whole, uint32(4))
	f.Add(append(slices.Clone(whole[:30]), whole[29:]...), uint32(4))
	f.Add(whole[:80], uint32(2))
	f.Fuzz(func(t *testing.T, b []byte, count uint32) {
		if len(b) == 0 || len(b) > 1<<16 {
			return
		}
		fs := vfs.NewMemFS()
		if err := fs.MkdirAll("index"); err != nil {
			t.Fatal(err)
		}
		file, err := fs.Create("index/keys")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		x, err := Open(Options{FS: fs, Dir: "index", State: State{Count: count, Bytes: int64(len(b)), Next: []uint32{0, 0, 0, count}}, Workers: 2})
		if err != nil {
			return
		}
		defer x.Close()
		lost := int64(0)
		for local := range count {
			record := x.keys.record(local)
			if record == nil {
				lost++
				continue
			}
			want := series.Ref{Hint: local, Shard: recordShard(record), ID: recordID(record)}
			if ref, ok := x.Resolve(LocalNone, recordKey(record)); !ok || ref != want {
				t.Fatalf("series %d is %v %v", local, ref, ok)
			}
			if got, ok := x.Local(want.Shard, want.ID); !ok || got != local {
				t.Fatalf("series %d is not id %d of shard %d", local, want.ID, want.Shard)
			}
		}
		if state, err := x.Sync(); err != nil || state.check() != nil {
			t.Fatalf("state %+v, %v, %v", state, err, state.check())
		}
		if s := x.Stats(); s.SeriesLost != lost {
			t.Fatalf("%d lost, %+v", lost, s)
		}
		if _, err := x.Select(context.Background(), &scan.Selector{MetricAny: true}, AllDays(), 0, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Create(60_000, 0, series.AppendKey(nil, []byte("a fresh"), []byte("one"), nil), 1); err != nil && x.ShardSeries(60_000) == 0 {
			t.Fatal(err)
		}
	})
}

// FuzzActivityFile decodes arbitrary bytes, and what decodes comes back.
func FuzzActivityFile(f *testing.F) {
	a := newActivity(&Options{FS: vfs.NewMemFS()})
	for local := range uint32(3 * markBits) {
		if local < markBits || local%3 == 0 || local > 2*markBits && local%1000 != 0 {
			a.mark(benchDay, local)
		}
	}
	a.mark(benchDay, 4*markBits+1)
	a.mark(benchDay+1, 200*markBits)
	m := a.find(benchDay)
	coarse := newMonthMarks(7, true)
	for _, b := range [][]byte{encodeMonth(m), encodeDays(m), encodeDays(coarse), encodeDay(benchDay, m.day(benchDay))} {
		f.Add(b, uint32(5*markBits))
		f.Add(b, uint32(100))
		f.Add(b[:8], uint32(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, count uint32) {
		// Fuzzing cannot guess a checksum: set it right.
		if len(b) > 4 {
			copy(b[len(b)-4:], sumBytes(b[:len(b)-4]))
		}
		if month, chunks, err := decodeMonth(b, count, a.full); err == nil {
			m := newMonthMarks(month, false)
			m.series.chunks.Store(&chunks)
			month2, chunks2, err := decodeMonth(encodeMonth(m), count, a.full)
			if err != nil || month2 != month {
				t.Fatal(month2, month, err)
			}
			checkSameMarks(t, a, &m.series, newPeriodMarks(chunks2), count)
		}
		if day, chunks, err := decodeDay(b, count, a.full); err == nil {
			day2, chunks2, err := decodeDay(encodeDay(day, newPeriodMarks(chunks)), count, a.full)
			if err != nil || day2 != day {
				t.Fatal(day2, day, err)
			}
			checkSameMarks(t, a, newPeriodMarks(chunks), newPeriodMarks(chunks2), count)
		}
		if month, days, err := decodeDays(b, count, a.full); err == nil {
			m := newMonthMarks(month, false)
			m.days.Store(days)
			month2, days2, err := decodeDays(encodeDays(m), count, a.full)
			if err != nil || month2 != month || days2.coarse != days.coarse {
				t.Fatal(month2, month, err)
			}
			for i, p := range days.of {
				if (p == nil) != (days2.of[i] == nil) {
					t.Fatalf("day %d came or went", i)
				}
				if p != nil {
					checkSameMarks(t, a, p, days2.of[i], count)
				}
			}
		}
	})
}

// encodeDay returns the file of a day, as programs wrote it that had one for each day.
func encodeDay(day Day, p *periodMarks) []byte {
	chunks := *p.chunks.Load()
	length := uint32(0)
	for _, c := range chunks {
		length = c.number + 1
	}
	b := newActivityFile(dayMagic, uint32(day), length)
	for n := range length {
		b = appendChunk(b, p.chunk(n*markBits), true)
	}
	return appendActivitySum(b)
}

// checkSameMarks compares marks before and after they were encoded, and packs the former.
func checkSameMarks(t *testing.T, a *activity, p, q *periodMarks, count uint32) {
	t.Helper()
	v, w := view{&a.emptied, a.hidden, []*periodMarks{p}}, view{&a.emptied, a.hidden, []*periodMarks{q}}
	p.pack(a.full)
	numbers := map[uint32]bool{0: true, count / markBits: true}
	for _, list := range [][]placedChunk{*p.chunks.Load(), *q.chunks.Load()} {
		for i, c := range list {
			if i > 0 && c.number <= list[i-1].number {
				t.Fatalf("chunk %d behind %d", c.number, list[i-1].number)
			}
			numbers[c.number] = true
		}
	}
	for number := range numbers {
		for i := range uint32(markBits) {
			local := number*markBits + i
			if v.has(local) != w.has(local) || v.has(local) != (w.word(local&^63)&(1<<(local%64)) != 0) {
				t.Fatalf("mark of %d changed", local)
			}
			if local >= count && v.has(local) {
				t.Fatalf("a mark of %d, beyond %d", local, count)
			}
		}
	}
}

// FuzzMatcher compares the shortcuts for regular expressions with the package
// regexp, for the value given and for some made of the expression's own text.
func FuzzMatcher(f *testing.F) {
	for _, text := range []string{"s_[12]", "a|b|", "d_.*", "d_.+", "(?i)abc", "x{0,2}", "(a|b)(c|d)?", ".*", ".+", "\xff", "[\\x{fffd}a]", "(?s)a.*", "a\\b", "(?m)^a$", "d_(?:.*)", "a\\Qb)"} {
		f.Add(text, "s_1")
		f.Add(text, "d_\n")
		f.Add(text, "\xff")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		m, err := compileMatcher(&scan.Matcher{Name: "a", Kind: scan.MatchRegexp, Values: []string{text}})
		want, wantErr := regexp.Compile("^(?:" + text + ")$")
		if _, alone := regexp.Compile(text); alone == nil && wantErr != nil { // an open quotation
			want, wantErr = regexp.Compile("^(?:" + text + "\\E)$")
		}
		if err != nil {
			if _, alone := regexp.Compile(text); alone == nil && wantErr == nil {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if wantErr != nil {
			t.Fatalf("%q is taken, but %v", text, wantErr)
		}
		values := append([]string{value, "", text, m.prefix, m.prefix + value, value + text}, m.literals...)
		for _, v := range values {
			if got := m.holds([]byte(v)); got != want.MatchString(v) {
				t.Fatalf("%q on %q: %v", text, v, got)
			}
			if want.MatchString(v) && m.test != nil && len(m.prefix) > 0 && (len(v) < len(m.prefix) || v[:len(m.prefix)] != m.prefix) {
				t.Fatalf("%q matches %q, which does not begin with %q", text, v, m.prefix)
			}
		}
		if m.holdsEmpty != want.MatchString("") {
			t.Fatalf("%q on the empty value: %v", text, m.holdsEmpty)
		}
	})
}

// checkPosting compares all operations of a posting with the list it was made of.
func checkPosting(t rapid.TB, list, probes []uint32, add uint32) {
	p := parsePosting(appendPosting(nil, list, -1))
	if int(p.count) != len(list) {
		t.Fatalf("count is %d, want %d", p.count, len(list))
	}
	want := make([]uint32, len(list))
	for i, v := range list {
		want[i] = v + add
	}
	if got := p.appendTo(nil, add); !slices.Equal(got, want) {
		t.Fatalf("kind %d gives %v, want %v", p.kind, got, want)
	}
	set := make([]uint64, list[len(list)-1]/64+1)
	p.orInto(set)
	if got := appendSet(nil, set); !slices.Equal(got, list) {
		t.Fatalf("kind %d has the bits of %v, want %v", p.kind, got, list)
	}
	for _, keep := range []bool{true, false} {
		want = want[:0]
		for _, v := range probes {
			if slices.Contains(list, v) == keep {
				want = append(want, v)
			}
		}
		var f finder
		f.reset(p)
		if got := f.filter(slices.Clone(probes), keep); !slices.Equal(got, want) {
			t.Fatalf("kind %d keeps (%v) %v of %v, want %v", p.kind, keep, got, probes, want)
		}
	}
	if all := parsePosting(appendPosting(nil, list, len(list))); all.kind != postingAll || int(all.count) != len(list) {
		t.Fatalf("all is kind %d of %d", all.kind, all.count)
	}
}

func TestPosting(t *testing.T) {
	kinds := map[uint8]bool{}
	rapid.Check(t, func(t *rapid.T) {
		gap := rapid.SampledFrom([]uint32{1, 2, 3, 9, 200, 40_000}).Draw(t, "gap")
		at := rapid.Uint32Range(0, 300).Draw(t, "first")
		var list, probes []uint32
		for range rapid.IntRange(1, 1000).Draw(t, "count") {
			list = append(list, at)
			at += 1 + rapid.Uint32Range(0, gap-1).Draw(t, "d")
		}
		for v := uint32(0); v < at+100; v += 1 + rapid.Uint32Range(0, at/50).Draw(t, "p") {
			probes = append(probes, v)
		}
		for range 20 {
			probes = append(probes, rapid.SampledFrom(list).Draw(t, "hit"))
		}
		slices.Sort(probes)
		probes = slices.Compact(probes)
		checkPosting(t, list, probes, rapid.Uint32Range(0, 1000).Draw(t, "add"))
		kinds[parsePosting(appendPosting(nil, list, -1)).kind] = true
	})
	if len(kinds) != 4 && exhaustive && !testing.Short() { // fewer draws may not see all
		t.Errorf("kinds seen: %v", kinds)
	}
}

// FuzzPosting reads lists from bytes, as differences.
func FuzzPosting(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0}, []byte{1, 2})
	f.Add(make([]byte, 400), []byte{200, 1})
	f.Add([]byte{255, 255, 3, 0, 17, 255, 255, 255, 1}, []byte{255, 255, 2, 0, 0})
	f.Fuzz(func(t *testing.T, members, others []byte) {
		list, probes := growing(members), growing(others)
		if len(list) == 0 || list[len(list)-1] > 1<<26 {
			return
		}
		checkPosting(t, list, probes, 7)
		checkPosting(t, list, list, 0)
	})
}

func growing(b []byte) (list []uint32) {
	at := uint64(0)
	for len(b) > 0 {
		d, n := binary.Uvarint(b)
		if n <= 0 || at+d > 1<<31 {
			break
		}
		at += d
		list = append(list, uint32(at))
		at++
		b = b[n:]
	}
	return list
}

// FuzzFileNames: names of days and months are read as they are written.
func FuzzFileNames(f *testing.F) {
	for _, text := range []string{"2026-01-31", "2026-02", "1969-12", "2026-2-1", "+026-01", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := parseDay(text); ok && d.String() != text {
			t.Fatalf("%q became %v", text, d)
		}
		if m, ok := parseMonth(text); ok && m.String() != text {
			t.Fatalf("%q became %v", text, m)
		}
	})
}
