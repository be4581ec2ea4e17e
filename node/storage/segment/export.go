package segment

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// ExportShard writes a whole segment that has the samples of one shard only to
// out, and gives its Meta. The shard's section is copied byte for byte; the
// receiver writes the bytes to a file, opens it and lets Verify compare the
// samples with the digest. A shard that is not there gives ErrEmpty.
func (r *Reader) ExportShard(ctx context.Context, out io.Writer, shard uint16) (Meta, error) {
	var entry shardEntry
	var found bool
	err := r.mapping.Guard(func(b []byte) error {
		s, ok, err := r.section(b, shard)
		entry, found = s.shardEntry, ok
		return err
	})
	if err != nil {
		return Meta{}, err
	}
	if !found {
		return Meta{}, ErrEmpty
	}
	f := footer{Meta: r.meta}
	f.ShardLow, f.ShardHigh, f.Shards = shard, shard, 1
	f.Series, f.Blocks, f.Samples, f.MinMs, f.MaxMs = entry.Series, entry.Blocks, entry.Samples, entry.MinMs, entry.MaxMs
	f.directoryOffset = headerBytes + entry.Bytes
	f.Bytes = f.directoryOffset + shardEntryBytes + footerBytes
	f.Name = FileName(&f.Meta)

	if _, err := out.Write(appendHeader(nil, &f.Meta)); err != nil {
		return Meta{}, err
	}
	if err := r.copyTo(ctx, out, entry.Offset, entry.Bytes); err != nil {
		return Meta{}, err
	}
	entry.Offset = headerBytes
	tail := appendShardEntry(nil, &entry)
	f.directoryCRC = crc32.Checksum(tail, castagnoli)
	if _, err := out.Write(appendFooter(tail, &f)); err != nil {
		return Meta{}, err
	}
	return f.Meta, nil
}

// copyTo writes a range of the file. Bytes are copied out of the mapping first,
// so that a fault does not happen inside a system call.
func (r *Reader) copyTo(ctx context.Context, out io.Writer, offset, length int64) error {
	buffer := make([]byte, min(length, outputBytes))
	for length > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buffer[:min(length, outputBytes)]
		err := r.mapping.Guard(func(b []byte) error {
			copy(part, b[offset:])
			return nil
		})
		if err != nil {
			return err
		}
		if _, err := out.Write(part); err != nil {
			return err
		}
		offset, length = offset+int64(len(part)), length-int64(len(part))
	}
	return nil
}

// Verify reads all blocks, index pages and rollup pages, and compares the samples
// of each shard with its digest. It gives the first error: a *CorruptError, a
// *vfs.FaultError or that of the context.
func (r *Reader) Verify(ctx context.Context) error {
	for n := range r.meta.Shards {
		if err := r.verifyShard(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) verifyShard(ctx context.Context, n int) error {
	var w walker
	w.start(r, n, n+1)
	var points codec.Points
	sums := ShardInfo{}
	series, begun := uint32(0), false
	for {
		if err := w.next(); err != nil {
			return err
		}
		if w.done {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		points.Reset()
		if err := w.points(&points); err != nil {
			return err
		}
		if !begun || w.id() != series {
			sums.Series++
		}
		series, begun = w.id(), true
		sums.Blocks++
		sums.Samples += int64(points.Len())
		sums.Digest += DigestPoints(series, &points)
	}
	return r.mapping.Guard(func(b []byte) error {
		e := &r.shards[n]
		s, err := r.sectionAt(b, n)
		if err != nil {
			return err
		}
		if sums.Series != e.Series || sums.Blocks != e.Blocks || sums.Samples != e.Samples || sums.Digest != e.Digest {
			return s.corrupt(PartDigest, 0, 0, fmt.Sprintf("%d series, %d blocks, %d samples with digest %016x, not %d, %d, %d with %016x",
				sums.Series, sums.Blocks, sums.Samples, sums.Digest, e.Series, e.Blocks, e.Samples, e.Digest))
		}
		return verifyRollups(&s)
	})
}

// verifyRollups reads all rollups of a shard.
func verifyRollups(s *section) error {
	pages := s.pages(pageRollup)
	for n := range pages.len() {
		e := pages.at(n)
		var page pageReader
		if err := s.page(&page, &e, pageRollup); err != nil {
			return err
		}
		ok, reason := page.next()
		for ; ok; ok, reason = page.next() {
			for _, width := range [...]int64{HourMs, DayMs} {
				q := rollupQuery{toMs: -1, widthMs: width} // an empty range: nothing is kept
				if reason = q.readBody(page.body, s.reader.meta.Partition); reason != "" {
					return s.corrupt(PartRollups, page.id, e.offset, reason)
				}
			}
		}
		if reason != "" {
			return s.corrupt(PartRollups, page.id, e.offset, reason)
		}
	}
	return nil
}
