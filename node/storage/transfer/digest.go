package transfer

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Digest is a hash of what a shard has in a range of time: the samples that a scan
// returns, their series by key, and the bits of their values. It depends neither on ids
// nor on how samples lie in pages and files. Equal contents have equal digests;
// different ones by chance 1 in 2^64. It guards against disks and bugs, not against an
// adversary.
type Digest struct {
	Sum     uint64 // over all samples, modulo 2^64, of a hash of key, time and value
	Series  int64  // that have samples
	Samples int64
}

// digestBytes is the length of an encoded digest.
const digestBytes = 24

// AppendTo appends the digest as it travels: sum, series and samples, big endian.
func (d Digest) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, d.Sum)
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.Series))
	return binary.BigEndian.AppendUint64(dst, uint64(d.Samples))
}

// ParseDigest reads what AppendTo appended. Error: ErrStream.
func ParseDigest(b []byte) (Digest, error) {
	if len(b) != digestBytes {
		return Digest{}, fmt.Errorf("%w: a digest of %d bytes", ErrStream, len(b))
	}
	return Digest{
		Sum: binary.BigEndian.Uint64(b), Series: int64(binary.BigEndian.Uint64(b[8:])), Samples: int64(binary.BigEndian.Uint64(b[16:])),
	}, nil
}

// ShardDigest reads a shard's samples in [fromMs, toMs]. Errors: those of a scan;
// series.ErrUnavailable when the shard is dropped or replaced meanwhile.
func (m *Mover) ShardDigest(ctx context.Context, shard uint16, fromMs, toMs int64) (Digest, error) {
	return m.digest(ctx, shard, fromMs, toMs, func(int) error { return nil })
}

// RangeDigest is a digest that stands for all entries from Since to Applied: none after
// Since, up to Applied, has changed anything in the range.
type RangeDigest struct {
	Digest
	Since, Applied uint64
}

// rangeDigestAttempts bounds how often a range is read that is written meanwhile.
const rangeDigestAttempts = 3

// RangeDigest is ShardDigest with the entries that it stands for. Pace is called with
// the number of samples that were read; it may wait, and an error ends the reading.
// Errors: as ShardDigest; series.ErrOverloaded when the range is being written;
// series.ErrUnavailable when the shard is not what its entries say: one of them stalls, or
// was lost.
func (m *Mover) RangeDigest(ctx context.Context, shard uint16, fromMs, toMs int64, pace func(samples int) error) (RangeDigest, error) {
	for range rangeDigestAttempts {
		since, _ := m.UnchangedSince(shard, toMs)
		d, err := m.digest(ctx, shard, fromMs, toMs, pace)
		if err == nil && m.o.Shards[shard].Exact() != nil {
			err = fmt.Errorf("%w: shard %d is between two entries", series.ErrUnavailable, shard)
		}
		if err != nil {
			return RangeDigest{}, err
		}
		if after, applied := m.UnchangedSince(shard, toMs); after == since {
			return RangeDigest{d, since, applied}, nil
		}
	}
	return RangeDigest{}, fmt.Errorf("%w: shard %d is being written before %d ms", series.ErrOverloaded, shard, toMs)
}

// monthsBeforeMs is how much younger than the latest range one may be to be a day.
const monthsBeforeMs = 35 * segment.DayMs

// DigestRanges cuts all of time before a moment into ranges of a shard to compare: days
// that have samples here, or months if they are old, and what lies between them. Both ends
// are inclusive.
func (m *Mover) DigestRanges(shard uint16, beforeMs int64) (ranges []segment.TimeRange) {
	segments := m.o.Files.Present().Segments
	lastMs := segment.PartitionOf(beforeMs, segment.SpanDay).StartMs
	cells := map[segment.Partition]bool{}
	for i := range segments {
		meta := &segments[i]
		if shard < meta.ShardLow || shard > meta.ShardHigh {
			continue
		}
		for at := meta.MinMs; at <= meta.MaxMs && at < lastMs; {
			p := segment.PartitionOf(at, segment.SpanMonth)
			if p.EndMs > lastMs-monthsBeforeMs {
				p = segment.PartitionOf(at, segment.SpanDay)
			}
			cells[p] = true
			at = p.EndMs
		}
	}
	order := slices.SortedFunc(maps.Keys(cells), func(a, b segment.Partition) int { return cmp.Compare(a.StartMs, b.StartMs) })
	fromMs := int64(scan.TimeMsMin)
	for _, p := range order {
		if p.StartMs > fromMs {
			ranges = append(ranges, segment.TimeRange{FromMs: fromMs, ToMs: p.StartMs - 1})
		}
		ranges = append(ranges, segment.TimeRange{FromMs: p.StartMs, ToMs: p.EndMs - 1})
		fromMs = p.EndMs
	}
	if fromMs < lastMs {
		ranges = append(ranges, segment.TimeRange{FromMs: fromMs, ToMs: lastMs - 1})
	}
	return ranges
}

// UnchangedSince returns the entry of a shard from which on nothing at toMs or before has
// changed up to the entry applied. It is looked after from the first call on.
func (m *Mover) UnchangedSince(shard uint16, toMs int64) (since, applied uint64) {
	if int(shard) >= len(m.o.Shards) {
		return 0, 0
	}
	return m.o.Shards[shard].UnchangedSince(toMs)
}

func (m *Mover) digest(ctx context.Context, shard uint16, fromMs, toMs int64, pace func(samples int) error) (Digest, error) {
	ctx, leave, err := m.enter(ctx, shard, series.ErrUnavailable)
	if err != nil {
		return Digest{}, err
	}
	defer leave()
	r := m.o.Source.NewReader(0)
	defer r.Close()
	if err := m.o.Source.Lacks(r.Version, shard, segment.TimeRange{FromMs: fromMs, ToMs: toMs}); err != nil {
		return Digest{}, err
	}
	var d Digest
	var key []byte
	gone := m.o.Shards[shard].Forgotten()
	for id := range series.ID(m.o.Index.ShardSeries(shard)) {
		if err := ctx.Err(); err != nil {
			return Digest{}, err
		}
		if gone.Has(uint32(id)) {
			continue
		}
		var sum uint64
		samples := 0
		if key, err = m.o.Index.KeyOf(shard, id, key[:0]); err != nil {
			return Digest{}, err
		}
		seed := keyHash(key)
		err := r.Read(series.Ref{Shard: shard, ID: id}, fromMs, toMs, func(times []int64, values []float64) error {
			for i, t := range times {
				sum += digestSample(seed, t, values[i])
			}
			samples += len(times)
			return errors.Join(pace(len(times)), ctx.Err())
		})
		if err != nil {
			return Digest{}, err
		}
		if samples > 0 {
			d.Series++
			d.Samples += int64(samples)
			d.Sum += sum
		}
	}
	return d, nil
}

// Odd constants: digits of π and e.
const (
	digestKey   = 0x243f6a8885a308d3
	digestTime  = 0x13198a2e03707344
	digestValue = 0xb7e151628aed2a6b
)

// keyHash mixes a key eight bytes at a time, as wyhash (Wang Yi) does.
func keyHash(key []byte) uint64 {
	h := uint64(len(key)) ^ digestKey
	for ; len(key) >= 8; key = key[8:] {
		h = mix(h^binary.LittleEndian.Uint64(key), digestValue)
	}
	var last [8]byte
	copy(last[:], key)
	return mix(h^binary.LittleEndian.Uint64(last[:]), digestTime)
}

func digestSample(seed uint64, timeMs int64, value float64) uint64 {
	return mix(mix(uint64(timeMs)^digestTime, math.Float64bits(value)^digestValue)^seed, uint64(timeMs)^digestKey)
}

// mix folds the 128-bit product.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
