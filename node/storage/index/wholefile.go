package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// A whole file is written once and then mapped as it is (FORMAT.md):
//
//	magic · version u32 · 0 u32 · body · crc32c u32 of all before
const (
	wholeVersion    = 1
	wholeHeader     = 16
	wholeSumBytes   = 4
	wholeWriteBytes = 1 << 20
)

// wholeWriter writes a whole file from its start to its end.
type wholeWriter struct {
	file vfs.File
	b    []byte // not written yet
	at   int64  // where it goes
	sum  uint32 // of what is written
	err  error
}

// writeWhole makes a file durable but for its name. A file that could not be written is removed.
func writeWhole(fs vfs.FS, name, magic string, body func(w *wholeWriter)) error {
	return writeWholeVersion(fs, name, magic, wholeVersion, body)
}

func writeWholeVersion(fs vfs.FS, name, magic string, version uint32, body func(w *wholeWriter)) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	w := &wholeWriter{file: f}
	w.b = append(w.b, magic...)
	w.uint32(version)
	w.uint32(0)
	body(w)
	w.flush()
	w.uint32(w.sum)
	w.flush()
	if w.err == nil {
		w.err = f.Sync()
	}
	if err = errors.Join(w.err, f.Close()); err != nil {
		return errors.Join(err, fs.Remove(name))
	}
	return nil
}

func (w *wholeWriter) bytes(b []byte) {
	w.b = append(w.b, b...)
	w.flushLarge()
}

func (w *wholeWriter) uint32(v uint32) {
	w.b = binary.LittleEndian.AppendUint32(w.b, v)
	w.flushLarge()
}

func (w *wholeWriter) uint64(v uint64) {
	w.b = binary.LittleEndian.AppendUint64(w.b, v)
	w.flushLarge()
}

// pad writes zeros up to a multiple of 8 bytes.
func (w *wholeWriter) pad() {
	for (w.at+int64(len(w.b)))%8 != 0 {
		w.b = append(w.b, 0)
	}
}

func (w *wholeWriter) flushLarge() {
	if len(w.b) >= wholeWriteBytes {
		w.flush()
	}
}

func (w *wholeWriter) flush() {
	w.sum = crc32.Update(w.sum, castagnoli, w.b)
	if w.err == nil && len(w.b) > 0 {
		_, w.err = w.file.WriteAt(w.b, w.at)
	}
	w.at += int64(len(w.b))
	w.b = w.b[:0]
}

// mapWhole maps a file and checks its sum. The body is what the mapping has of it.
func mapWhole(fs vfs.FS, name, magic string) (m *vfs.Mapping, body []byte, err error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, nil, err
	}
	if size < wholeHeader+wholeSumBytes {
		return nil, nil, &CorruptError{File: name, What: fmt.Sprintf("it has %d bytes", size)}
	}
	if m, err = f.Map(size); err != nil {
		return nil, nil, err
	}
	err = m.Guard(func(b []byte) error { return checkWhole(name, magic, b) })
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	return m, m.Bytes()[wholeHeader : size-wholeSumBytes], nil
}

// checkWhole reports what is wrong with the bytes of a whole file.
func checkWhole(name, magic string, b []byte) error {
	_, err := checkWholeVersion(name, magic, wholeVersion, b)
	return err
}

// checkWholeVersion is checkWhole of a file that there is in versions up to one.
func checkWholeVersion(name, magic string, most uint32, b []byte) (version uint32, err error) {
	version = binary.LittleEndian.Uint32(b[8:])
	if string(b[:8]) != magic || version < wholeVersion || version > most {
		return 0, &CorruptError{File: name, What: "the header is of another file or version"}
	}
	end := len(b) - wholeSumBytes
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return 0, &CorruptError{File: name, What: "the checksum does not agree"}
	}
	return version, nil
}

// held is a mapping that is unmapped when nobody can reach its owner any more: readers take no lock, so
// nothing else tells when the last of them is done. Who reads what is mapped keeps the owner alive
// (runtime.KeepAlive).
type held struct {
	mapping *vfs.Mapping // nil: none
	bytes   int64
	cleanup runtime.Cleanup
}

func hold[T any](owner *T, m *vfs.Mapping) held {
	return held{m, int64(len(m.Bytes())), runtime.AddCleanup(owner, func(m *vfs.Mapping) { _ = m.Close() }, m)}
}

// close unmaps at once. Nobody may read any more.
func (h *held) close() error {
	if h.mapping == nil {
		return nil
	}
	h.cleanup.Stop()
	return h.mapping.Close()
}
