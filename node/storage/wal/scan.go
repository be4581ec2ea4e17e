package wal

import (
	"hash/crc32"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// found is what a scanner has found: a record, an end record, or a gap.
type found struct {
	kind       foundKind
	from, to   int64 // in the file
	payload    []byte
	synced     Position // when the record was written
	recognised bool     // of a gap: it begins with a good header, so a record was lost
}

type foundKind uint8

const (
	foundRecord foundKind = iota
	foundEnd
	foundGap
	foundLimit // nothing more
)

// scanner finds the records of one file.
type scanner struct {
	reader *reader
	base   Position
	offset int64
	limit  int64
	ended  bool
}

// newScanner scans [offset, limit) of a file that starts at base. See newReader
// for holes. It must be closed.
func newScanner(file vfs.File, base Position, offset, limit int64, holes bool) *scanner {
	return &scanner{reader: newReader(file, offset, limit, holes), base: base, offset: offset, limit: limit}
}

func (s *scanner) close() { s.reader.close() }

func (s *scanner) position(offset int64) Position { return s.base + Position(offset) }

// next returns what comes next. After an end record or the limit there is nothing.
func (s *scanner) next() (found, error) {
	if s.ended || s.offset >= s.limit {
		return found{kind: foundLimit, from: s.offset, to: s.offset}, nil
	}
	f, headed, err := s.record(s.offset)
	switch {
	case err != nil:
		return found{}, err
	case !headed:
		return s.resync()
	}
	s.offset = f.to
	s.ended = f.kind == foundEnd
	return f, nil
}

// record reads the record at offset. Without a good header, headed is false; with
// a payload that is not what the header says, the result is a gap.
func (s *scanner) record(offset int64) (f found, headed bool, err error) {
	if offset+recordHeaderBytes > s.limit {
		return found{}, false, nil
	}
	b, err := s.reader.at(offset, recordHeaderBytes)
	if err != nil {
		return found{}, false, err
	}
	h, ok := parseHeader(b, s.position(offset))
	padded := int64(paddedLength(h.length))
	if !ok || offset+padded > s.limit {
		return found{}, false, nil
	}
	f = found{from: offset, to: offset + padded, synced: h.synced(s.position(offset))}
	if h.flags&flagsEnd != 0 {
		f.kind = foundEnd
		return f, true, nil
	}
	b, err = s.reader.at(offset, recordHeaderBytes+h.length)
	if err != nil {
		return found{}, false, err
	}
	f.payload = b[recordHeaderBytes:]
	if crc32.Checksum(f.payload, castagnoli) != h.payload {
		return found{kind: foundGap, from: f.from, to: f.to, recognised: true}, true, nil
	}
	return f, true, nil
}

// resync finds the next whole record and returns the gap before it.
func (s *scanner) resync() (found, error) {
	gap := found{kind: foundGap, from: s.offset}
	for at := s.offset + recordAlign; at+recordHeaderBytes <= s.limit; at += recordAlign {
		b, err := s.reader.at(at, recordHeaderBytes)
		if err != nil {
			return found{}, err
		}
		if _, ok := parseHeader(b, s.position(at)); !ok {
			continue
		}
		f, headed, err := s.record(at)
		if err != nil {
			return found{}, err
		}
		if headed && f.kind != foundGap {
			gap.to, s.offset = at, at
			return gap, nil
		}
	}
	gap.to, s.offset = s.limit, s.limit
	return gap, nil
}
