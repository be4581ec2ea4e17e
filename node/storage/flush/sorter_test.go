package flush

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
	"pgregory.net/rapid"
)

// foundPage is a page as the sorter returns it and as the oracle has it.
type foundPage struct {
	key     seriesKey
	ref     pagelog.Ref
	payload string
}

// comparePages is the order that a flush wants.
func comparePages(a, b foundPage) int {
	switch {
	case a.key < b.key || a.key == b.key && a.ref < b.ref:
		return -1
	case a.key > b.key || a.ref > b.ref:
		return 1
	}
	return 0
}

// drawPages appends pages of random series, some of which have most of them, and
// ends the generation.
func drawPages(t *rapid.T, log *pagelog.Log, shards int) (generation uint32, pages []foundPage) {
	idMax := rapid.SampledFrom([]uint32{0, 3, 1000, 1 << 31, 1<<32 - 1}).Draw(t, "idMax")
	favourite := rapid.Float64().Draw(t, "favourite")
	count := rapid.IntRange(0, 400).Draw(t, "pages")
	for i := range count {
		shard, id := uint16(shards-1), idMax
		if rapid.Float64().Draw(t, "which") > favourite {
			shard = uint16(rapid.IntRange(0, shards-1).Draw(t, "shard"))
			id = rapid.Uint32Range(0, idMax).Draw(t, "id")
		}
		payload := bytes.Repeat([]byte{byte(i + 1)}, rapid.IntRange(1, 128).Draw(t, "length"))
		ref, err := log.Append(shard, id, 0, payload)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, foundPage{keyOf(shard, id), ref, string(payload)})
	}
	generation, err := log.Roll()
	if err != nil {
		t.Fatal(err)
	}
	return generation, pages
}

// sortedPages returns all that the sorter does, and checks its bounds.
func sortedPages(s *pageSorter) (got []foundPage, err error) {
	ranges, err := s.ranges()
	if err != nil {
		return nil, err
	}
	var buffer []byte
	for i := range ranges {
		r := &ranges[i]
		if r.memory() > s.bytesMax && r.from != r.to {
			return nil, fmt.Errorf("range %+v is larger than %d", *r, s.bytesMax)
		}
		if err := s.load(r); err != nil {
			return nil, err
		}
		if r.memory() <= s.bytesMax && s.used() > s.bytesMax {
			return nil, fmt.Errorf("%d bytes are loaded, %d are the most", s.used(), s.bytesMax)
		}
		err = s.eachSeries(func(k seriesKey, pages []sealedPage) error {
			for j := range pages {
				payload, err := s.payload(&pages[j], &buffer)
				if err != nil {
					return err
				}
				got = append(got, foundPage{k, pages[j].ref, string(payload)})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

func TestPageSorter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMemFS()
		log, err := pagelog.Open(pagelog.Options{FS: fs, Dir: "pages", ExtentBytes: 16 << 10, GenerationBytes: 128 << 10, BufferBytes: 8 << 10}, pagelog.State{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		shards := rapid.IntRange(1, 5).Draw(t, "shards")
		generation, want := drawPages(t, log, shards)
		if rapid.Bool().Draw(t, "damage") {
			want = damage(t, fs, log, generation, want)
		}
		slices.SortFunc(want, comparePages)
		pin := log.Pin()
		defer pin.Close()
		s := pageSorter{pin: pin, generation: generation, shards: shards, bytesMax: rapid.Int64Range(1, 20_000).Draw(t, "bytesMax")}
		got, err := sortedPages(&s)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d pages, want %d:\n%v\n%v", len(got), len(want), got, want)
		}
	})
}

// damage changes some bytes of the generation's files and returns the pages that are
// left.
func damage(t *rapid.T, fs vfs.FS, log *pagelog.Log, generation uint32, pages []foundPage) []foundPage {
	for range rapid.IntRange(1, 5).Draw(t, "damages") {
		file, err := fs.OpenReadWrite(fmt.Sprintf("pages/pages-%08x-0000.log", generation))
		if err != nil {
			t.Fatal(err)
		}
		size, err := file.Size()
		if err == nil {
			garbage := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "garbage")
			at := rapid.Int64Range(0, max(0, size-40)).Draw(t, "at")
			_, err = file.WriteAt(garbage[:min(int64(len(garbage)), size-at)], at)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	pin := log.Pin()
	defer pin.Close()
	return slices.DeleteFunc(pages, func(p foundPage) bool {
		page, err := pin.Read(p.ref, nil)
		return err != nil || string(page.Payload) != p.payload
	})
}

func TestJoinRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytesMax := rapid.Int64Range(1, 500).Draw(t, "bytesMax")
		var ranges []keyRange
		pages, bytes := 0, int64(0)
		for i := range rapid.IntRange(0, 50).Draw(t, "ranges") {
			var r keyRange
			for range rapid.IntRange(0, 4).Draw(t, "pages") {
				r.add(seriesKey(i*10+rapid.IntRange(0, 9).Draw(t, "key")), rapid.IntRange(1, 100).Draw(t, "bytes"))
			}
			pages, bytes = pages+r.pages, bytes+r.bytes
			ranges = append(ranges, r)
		}
		joined := joinRanges(ranges, bytesMax)
		for i := range joined {
			r := &joined[i]
			pages, bytes = pages-r.pages, bytes-r.bytes
			if r.pages == 0 || r.from > r.to || i > 0 && r.from <= joined[i-1].to {
				t.Fatalf("%+v", joined)
			}
			if r.memory() > bytesMax && r.from/10 != r.to/10 {
				t.Fatalf("%+v is of several ranges and does not fit", *r)
			}
			if i > 0 && joined[i-1].memory()+r.memory() <= bytesMax {
				t.Fatalf("%+v and %+v fit together", joined[i-1], *r)
			}
		}
		if pages != 0 || bytes != 0 {
			t.Fatalf("%d pages and %d bytes are missing", pages, bytes)
		}
	})
}

// Every sample is in one stretch, which has its page, and pages come in the order
// of writing.
func TestEachRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timesOf := make([][]int64, rapid.IntRange(0, 40).Draw(t, "pages"))
		var extents []pageExtent
		for i := range timesOf {
			timesOf[i] = rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(-50, 50), rapid.Int64()), 0, 8).Draw(t, "times")
			extents = append(extents, pageExtent{int32(i), int32(len(timesOf[i])), spanOf(timesOf[i])})
		}
		samplesMax := rapid.IntRange(1, 60).Draw(t, "samplesMax")
		seen := make([]int, len(timesOf))
		var last *segment.TimeRange
		err := eachRange(extents, samplesMax, func(within segment.TimeRange, numbers []int32) error {
			if last != nil && within.FromMs <= last.ToMs || within.FromMs > within.ToMs {
				t.Fatalf("%+v after %+v", within, last)
			}
			last = &within
			if !slices.IsSorted(numbers) {
				t.Fatalf("order %v", numbers)
			}
			for _, n := range numbers {
				for _, at := range timesOf[n] {
					if within.Has(at) {
						seen[n]++
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, times := range timesOf {
			if seen[i] != len(times) {
				t.Fatalf("%d samples of page %d, want %d", seen[i], i, len(times))
			}
		}
	})
}

// Stretches are short where pages do not overlap.
func TestEachRangeIsBounded(t *testing.T) {
	var extents []pageExtent
	for i := range 1000 {
		extents = append(extents, pageExtent{int32(i), 30, segment.TimeRange{FromMs: int64(i) * 30, ToMs: int64(i)*30 + 29}})
	}
	stretches := 0
	err := eachRange(extents, 100, func(_ segment.TimeRange, numbers []int32) error {
		if stretches++; len(numbers) > 4 {
			t.Fatalf("%d pages at once", len(numbers))
		}
		return nil
	})
	if err != nil || stretches != 250 {
		t.Fatalf("%d stretches, %v", stretches, err)
	}
}
