package segment

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// ShardFile is a segment that has the samples of one shard only, as bytes that can
// be read from any place: the shard's section as it is in a larger segment, with a
// header and a footer of its own. It reads from the Reader, which must stay open.
type ShardFile struct {
	Meta   Meta
	reader *Reader
	head   []byte
	offset int64 // of the section in the reader's file
	length int64 // of the section
	tail   []byte
}

// ShardFile returns the segment of one shard. A shard that is not there returns ErrEmpty;
// other errors are *CorruptError and *vfs.FaultError.
func (r *Reader) ShardFile(shard uint16) (*ShardFile, error) {
	var entry shardEntry
	var found bool
	err := r.mapping.Guard(func(b []byte) error {
		s, ok, err := r.section(b, shard)
		entry, found = s.shardEntry, ok
		return err
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrEmpty
	}
	f := footer{Meta: r.meta}
	f.ShardLow, f.ShardHigh, f.Shards = shard, shard, 1
	f.Series, f.Blocks, f.Samples, f.MinMs, f.MaxMs = entry.Series, entry.Blocks, entry.Samples, entry.MinMs, entry.MaxMs
	f.directoryOffset = headerBytes + entry.Bytes
	f.Bytes = f.directoryOffset + shardEntryBytes + footerBytes
	f.Name = FileName(&f.Meta)
	file := &ShardFile{Meta: f.Meta, reader: r, head: appendHeader(nil, &f.Meta), offset: entry.Offset, length: entry.Bytes}
	entry.Offset = headerBytes
	file.tail = appendShardEntry(nil, &entry)
	f.directoryCRC = crc32.Checksum(file.tail, castagnoli)
	file.tail = appendFooter(file.tail, &f)
	return file, nil
}

// ReadAt implements io.ReaderAt. Errors besides io.EOF: *vfs.FaultError.
func (f *ShardFile) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, fmt.Errorf("segment: read at %d", offset)
	}
	for n < len(p) {
		at := offset + int64(n)
		sectionEnd := int64(len(f.head)) + f.length
		switch {
		case at < int64(len(f.head)):
			n += copy(p[n:], f.head[at:])
		case at < sectionEnd:
			part := p[n:min(int64(len(p)), int64(n)+sectionEnd-at)]
			// Out of the mapping first: a fault must not happen in a system call.
			err := f.reader.mapping.Guard(func(b []byte) error {
				copy(part, b[f.offset+at-int64(len(f.head)):])
				return nil
			})
			if err != nil {
				return n, err
			}
			n += len(part)
		case at < f.Meta.Bytes:
			n += copy(p[n:], f.tail[at-sectionEnd:])
		default:
			return n, io.EOF
		}
	}
	return n, nil
}

// ExportShard writes the segment of one shard to out and returns its Meta. The shard's
// section is copied byte for byte; the receiver writes the bytes to a file, opens it
// and lets Verify compare the samples with the digest. Errors: as ShardFile, and
// those of the context and of out.
func (r *Reader) ExportShard(ctx context.Context, out io.Writer, shard uint16) (Meta, error) {
	file, err := r.ShardFile(shard)
	if err != nil {
		return Meta{}, err
	}
	buffer := make([]byte, min(file.Meta.Bytes, outputBytes))
	for at := int64(0); at < file.Meta.Bytes; {
		if err := ctx.Err(); err != nil {
			return Meta{}, err
		}
		n, err := file.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return Meta{}, err
		}
		if _, err := out.Write(buffer[:n]); err != nil {
			return Meta{}, err
		}
		at += int64(n)
	}
	return file.Meta, nil
}

// Renumber returns a finished file that nobody has open a sequence of its own, makes
// that durable, and returns the Meta with the name that the file should have. It is
// for a segment that comes from another node, where sequences mean something else.
// A file that is cut off in the middle fails to open. Errors: *CorruptError,
// ErrVersion and those of the disk.
func Renumber(fs vfs.FS, name string, sequence uint64) (Meta, error) {
	return rewrite(fs, name, func(m *Meta) { m.SequenceLow, m.SequenceHigh = sequence, sequence })
}

// DropDayDigests makes a finished file that nobody has open one without day digests and without
// first and last values of rollups, and makes that durable. It is for one of which Verify returns
// PartDayDigests: the next merge makes all of them anew. Errors are those of Renumber.
func DropDayDigests(fs vfs.FS, name string) error {
	_, err := rewrite(fs, name, func(m *Meta) { m.DayDigests, m.DayRollups, m.HourEnds = false, false, false })
	return err
}

// rewrite changes what header and footer of a file say.
func rewrite(fs vfs.FS, name string, change func(*Meta)) (Meta, error) {
	file, err := fs.OpenReadWrite(name)
	if err != nil {
		return Meta{}, fmt.Errorf("segment: rewrite: %w", err)
	}
	meta, err := rewriteFile(file, change)
	if closeErr := file.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("segment %s: %w", name, closeErr)
	}
	return meta, err
}

func rewriteFile(file vfs.File, change func(*Meta)) (Meta, error) {
	size, err := file.Size()
	if err != nil {
		return Meta{}, fmt.Errorf("segment %s: %w", file.Name(), err)
	}
	if size < headerBytes+footerBytes {
		return Meta{}, &CorruptError{File: file.Name(), Part: PartFile, Reason: "file too short"}
	}
	var b [footerBytes]byte
	if _, err := file.ReadAt(b[:], size-footerBytes); err != nil {
		return Meta{}, fmt.Errorf("segment %s: %w", file.Name(), err)
	}
	f, reason, err := parseFooter(b[:])
	if err != nil {
		return Meta{}, fmt.Errorf("segment %s: %w", file.Name(), err)
	}
	if reason == "" && f.Bytes != size {
		reason = "length of the file"
	}
	if reason != "" {
		return Meta{}, &CorruptError{File: file.Name(), Part: PartFile, Offset: size - footerBytes, Reason: reason}
	}
	change(&f.Meta)
	if _, err = file.WriteAt(appendHeader(nil, &f.Meta), 0); err == nil {
		_, err = file.WriteAt(appendFooter(nil, &f), size-footerBytes)
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return Meta{}, fmt.Errorf("segment %s: %w", path.Base(file.Name()), err)
	}
	f.Name = FileName(&f.Meta)
	return f.Meta, nil
}
