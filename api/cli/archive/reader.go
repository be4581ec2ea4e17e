package archive

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/tickmesh/tickmesh/api/series"
)

// Visitor takes samples of a series, whose slices it must not keep.
type Visitor func(key series.Key, timesMs []int64, values []float64) error

// asDamage calls an object that is missing damaged, as something names it.
func asDamage(err error, o *Object) error {
	if errors.Is(err, ErrNone) {
		return fmt.Errorf("%s is %w: it is missing", o.key(), ErrDamaged)
	}
	return err
}

// partOf is a part of a unit.
type partOf struct {
	unit int
	Part
}

// partsByObject returns the parts in each object, in the order of their places.
func (b *Backup) partsByObject() [][]partOf {
	parts := make([][]partOf, len(b.index.Objects))
	for i := range b.index.Units {
		for _, p := range b.index.Units[i].Parts {
			parts[p.Object] = append(parts[p.Object], partOf{i, p})
		}
	}
	for _, list := range parts {
		slices.SortFunc(list, func(a, b partOf) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	return parts
}

// Read passes on the samples of the units that are wanted, object by object: a unit may come in
// several pieces, with others between. The checksum of each object is compared before its
// samples are given, so what is given is what was written. Done, if not nil, is told of
// the bytes of each object. Errors: ErrDamaged, those of the storage and of visit.
func (b *Backup) Read(ctx context.Context, wanted func(*Unit) bool, visit func(*Unit) Visitor, done func(bytes int64)) error {
	d, err := newDecoder()
	if err != nil {
		return err
	}
	defer d.close()
	for i, parts := range b.partsByObject() {
		parts = slices.DeleteFunc(parts, func(p partOf) bool { return !wanted(&b.index.Units[p.unit]) })
		if err := b.readParts(ctx, d, i, parts, visit); err != nil {
			return err
		}
		if done != nil {
			done(b.index.Objects[i].Bytes)
		}
	}
	return nil
}

func (b *Backup) readParts(ctx context.Context, d *decoder, object int, parts []partOf, visit func(*Unit) Visitor) error {
	if len(parts) == 0 {
		return ctx.Err()
	}
	o := &b.index.Objects[object]
	content, err := readObject(ctx, b.store, o, len(b.Recipients) > 0)
	if err == nil {
		err = checkHeader(content)
	}
	for _, p := range parts {
		if err == nil && p.Offset+p.Bytes > int64(len(content)) {
			err = fmt.Errorf("%w: it ends before a part of it", ErrDamaged)
		}
		if err != nil {
			break
		}
		err = d.blocks(content[p.Offset:p.Offset+p.Bytes], visit(&b.index.Units[p.unit]))
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrFormat) {
		return fmt.Errorf("%s: %s: %w", b.store, o.key(), err)
	}
	return err
}

// damagesMax bounds the damages that are told one by one.
const damagesMax = 20

// Check reads all objects of the backup and compares checksums, and number and digest of
// the samples of each unit. Errors: ErrDamaged, with the names of what is damaged, those of
// the storage.
func (b *Backup) Check(ctx context.Context, done func(bytes int64)) error {
	d, err := newDecoder()
	if err != nil {
		return err
	}
	defer d.close()
	digests := make([]Digest, len(b.index.Units))
	number := map[*Unit]int{}
	for i := range b.index.Units {
		number[&b.index.Units[i]] = i
	}
	var damages []error
	for i, parts := range b.partsByObject() {
		err := b.readParts(ctx, d, i, parts, func(u *Unit) Visitor {
			return func(key series.Key, timesMs []int64, values []float64) error {
				digests[number[u]].Add(key, timesMs, values)
				return u.owns(key, timesMs)
			}
		})
		switch {
		case err != nil && !known(err):
			return err
		case err != nil && len(damages) < damagesMax:
			damages = append(damages, err)
		}
		if done != nil {
			done(b.index.Objects[i].Bytes)
		}
	}
	if len(damages) > 0 {
		return errors.Join(damages...)
	}
	for i := range b.index.Units {
		if u := &b.index.Units[i]; digests[i] != u.Digest {
			return fmt.Errorf("%s: backup %q is %w: metric %q of database %q has %+v, its index says %+v", b.store, b.Name, ErrDamaged, u.Metric, u.Database, digests[i], u.Digest)
		}
	}
	return nil
}

// owns reports whether samples belong to a unit. Errors: ErrDamaged.
func (u *Unit) owns(key series.Key, timesMs []int64) error {
	database, metric, _, err := key.Parts(nil)
	if err != nil || string(database) != string(u.Database) || string(metric) != string(u.Metric) ||
		slices.Min(timesMs) < u.FromMs || slices.Max(timesMs) > u.ToMs {
		return fmt.Errorf("%w: samples of %q are in the unit of metric %q of database %q", ErrDamaged, key, u.Metric, u.Database)
	}
	return nil
}

// decoder reads blocks.
type decoder struct {
	zstd  *zstd.Decoder
	block []byte
	run   run
}

func newDecoder() (*decoder, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(blockBytesMax))
	if err != nil {
		return nil, err
	}
	return &decoder{zstd: z}, nil
}

func (d *decoder) close() { d.zstd.Close() }

// checkHeader reports whether an object has samples. Errors: ErrDamaged, ErrFormat.
func checkHeader(content []byte) error {
	if len(content) < objectHeaderBytes || string(content[:len(objectMagic)]) != objectMagic {
		return fmt.Errorf("%w: it has no samples", ErrDamaged)
	}
	if version := binary.LittleEndian.Uint32(content[len(objectMagic):]); version != objectVersion {
		return fmt.Errorf("%w: version %d", ErrFormat, version)
	}
	return nil
}

// blocks passes on the samples of a row of blocks. Errors: ErrDamaged, those of visit.
func (d *decoder) blocks(content []byte, visit Visitor) error {
	for len(content) > 0 {
		if len(content) < blockHeaderBytes {
			return fmt.Errorf("%w: a block ends early", ErrDamaged)
		}
		length, sum := binary.LittleEndian.Uint32(content), binary.LittleEndian.Uint32(content[4:])
		content = content[blockHeaderBytes:]
		if length == 0 || length > payloadBytesMax || int64(length) > int64(len(content)) {
			return fmt.Errorf("%w: a block of %d bytes", ErrDamaged, length)
		}
		payload := content[:length]
		content = content[length:]
		if crc32.Checksum(payload, castagnoli()) != sum {
			return fmt.Errorf("%w: the checksum of a block does not fit", ErrDamaged)
		}
		var err error
		if d.block, err = d.zstd.DecodeAll(payload, d.block[:0]); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		for rest := d.block; len(rest) > 0; {
			if rest, err = d.run.next(rest); err != nil {
				return err
			}
			if err := visit(d.run.key, d.run.timesMs, d.run.values); err != nil {
				return err
			}
		}
	}
	return nil
}
