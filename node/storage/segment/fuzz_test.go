package segment

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"math"
	"path"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// FuzzOpen opens arbitrary bytes whose fixed checksums were put right, so that
// what lies behind them is reached, and reads all that can be found.
func FuzzOpen(f *testing.F) {
	_, file := smallFile(f)
	f.Add(file)
	f.Add(file[:len(file)-1])
	f.Add([]byte(footerMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem, dir := memFS(t)
		name := path.Join(dir, "x.seg")
		writeFile(t, mem, name, repaired(b))
		r, err := Open(mem, name)
		if err != nil {
			return
		}
		defer release(t, r)
		_ = r.Verify(context.Background())
		infos := r.Shards()
		var c Cursor
		var points codec.Points
		for _, info := range infos[:min(len(infos), 3)] {
			for id := range uint32(12) {
				if r.Find(&c, info.Shard, id, math.MinInt64, math.MaxInt64) != nil {
					continue
				}
				for c.Next() {
					points.Reset()
					_ = c.Points(&codec.BlockReader{}, &points)
				}
				_, _ = r.Rollups(nil, info.Shard, id, math.MinInt64, math.MaxInt64, DayMs)
				if hours, err := r.Rollups(nil, info.Shard, id, math.MinInt64, math.MaxInt64, HourMs); err == nil && len(hours) > 0 {
					_ = r.HourEnds(hours, info.Shard, id)
				}
				_, _ = r.DayDigests(nil, info.Shard, id, math.MinInt64, math.MaxInt64)
			}
		}
		out := MergeOptions{Options: Options{FS: mem, Dir: dir, Partition: r.Meta().Partition, Level: r.Meta().Level + 1, Rollups: true}}
		_, _ = Merge(context.Background(), []*Reader{r}, out)
	})
}

// repaired puts the checksums of footer, shard directory, page directories and
// pages right, as far as their places make sense.
func repaired(b []byte) []byte {
	b = slices.Clone(b)
	if len(b) < headerBytes+footerBytes {
		return b
	}
	footerAt := len(b) - footerBytes
	at := int(int64(binary.LittleEndian.Uint64(b[footerAt+32:])))
	if at < headerBytes || at > footerAt {
		return b
	}
	for entries := b[at:footerAt]; len(entries) >= shardEntryBytes; entries = entries[shardEntryBytes:] {
		e := parseShardEntry(entries)
		end := e.Offset + e.Bytes
		if e.Offset < 0 || e.Bytes < 0 || end > int64(at) || end < e.Offset || e.directoryBytes() > e.Bytes {
			continue
		}
		section := b[e.Offset:end]
		repairDigests(section, &e)
		directory := section[int64(len(section))-e.directoryBytes() : len(section)-crcBytes]
		for n := range directory[:len(directory)/pageEntryBytes] {
			kind := pageRollup
			if n < int(e.indexPages) {
				kind = pageIndex
			}
			repairPage(section, parsePageEntry(directory[n*pageEntryBytes:]), kind, e.Shard)
		}
		binary.LittleEndian.PutUint32(section[len(section)-crcBytes:], directoryChecksum(e.Shard, directory))
	}
	binary.LittleEndian.PutUint32(b[footerAt+104:], crc32.Checksum(b[at:footerAt], castagnoli))
	binary.LittleEndian.PutUint32(b[footerAt+116:], crc32.Checksum(b[footerAt:footerAt+116], castagnoli))
	return b
}

// repairDigests does it for the day digests of a section.
func repairDigests(section []byte, e *shardEntry) {
	end := int64(len(section)) - e.directoryBytes()
	at := end - e.digestDirectoryBytes()
	if at == end || at < 0 {
		return
	}
	directory := section[at : end-crcBytes]
	for n := range len(directory) / pageEntryBytes {
		repairPage(section, parsePageEntry(directory[n*pageEntryBytes:]), pageDayDigests, e.Shard)
	}
	binary.LittleEndian.PutUint32(section[end-crcBytes:], directoryChecksum(e.Shard, directory))
	if at = repairCounted(section[:at], pageDayRollups, e.Shard); at >= 0 {
		repairCounted(section[:at], pageHourEnds, e.Shard)
	}
}

// repairCounted does it for the pages of a directory that tells its own length, where data ends with one, and
// returns where that begins, or -1.
func repairCounted(data []byte, kind pageKind, shard uint16) (begin int64) {
	end := len(data) - countedTailBytes
	if end < 0 {
		return -1
	}
	at := int64(end) - int64(binary.LittleEndian.Uint32(data[end:]))*pageEntryBytes
	if at < 0 {
		return -1
	}
	for directory := data[at:end]; len(directory) > 0; directory = directory[pageEntryBytes:] {
		repairPage(data, parsePageEntry(directory), kind, shard)
	}
	binary.LittleEndian.PutUint32(data[end+4:], directoryChecksum(shard, data[at:end+4]))
	return at
}

func repairPage(section []byte, p pageEntry, kind pageKind, shard uint16) {
	if p.offset < 0 || p.length < crcBytes || p.offset > int64(len(section))-int64(p.length) {
		return
	}
	page := section[p.offset : p.offset+int64(p.length)]
	end := len(page) - crcBytes
	binary.LittleEndian.PutUint32(page[end:], pageChecksum(kind, shard, page[:end]))
}

// FuzzIndexBody reads arbitrary bytes as an index entry: what comes lies within
// the limits, in order, and reads the same when it is written again.
func FuzzIndexBody(f *testing.F) {
	p := testPartition(SpanDay)
	f.Add(appendIndexBody(nil, []blockRef{
		{offset: 70, length: 100, samples: 1024, minMs: p.StartMs + 5, maxMs: p.StartMs + 1005},
		{offset: 170, length: 9, samples: 3, minMs: p.StartMs + 2005, maxMs: p.StartMs + 2005},
	}, 64, p.StartMs, 1024), int64(64))
	f.Fuzz(func(t *testing.T, body []byte, base int64) {
		limits := indexLimits{Partition: p, dataBytes: 1 << 20}
		var r indexReader
		if reason := r.reset(body, base, 1024, limits); reason != "" {
			return
		}
		var blocks []blockRef
		ok, reason := r.next()
		for ; ok; ok, reason = r.next() {
			blocks = append(blocks, r.block)
		}
		last := p.StartMs - 1
		for _, b := range blocks {
			if b.offset < 0 || b.length <= crcBytes || b.offset+int64(b.length) > limits.dataBytes || b.minMs <= last || b.maxMs < b.minMs || b.maxMs >= p.EndMs || b.samples < 1 {
				t.Fatalf("%+v", b)
			}
			last = b.maxMs
		}
		if reason != "" {
			return
		}
		var again indexReader
		if reason := again.reset(appendIndexBody(nil, blocks, base, p.StartMs, 1024), base, 1024, limits); reason != "" {
			t.Fatal(reason)
		}
		for _, b := range blocks {
			if ok, reason := again.next(); !ok || again.block != b {
				t.Fatalf("%+v instead of %+v, %s", again.block, b, reason)
			}
		}
	})
}

// FuzzPage reads arbitrary bytes as a page, by walking and by seeking.
func FuzzPage(f *testing.F) {
	var b pageBuilder
	b.begin(3, 7, 0)
	for id := range uint32(40) {
		b.add(3+id/2*5, []byte{byte(id)})
	}
	page := b.appendTo(nil, pageIndex, 1)
	f.Add(page[:len(page)-crcBytes], uint32(13))
	f.Fuzz(func(t *testing.T, b []byte, id uint32) {
		b = binary.LittleEndian.AppendUint32(slices.Clip(b), pageChecksum(pageIndex, 1, b))
		var p pageReader
		if p.reset(b, pageIndex, 1) != "" {
			return
		}
		sorted, found := true, [][]byte(nil)
		previous := uint32(0)
		ok, reason := p.next()
		for ; ok; ok, reason = p.next() {
			sorted = sorted && p.id >= previous
			previous = p.id
			if p.id == id {
				found = append(found, p.body)
			}
		}
		whole := reason == ""
		if p.reset(b, pageIndex, 1) != "" {
			t.Fatal("second reset")
		}
		ok, _ = p.seek(id)
		if whole && sorted && ordinary(&p) && ok != (len(found) > 0) {
			t.Fatalf("seek gives %v, walk %d entries", ok, len(found))
		}
		if whole && sorted && ok && ordinary(&p) && !bytes.Equal(p.body, found[0]) {
			t.Fatalf("seek gives %v, walk %v", p.body, found[0])
		}
	})
}

// ordinary reports whether the restarts of a page are at every 16th entry and have its id,
// which a search relies on and every page that was written has.
func ordinary(p *pageReader) bool {
	walk := pageReader{entries: p.entries, restarts: p.restarts}
	for n := 0; ; n++ {
		restarts := n%restartEntries == 0 && n/restartEntries*restartBytes < len(p.restarts)
		var id uint32
		if restarts {
			var at int
			if id, at = p.restart(n / restartEntries); at != walk.at {
				return false
			}
		}
		if ok, reason := walk.next(); !ok {
			return reason == "" && (n+restartEntries-1)/restartEntries*restartBytes == len(p.restarts)
		}
		if restarts && walk.id != id {
			return false
		}
	}
}

// FuzzRollups reads arbitrary bytes as a rollup entry, and what it holds comes
// back when written again.
func FuzzRollups(f *testing.F) {
	p := Partition{dayStart, dayStart + 400*DayMs}
	number := func(m int64) series.Number { return series.Number{Mantissa: m, Scale: 2} }
	infinite := series.FloatNumber(math.Inf(1))
	decimals := []rollupRecord{
		{p.StartMs, 360, number(5), number(900), number(70000), 700.0000000000001, recordEnds{number(7), number(899), p.StartMs, p.StartMs + 3_590_000, p.StartMs + 10_000, p.StartMs + 70_000}},
		{p.StartMs + 2*DayMs, 360, number(-5), number(901), number(70001), 700.01, recordEnds{number(-5), number(901), p.StartMs + 2*DayMs + 77, p.StartMs + 3*DayMs - 1, p.StartMs + 2*DayMs + 77, p.StartMs + 3*DayMs - 1}},
	}
	floats := []rollupRecord{{p.StartMs, 1, infinite, infinite, infinite, math.Inf(1), recordEnds{infinite, infinite, p.StartMs, p.StartMs, p.StartMs, p.StartMs}}}
	for _, records := range [][]rollupRecord{decimals, floats} {
		f.Add(appendRollups(appendRollups(nil, records, p.StartMs, HourMs, false), nil, p.StartMs, DayMs, false))
		f.Add(appendRollups(nil, records, p.StartMs, DayMs, true))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		old := rollupQuery{toMs: -1, widthMs: HourMs}
		_ = old.readBody(body, pageRollup, &Meta{Partition: p}) // no bytes make it panic
		fuzzDayRollups(t, body, p)
		for _, width := range []int64{HourMs, DayMs} {
			q := rollupQuery{fromMs: math.MinInt64, toMs: math.MaxInt64, widthMs: width}
			if q.readBody(body, pageRollup, &Meta{Partition: p, ScanSums: true}) != "" || width == DayMs || len(q.dst) > pieceHours {
				continue
			}
			records := make([]rollupRecord, len(q.dst))
			for i, r := range q.dst {
				records[i] = recordOf(&r)
				if r.Min > r.Max || r.Count < 1 {
					return // not what a writer makes
				}
			}
			list, _, ok := cutRollups(appendRollups(nil, records, p.StartMs, HourMs, false), p, HourMs, true)
			if !ok {
				t.Fatal("what was written cannot be read")
			}
			for _, want := range q.dst {
				if got, ok, _ := list.next(); !ok || !sameRollup(got, want) {
					t.Fatalf("%+v instead of %+v", got, want)
				}
			}
		}
	})
}

// fuzzDayRollups does it for an entry of rollups by day: their times lie in the day, and come back.
func fuzzDayRollups(t *testing.T, body []byte, p Partition) {
	q := rollupQuery{fromMs: math.MinInt64, toMs: math.MaxInt64, widthMs: DayMs}
	if q.readBody(body, pageDayRollups, &Meta{Partition: p, ScanSums: true, DayRollups: true}) != "" || len(q.dst) > pieceDays {
		return
	}
	records := make([]rollupRecord, len(q.dst))
	for i, r := range q.dst {
		for _, at := range [...]int64{r.FirstMs, r.LastMs, r.MinMs, r.MaxMs} {
			if at < r.FirstMs || at > r.LastMs || at < r.StartMs || at-r.StartMs >= DayMs || r.StartMs < p.StartMs || r.StartMs >= p.EndMs {
				t.Fatalf("times of %+v", r)
			}
		}
		records[i] = recordOf(&r)
		if !(r.Min <= r.First && r.First <= r.Max && r.Min <= r.Last && r.Last <= r.Max) || r.Count < 1 {
			return // not what a writer makes
		}
	}
	list, _, ok := cutRollups(appendRollups(nil, records, p.StartMs, DayMs, true), p, DayMs, true)
	if !ok {
		t.Fatal("what was written cannot be read")
	}
	list.ends = true
	for _, want := range q.dst {
		if got, ok, _ := list.next(); !ok || !sameRollup(got, want) {
			t.Fatalf("%+v instead of %+v", got, want)
		}
	}
}

// FuzzHourEnds reads arbitrary bytes as an entry of the ends of hours: times lie in their hours, which grow and lie in
// the partition, and all comes back when it is written again.
func FuzzHourEnds(f *testing.F) {
	p := Partition{dayStart + 5, dayStart + 400*DayMs}
	number := func(m int64, scale uint8) series.Number { return series.Number{Mantissa: m, Scale: scale} }
	for _, first := range []series.Number{number(7, 1), series.FloatNumber(math.Inf(-1))} {
		f.Add(appendHourEnds(nil, []rollupRecord{
			{startMs: dayStart, recordEnds: recordEnds{first: first, last: number(-899, 2), firstMs: dayStart + 10_000, lastMs: dayStart + 3_590_000}},
			{startMs: dayStart + HourMs, recordEnds: recordEnds{first: number(1, 0), last: number(1, 0), firstMs: dayStart + HourMs, lastMs: dayStart + HourMs}},
			{startMs: dayStart + 9*HourMs, recordEnds: recordEnds{first: number(5, 0), last: number(6, 0), firstMs: dayStart + 9*HourMs + 77, lastMs: dayStart + 10*HourMs - 1}},
		}, dayStart))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		type hour struct {
			startMs int64
			Ends
		}
		read := func(body []byte) (hours []hour, whole bool) {
			list, ok := openHourEnds(body, p)
			for whole = ok; ok && whole; {
				var h hour
				if h.startMs, h.Ends, ok, whole = list.next(); ok {
					hours = append(hours, h)
				}
			}
			return hours, whole
		}
		hours, whole := read(body)
		previousMs := dayStart - HourMs
		var records []rollupRecord
		for _, h := range hours {
			if h.startMs <= previousMs || h.startMs >= p.EndMs || h.FirstMs < h.startMs || h.LastMs < h.FirstMs || h.LastMs >= h.startMs+HourMs {
				t.Fatalf("after %d: %+v", previousMs, h)
			}
			previousMs = h.startMs
			records = append(records, rollupRecord{startMs: h.startMs, recordEnds: recordEnds{
				first: series.DecimalOf(h.First, 0), last: series.DecimalOf(h.Last, 0), firstMs: h.FirstMs, lastMs: h.LastMs,
			}})
		}
		if !whole || len(hours) == 0 {
			return
		}
		again, whole := read(appendHourEnds(nil, records, dayStart))
		if !whole || len(again) != len(hours) {
			t.Fatalf("%d hours, then %d", len(hours), len(again))
		}
		for i, h := range hours {
			a := again[i]
			if a.startMs != h.startMs || a.FirstMs != h.FirstMs || a.LastMs != h.LastMs ||
				math.Float64bits(a.First) != math.Float64bits(h.First) || math.Float64bits(a.Last) != math.Float64bits(h.Last) {
				t.Fatalf("%+v, then %+v", h, a)
			}
		}
	})
}

func recordOf(r *Rollup) rollupRecord {
	return rollupRecord{r.StartMs, r.Count, series.DecimalOf(r.Min, 0), series.DecimalOf(r.Max, 0), series.DecimalOf(r.Sum, 0), r.Sum, recordEnds{
		series.DecimalOf(r.First, 0), series.DecimalOf(r.Last, 0), r.FirstMs, r.LastMs, r.MinMs, r.MaxMs,
	}}
}

func sameRollup(a, b Rollup) bool {
	return a.StartMs == b.StartMs && a.Count == b.Count && a.FirstMs == b.FirstMs && a.LastMs == b.LastMs && a.MinMs == b.MinMs && a.MaxMs == b.MaxMs &&
		math.Float64bits(a.First) == math.Float64bits(b.First) &&
		math.Float64bits(a.Last) == math.Float64bits(b.Last) &&
		math.Float64bits(a.Min) == math.Float64bits(b.Min) &&
		math.Float64bits(a.Max) == math.Float64bits(b.Max) &&
		math.Float64bits(a.Sum) == math.Float64bits(b.Sum)
}
