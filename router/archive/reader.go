package archive

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/tickmesh/tickmesh/api/series"
)

// Visitor takes samples of a series, whose slices it must not keep.
type Visitor func(key series.Key, timesMs []int64, values []float64) error

// Read gives the samples of a file of an archive, as far as the file is what the
// manifest says. Errors: ErrDamaged, with the name of the file, those of the file
// system and of visit. What was given before ErrDamaged may be wrong only where the
// checksum of a block is right by chance: Check a file before its samples are used.
func Read(dir string, f *File, visit Visitor) error {
	file, err := os.Open(filepath.Join(dir, f.Name))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is %w: it is missing", filepath.Join(dir, f.Name), ErrDamaged)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := newReader(file)
	if err != nil {
		return err
	}
	defer r.zstd.Close()
	err = r.readAll(visit)
	if err == nil && (r.bytes != f.Bytes || r.crc.Sum32() != f.CRC32C) {
		err = fmt.Errorf("%w: it has %d bytes with checksum %08x, the manifest says %d with %08x", ErrDamaged, r.bytes, r.crc.Sum32(), f.Bytes, f.CRC32C)
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrFormat) {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	return err
}

// Check reads a file and compares it with the manifest: bytes, checksum, and number and
// digest of the samples. Errors: those of Read.
func Check(dir string, f *File) error {
	var units []Summary
	var d Digester
	at := 0 // of f.Units
	left := func() int64 {
		if at < len(f.Units) {
			return f.Units[at].Samples - d.samples
		}
		return 0
	}
	end := func() {
		for at < len(f.Units) && left() == 0 {
			units = append(units, d.Summary())
			d, at = Digester{}, at+1
		}
	}
	end()
	err := Read(dir, f, func(key series.Key, timesMs []int64, values []float64) error {
		if int64(len(timesMs)) > left() {
			return fmt.Errorf("%s: %w: it has other samples than the manifest says", filepath.Join(dir, f.Name), ErrDamaged)
		}
		d.Add(key, timesMs, values)
		end()
		return nil
	})
	if err != nil {
		return err
	}
	for i := range f.Units {
		if i >= len(units) || units[i] != f.Units[i].Summary {
			return fmt.Errorf("%s: %w: metric %q is not what the manifest says", filepath.Join(dir, f.Name), ErrDamaged, f.Units[i].Metric)
		}
	}
	return nil
}

type reader struct {
	in    *bufio.Reader
	zstd  *zstd.Decoder
	crc   hash.Hash32
	bytes int64

	payload, block []byte
	run            run
}

func newReader(in io.Reader) (*reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(blockBytesMax))
	if err != nil {
		return nil, err
	}
	return &reader{in: bufio.NewReaderSize(in, 256<<10), zstd: decoder, crc: crc32.New(castagnoli())}, nil
}

// take reads n bytes.
func (r *reader) take(n int) ([]byte, error) {
	if cap(r.payload) < n {
		r.payload = make([]byte, n)
	}
	b := r.payload[:n]
	got, err := io.ReadFull(r.in, b)
	r.bytes += int64(got)
	r.crc.Write(b[:got])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: it ends early", ErrDamaged)
	}
	return b, err
}

func (r *reader) readAll(visit Visitor) error {
	header, err := r.take(fileHeaderBytes)
	if err != nil {
		return err
	}
	if string(header[:len(fileMagic)]) != fileMagic {
		return fmt.Errorf("%w: it is no file of samples", ErrDamaged)
	}
	if version := binary.LittleEndian.Uint32(header[len(fileMagic):]); version != Format {
		return fmt.Errorf("%w: version %d", ErrFormat, version)
	}
	for {
		ended, err := r.readBlock(visit)
		if err != nil {
			return err
		}
		if ended {
			break
		}
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", ErrDamaged)
	}
	return nil
}

func (r *reader) readBlock(visit Visitor) (ended bool, err error) {
	header, err := r.take(blockHeaderBytes)
	if err != nil {
		return false, err
	}
	length, sum := binary.LittleEndian.Uint32(header), binary.LittleEndian.Uint32(header[4:])
	if length == 0 && sum == 0 {
		return true, nil
	}
	if length == 0 || length > payloadBytesMax {
		return false, fmt.Errorf("%w: a block of %d bytes", ErrDamaged, length)
	}
	payload, err := r.take(int(length))
	if err != nil {
		return false, err
	}
	if crc32.Checksum(payload, castagnoli()) != sum {
		return false, fmt.Errorf("%w: the checksum of a block does not fit", ErrDamaged)
	}
	if r.block, err = r.zstd.DecodeAll(payload, r.block[:0]); err != nil {
		return false, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for rest := r.block; len(rest) > 0; {
		if rest, err = r.run.next(rest); err != nil {
			return false, err
		}
		if err := visit(r.run.key, r.run.timesMs, r.run.values); err != nil {
			return false, err
		}
	}
	return false, nil
}
