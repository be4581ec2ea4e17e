package wal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// slowRecord is the oracle of the decoder, written from FORMAT.md: the record at
// offset of the bytes of a file's body, or false.
func slowRecord(b []byte, at int, base Position) (payload []byte, next int, end, ok bool) {
	if at+16 > len(b) {
		return nil, 0, false, false
	}
	word := binary.LittleEndian.Uint32(b[at+4:])
	length := int(word & 0x0fffffff)
	flags := word >> 28
	next = at + 16 + (length+7)/8*8
	if flags != 8 && !(flags == 12 && length == 0) || next > len(b) {
		return nil, 0, false, false
	}
	place := uint32((uint64(base) + fileHeaderBytes + uint64(at)) * 0x9e3779b97f4a7c15 >> 32)
	table := crc32.MakeTable(crc32.Castagnoli)
	if crc32.Update(place, table, b[at+4:at+16]) != binary.LittleEndian.Uint32(b[at:]) {
		return nil, 0, false, false
	}
	payload = b[at+16 : at+16+length]
	if flags == 8 && crc32.Checksum(payload, table) != binary.LittleEndian.Uint32(b[at+8:]) {
		return nil, next, false, false
	}
	return payload, next, flags == 12, true
}

// slowScan returns the payloads of all records of a file's body.
func slowScan(b []byte, base Position) [][]byte {
	var records [][]byte
	for at := 0; at < len(b); {
		payload, next, end, ok := slowRecord(b, at, base)
		switch {
		case end && ok:
			return records
		case ok:
			records = append(records, payload)
			at = next
		case next > 0: // a good header before a damaged payload
			at = next
		default:
			for at += 8; at < len(b); at += 8 {
				if _, _, _, ok := slowRecord(b, at, base); ok {
					break
				}
			}
		}
	}
	return records
}

func FuzzScan(f *testing.F) {
	const base = Position(1 << 20)
	body := func(records ...string) []byte {
		var b Buffer
		for _, r := range records {
			_, _ = b.Add([]byte(r))
		}
		b.place(base+fileHeaderBytes, base)
		return b.bytes
	}
	good := body("one", "", "a longer record than the others")
	f.Add(good)
	f.Add(append(bytes.Clone(good), endRecord(base+fileHeaderBytes+Position(len(good)), base)...))
	torn := body("one", "two", "three")
	torn[30] ^= 1
	f.Add(torn)
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:len(b)&^7]
		m := vfs.NewMemFS()
		file, err := m.Create("f")
		must(t, err)
		_, err = file.WriteAt(b, fileHeaderBytes)
		must(t, err)
		s := newScanner(file, base, fileHeaderBytes, fileHeaderBytes+int64(len(b)), false)
		defer s.close()
		want := slowScan(b, base)
		i := 0
		at := int64(fileHeaderBytes)
		for {
			found, err := s.next()
			must(t, err)
			if found.kind == foundLimit {
				break
			}
			if found.from != at || found.to <= found.from {
				t.Fatalf("found [%d, %d) at %d", found.from, found.to, at)
			}
			at = found.to
			if found.kind == foundRecord {
				if i >= len(want) || !bytes.Equal(found.payload, want[i]) {
					t.Fatalf("record %d is %q", i, found.payload)
				}
				i++
			}
		}
		if i != len(want) {
			t.Fatalf("%d records, want %d", i, len(want))
		}
	})
}

// FuzzOpen opens any bytes as the only file of a log.
func FuzzOpen(f *testing.F) {
	m := vfs.NewMemFS()
	l := openLog(f, Options{FS: m, FileBytes: 8 << 10})
	write(f, l, "a record", "and another")
	must(f, l.Close())
	file, err := m.Open(fileName("log", 0))
	must(f, err)
	seed := make([]byte, 5000)
	must(f, readFull(file, seed, 0))
	f.Add(seed)
	f.Add(seed[:100])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := vfs.NewMemFS()
		must(t, m.MkdirAll("log"))
		file, err := m.Create(fileName("log", 0))
		must(t, err)
		_, err = file.WriteAt(b[:min(len(b), 1<<16)], 0)
		must(t, err)
		options := Options{FS: m, Dir: "log", FileBytes: 8 << 10}
		l, err := open(options) // without its background, so that one input has one course
		if err != nil {
			return // of another version
		}
		before := replay(t, l, 0)
		added := write(t, l, "new")
		must(t, l.Close())
		l, err = open(options)
		must(t, err)
		if d := diff(replay(t, l, 0), append(before, added...)); d != "" {
			t.Fatal(d)
		}
		must(t, l.Close())
	})
}

func FuzzFileNames(f *testing.F) {
	f.Add("wal-0000000000001000.log")
	f.Add("spare-wal-7.log")
	f.Fuzz(func(t *testing.T, name string) {
		if base, ok := parseFileName(name); ok {
			if again, ok := parseFileName(fileName("", base)); !ok || again != base {
				t.Fatalf("%q gives %d, and that %d", name, base, again)
			}
		}
		_, _ = parseSpareName(name)
	})
}
