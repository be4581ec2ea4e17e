package pagelog

import (
	"encoding/binary"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// extentOf returns a generation whose first extent holds the given bytes.
func extentOf(t testing.TB, contents []byte) (*Log, *generation) {
	fsys := vfs.NewMemFS()
	must(t, fsys.MkdirAll("pages"))
	options := small(fsys)
	must(t, options.setDefaults())
	e, err := makeExtent(fsys, "pages", 1, 0, options.ExtentBytes)
	must(t, err)
	if len(contents) > 0 {
		_, err = e.file.WriteAt(contents, extentHeaderBytes)
		must(t, err)
	}
	g := newGeneration(1, options.ExtentBytes, options.GenerationBytes)
	g.extents[0].Store(e)
	l := &Log{options: options}
	l.mu.generations = []*generation{g}
	return l, g
}

// slowScan is the oracle: at each place it looks for a page, with all the bytes
// in one slice, and goes one step on if there is none.
func slowScan(b []byte) []Ref {
	var refs []Ref
	for at := 0; at+pageHeaderBytes <= len(b); {
		n := int(binary.LittleEndian.Uint16(b[at+4:]))
		size := (pageHeaderBytes + n + 7) / 8 * 8
		if n >= 1 && n <= PayloadBytesMax && at+size <= len(b) {
			if _, ok := parsePage(b[at:at+pageHeaderBytes], b[at+pageHeaderBytes:at+pageHeaderBytes+n], 1, int64(at+extentHeaderBytes)); ok {
				refs = append(refs, makeRef(1, int64(at+extentHeaderBytes)))
				at += size
				continue
			}
		}
		at += pageAlign
	}
	return refs
}

func FuzzScan(f *testing.F) {
	page := func(at int64, payload string) []byte {
		b := make([]byte, pageBytes(len(payload)))
		copy(b[pageHeaderBytes:], payload)
		putHeader(b, 1, at, &Page{Shard: 3, ID: 9, Previous: 1, Payload: []byte(payload)}, payloadSum([]byte(payload)))
		return b
	}
	first := page(extentHeaderBytes, "hello")
	f.Add(first, 0)
	f.Add(append(first, page(extentHeaderBytes+int64(len(first)), "a second page")...), 0)
	f.Add(append(make([]byte, 8), page(extentHeaderBytes+8, "after a hole")...), 100)
	f.Add([]byte{}, 8000)
	f.Fuzz(func(t *testing.T, b []byte, room int) {
		room = max(room%(8<<10), 0)
		b = append(b, make([]byte, room)...)
		b = b[:min(len(b)&^7, 16<<10-extentHeaderBytes)]
		l, g := extentOf(t, b)
		limit := int64(extentHeaderBytes + len(b))
		want := slowScan(b)
		i := 0
		s := scanner{corrupt: l.corrupt, visit: func(ref Ref, page Page) error {
			if i >= len(want) || ref != want[i] || len(page.Payload) == 0 {
				t.Fatalf("page %d is %#x, want %v", i, ref, want)
			}
			i++
			return nil
		}}
		err := s.scan(g, limit)
		if err != nil || i != len(want) {
			t.Fatalf("%d pages, want %d, %v", i, len(want), err)
		}
		g.flushed.Store(limit)
		pin := l.Pin()
		defer pin.Close()
		for at := int64(extentHeaderBytes); at < limit; at += pageAlign {
			if _, err := pin.Read(makeRef(1, at), nil); err == nil && len(want) == 0 {
				t.Fatalf("read a page at %d where there is none", at)
			}
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add(uint32(1), int64(ExtentBytesMin), int64(100), uint32(2))
	f.Add(uint32(0), int64(-1), int64(1<<40), uint32(1<<31))
	f.Fuzz(func(_ *testing.T, number uint32, extentBytes, bytes int64, second uint32) {
		s := State{Generations: []GenerationState{{number, extentBytes, bytes}, {second, extentBytes, bytes}}}
		if s.check() == nil {
			_ = s.covers(number, 1)
			newGeneration(number, extentBytes, (bytes+extentBytes-1)/extentBytes*extentBytes)
		}
	})
}

// TestTruncatedExtent cuts a real, mapped file: the pages in it give errors, those
// of other extents are read.
func TestTruncatedExtent(t *testing.T) {
	options := small(vfs.OS())
	options.Dir = filepath.Join(t.TempDir(), "pages")
	l, err := Open(options, State{}, nil)
	must(t, err)
	defer l.Close()
	var refs []Ref
	for n := range 300 {
		ref, err := l.Append(0, uint32(n), 0, payloadOf(n, 100))
		must(t, err)
		refs = append(refs, ref)
	}
	must(t, l.Flush())
	must(t, os.Truncate(extentName(options.Dir, 1, 0), 4096))
	pin := l.Pin()
	defer pin.Close()
	lost := 0
	for n, ref := range refs {
		page, err := pin.Read(ref, nil)
		if err == nil && page.ID != uint32(n) {
			t.Fatalf("page %d is %+v", n, page)
		}
		if err != nil {
			if lost++; ref.offset() < 4096-200 || ref.offset() >= options.ExtentBytes {
				t.Errorf("page %d is whole but gave %v", n, err)
			}
		}
	}
	seen := 0
	must(t, pin.Each(1, func(Ref, Page) error { seen++; return nil }))
	if lost == 0 || seen != len(refs)-lost {
		t.Errorf("%d pages are lost, %d are seen of %d", lost, seen, len(refs))
	}
}

// FuzzFileNames: a name that is taken is that of its extent.
func FuzzFileNames(f *testing.F) {
	f.Add(path.Base(extentName("", 7, 3)))
	f.Add(extentPrefix + "0000000A-0001" + extentSuffix)
	f.Fuzz(func(t *testing.T, name string) {
		if generation, index, ok := parseExtentName(name); ok && path.Base(extentName("", generation, index)) != name {
			t.Fatalf("%q is taken for extent %d of generation %d", name, index, generation)
		}
	})
}
