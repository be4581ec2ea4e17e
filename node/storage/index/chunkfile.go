package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	chunkFileVersion = 1
	chunkFileHeader  = 16
	chunkHeadBytes   = 8       // crc32c u32 · number u32
	chunkWriteBytes  = 1 << 20 // at most so many are written at a time
)

// chunkFile is an append-only file of chunks of one size. A chunk never changes, and is mapped from
// when it is durable. Reading takes no lock; one goroutine at a time may append.
type chunkFile struct {
	fs    vfs.FS
	name  string
	magic string
	bytes int64 // of a chunk, its head included; a multiple of 4
	// readOnly: another chunkFile may be appending to the file by another name.
	readOnly bool
	count    atomic.Uint32

	file     vfs.File // nil: not made yet
	mappings []*vfs.Mapping
	mapped   int64
	failed   error // of a sync: it is not known what is on the disk, and nothing more is appended
}

func newChunkFile(fs vfs.FS, name, magic string, payloadBytes int) *chunkFile {
	return &chunkFile{fs: fs, name: name, magic: magic, bytes: int64(payloadBytes) + chunkHeadBytes}
}

func (f *chunkFile) place(n uint32) int64 { return chunkFileHeader + int64(n)*f.bytes }

// chunkPlace returns where a chunk with so many bytes of payload begins.
func chunkPlace(n, payloadBytes int) int64 {
	return chunkFileHeader + int64(n)*(int64(payloadBytes)+chunkHeadBytes)
}

// payload returns what a chunk holds. It is mapped, and valid until close.
func (f *chunkFile) payload(n uint32) []byte {
	at := f.place(n)
	return f.mappings[len(f.mappings)-1].Bytes()[at+chunkHeadBytes : at+f.bytes]
}

// open maps the first count chunks, cuts the file behind them and checks each, in parallel. What a
// caller wants to check besides is in check. After an error the file is as one that was not made.
func (f *chunkFile) open(count uint32, workers int, check func(n uint32, payload []byte) error) (err error) {
	if count == 0 {
		return nil
	}
	open := f.fs.OpenReadWrite
	if f.readOnly {
		open = f.fs.Open
	}
	if f.file, err = open(f.name); err != nil {
		return err
	}
	err = f.openChunks(count)
	if err == nil {
		err = parallel(workers, int(count), func(i int) error {
			return vfs.Guard(func() error {
				if err := f.intact(uint32(i)); err != nil {
					return err
				}
				return check(uint32(i), f.payload(uint32(i)))
			})
		})
	}
	if err != nil {
		err = errors.Join(err, f.close())
		f.file, f.mappings, f.mapped = nil, nil, 0
		f.count.Store(0)
	}
	return err
}

func (f *chunkFile) openChunks(count uint32) error {
	size, err := f.file.Size()
	if err != nil {
		return err
	}
	end := f.place(count)
	if size < end {
		return &CorruptError{File: f.name, Offset: size, What: fmt.Sprintf("%d bytes are missing", end-size)}
	}
	header := make([]byte, chunkFileHeader)
	if _, err := f.file.ReadAt(header, 0); err != nil {
		return err
	}
	if string(header) != string(f.header()) {
		return &CorruptError{File: f.name, What: "the header is of another file or version"}
	}
	if f.readOnly {
		if err := f.mapWhole(end); err != nil {
			return err
		}
		f.count.Store(count)
		return nil
	}
	if err := f.file.Truncate(end); err != nil {
		return err
	}
	f.count.Store(count)
	return f.mapTo(end)
}

func (f *chunkFile) header() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(f.magic), chunkFileVersion)
	return binary.LittleEndian.AppendUint32(b, uint32(f.bytes))
}

func (f *chunkFile) intact(n uint32) error {
	chunk := f.mappings[len(f.mappings)-1].Bytes()[f.place(n):f.place(n+1)]
	if binary.LittleEndian.Uint32(chunk) != crc32.Checksum(chunk[4:], castagnoli) || binary.LittleEndian.Uint32(chunk[4:]) != n {
		return &CorruptError{File: f.name, Offset: f.place(n), What: fmt.Sprintf("chunk %d", n)}
	}
	return nil
}

// append makes chunks durable, so many that are given by their number from 0 on, and maps them.
func (f *chunkFile) append(chunks int, payload func(i int) []byte) error {
	switch {
	case chunks == 0:
		return nil
	case f.failed != nil:
		return f.failed
	}
	if err := f.write(chunks, payload); err != nil {
		return err
	}
	f.count.Add(uint32(chunks))
	return nil
}

func (f *chunkFile) write(chunks int, payload func(i int) []byte) error {
	if f.file == nil {
		if err := f.create(); err != nil {
			return err
		}
	}
	first := f.count.Load()
	at := f.place(first)
	var b []byte
	for i := range chunks {
		b = appendSummed(b, first+uint32(i), payload(i))
		if len(b) >= chunkWriteBytes || i == chunks-1 {
			if _, err := f.file.WriteAt(b, at); err != nil {
				return err
			}
			at += int64(len(b))
			b = b[:0]
		}
	}
	if f.failed = f.file.Sync(); f.failed != nil {
		return f.failed
	}
	return f.mapTo(at)
}

func appendSummed(b []byte, n uint32, payload []byte) []byte {
	head := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, n)
	b = append(b, payload...)
	binary.LittleEndian.PutUint32(b[head:], crc32.Checksum(b[head+4:], castagnoli))
	return b
}

// shared reports whether the file may have a second name: a snapshot's, in which nothing may change.
func (f *chunkFile) shared() bool {
	if f.file == nil {
		return false
	}
	links, err := f.file.Links()
	return err != nil || links != 1
}

// rewrite writes a chunk again that the disk does not give back as it was. Should only a part of it come to the
// disk, its sum says so to the next open.
func (f *chunkFile) rewrite(n uint32, payload []byte) error {
	if f.failed != nil {
		return f.failed
	}
	if _, err := f.file.WriteAt(appendSummed(nil, n, payload), f.place(n)); err != nil {
		return err
	}
	f.failed = f.file.Sync()
	return f.failed
}

func (f *chunkFile) create() error {
	file, err := f.fs.Create(f.name)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(f.header(), 0); err == nil {
		err = f.fs.SyncDir(path.Dir(f.name))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file = file
	return nil
}

// mapTo makes the last mapping reach to end at least. Older mappings stay: readers may hold
// addresses in them.
func (f *chunkFile) mapTo(end int64) error {
	if end <= f.mapped {
		return nil
	}
	length := int64(mapBytesMin)
	for length < end {
		length *= 2
	}
	// The file grows without taking blocks of the disk; WriteAt takes them.
	if err := f.file.Truncate(length); err != nil {
		return err
	}
	return f.mapWhole(length)
}

// mapWhole maps the first length bytes of the file, which it has.
func (f *chunkFile) mapWhole(length int64) error {
	m, err := f.file.Map(length)
	if err != nil {
		return err
	}
	f.mappings, f.mapped = append(f.mappings, m), length
	return nil
}

// close unmaps and closes. Nobody may read any more.
func (f *chunkFile) close() error {
	var errs []error
	for _, m := range f.mappings {
		errs = append(errs, m.Close())
	}
	f.mappings = nil
	if f.file != nil {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}

// hostIsLittle reports whether numbers in memory are as they are in files. If they are not, no files
// of persisted series are used.
func hostIsLittle() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }
