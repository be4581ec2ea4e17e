package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
)

// Replay calls fn with the records from position from on, up to what has been
// written when it is called, in order. From is 0, or a position that Write or
// Replay gave. The record is good until fn returns. Damaged stretches are
// reported and counted, and skipped.
//
// Errors: what fn returns; ErrTrimmed when records from there on have been given
// up, before the call (not for 0) or during it; ErrNoRecord when from is beyond
// the end; ErrClosed.
func (l *Log) Replay(from Position, fn func(position, end Position, record []byte) error) error {
	l.mu.Lock()
	end, closed := l.mu.end, l.mu.closed
	first := l.firstLocked()
	l.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case from != 0 && from < first:
		return fmt.Errorf("replay from %d, the log starts at %d: %w", from, first, ErrTrimmed)
	case from > end:
		return fmt.Errorf("replay from %d, the log ends at %d: %w", from, end, ErrNoRecord)
	}
	at := max(from, first)
	for at < end {
		f, gapEnd, err := l.pin(at)
		if err != nil {
			return err
		}
		if f == nil {
			l.corrupt(&CorruptError{File: fileName(l.options.Dir, at), Length: int64(gapEnd - at), At: at})
			at = gapEnd
			continue
		}
		err = l.replayFile(f, at, min(end, f.end()), f.end() <= end, fn)
		at = f.end()
		if err := errors.Join(err, l.unpin(f)); err != nil {
			return err
		}
	}
	return nil
}

// pin keeps the file with a position from being trimmed away. Without such a
// file it returns the start of the next one.
func (l *Log) pin(at Position) (*file, Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, 0, ErrClosed
	}
	if len(l.mu.files) == 0 || at < l.mu.files[0].base {
		return nil, 0, fmt.Errorf("position %d: %w", at, ErrTrimmed)
	}
	for _, f := range l.mu.files {
		if at < f.base {
			return nil, f.base, nil
		}
		if at < f.end() {
			f.readers++
			return f, 0, nil
		}
	}
	return nil, l.mu.end, nil
}

// unpin releases the file, and deletes it if it has been trimmed meanwhile.
func (l *Log) unpin(f *file) error {
	l.mu.Lock()
	f.readers--
	retire, closed := f.trimmed && f.readers == 0, l.mu.closed
	l.mu.Unlock()
	switch {
	case !retire:
		return nil
	case closed:
		return f.handle.Close()
	}
	l.prepare.Lock()
	defer l.prepare.Unlock()
	return l.retireLocked([]*file{f})
}

// replayFile replays [from, to) of a file. A file that is finished must have an
// end record.
func (l *Log) replayFile(f *file, from, to Position, finished bool, fn func(position, end Position, record []byte) error) error {
	offset := max(int64(from-f.base), fileHeaderBytes)
	limit := int64(to - f.base)
	s := newScanner(f.handle, f.base, offset, limit, true)
	defer s.close()
	last := int64(-1) // where a stretch of damage starts
	damaged := func(until int64) {
		if last >= 0 && last < until {
			l.corrupt(&CorruptError{File: f.name, Offset: last, Length: until - last, At: f.base + Position(last)})
		}
		last = -1
	}
	for {
		found, err := s.next()
		if err != nil {
			return l.readError(f, err)
		}
		switch found.kind {
		case foundGap:
			if last < 0 {
				last = found.from
			}
		case foundLimit:
			if last < 0 && finished && !s.ended {
				last = found.from
			}
			damaged(limit)
			return nil
		case foundRecord:
			damaged(found.from)
			if err := fn(f.base+Position(found.from), f.base+Position(found.to), found.payload); err != nil {
				return err
			}
		case foundEnd:
			damaged(found.from)
		}
	}
}

func (l *Log) readError(f *file, err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("read log file %s: %w", f.name, err)
}

func (l *Log) corrupt(e *CorruptError) {
	l.counters.corruptions.Add(1)
	l.counters.corruptBytes.Add(e.Length)
	if l.options.OnCorrupt != nil {
		l.options.OnCorrupt(e)
	}
}

// Record appends the record at a position, as Write or Replay gave it, to dst.
// Errors: ErrTrimmed, ErrNoRecord, ErrClosed, *CorruptError.
func (l *Log) Record(position Position, dst []byte) ([]byte, error) {
	if position >= l.End() {
		return dst, fmt.Errorf("position %d: %w", position, ErrNoRecord)
	}
	f, _, err := l.pin(position)
	if err != nil {
		return dst, err
	}
	if f == nil {
		return dst, fmt.Errorf("position %d: %w", position, ErrNoRecord)
	}
	dst, err = l.record(f, int64(position-f.base), dst)
	return dst, errors.Join(err, l.unpin(f))
}

func (l *Log) record(f *file, offset int64, dst []byte) ([]byte, error) {
	at := f.base + Position(offset)
	if offset < fileHeaderBytes || offset+recordHeaderBytes > f.length {
		return dst, fmt.Errorf("position %d: %w", at, ErrNoRecord)
	}
	var head [recordHeaderBytes]byte
	if err := readFull(f.handle, head[:], offset); err != nil {
		return dst, l.readError(f, err)
	}
	h, ok := parseHeader(head[:], at)
	padded := int64(paddedLength(h.length))
	if !ok || h.flags&flagsEnd != 0 || offset+padded > f.length {
		return dst, fmt.Errorf("position %d: %w", at, ErrNoRecord)
	}
	start := len(dst)
	dst = append(dst, make([]byte, h.length)...)
	if err := readFull(f.handle, dst[start:], offset+recordHeaderBytes); err != nil {
		return dst[:start], l.readError(f, err)
	}
	if crc32.Checksum(dst[start:], castagnoli) != h.payload {
		e := &CorruptError{File: f.name, Offset: offset, Length: padded, At: at}
		l.corrupt(e)
		return dst[:start], e
	}
	return dst, nil
}
