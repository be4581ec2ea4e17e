package segment

import (
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// decodePoints checks and decodes a block, and appends its samples within a range of time to
// dst, which is as before after an error. It must be called within Guard.
func (s *section) decodePoints(id uint32, b *blockRef, block *codec.BlockReader, within TimeRange, dst *codec.Points) error {
	if err := s.openBlock(id, b, block); err != nil {
		return err
	}
	if firstMs, intervalMs, ok := block.Interval(); ok && intervalMs > 0 {
		if firstMs != b.minMs || firstMs+intervalMs*int64(b.samples-1) != b.maxMs {
			return s.corruptBlock(id, b, errBlockTimes)
		}
		from, to := regularWithin(b, intervalMs, within)
		values, err := block.Values(dst.Values, from, to)
		if err != nil {
			return s.corruptBlock(id, b, err)
		}
		dst.Times, dst.Values = codec.AppendRegular(dst.Times, firstMs+intervalMs*int64(from), intervalMs, to-from), values
		return nil
	}
	before := dst.Len()
	times, err := s.decodeTimes(id, b, block, dst.Times)
	if err != nil {
		return err
	}
	from, to := growingWithin(times[before:], within)
	values, err := block.Values(dst.Values, from, to)
	if err != nil {
		return s.corruptBlock(id, b, err)
	}
	dst.Times, dst.Values = append(times[:before], times[before+from:before+to]...), values
	return nil
}

// regularWithin returns the samples [from, to) of a block that lie within a range, of one
// whose times all have the same distance.
func regularWithin(b *blockRef, intervalMs int64, within TimeRange) (from, to int) {
	// Differences of two times may need 64 bits.
	to = b.samples
	switch {
	case within.ToMs < b.minMs:
		to = 0
	case within.ToMs < b.maxMs:
		to = int((uint64(within.ToMs)-uint64(b.minMs))/uint64(intervalMs)) + 1
	}
	switch {
	case within.FromMs > b.maxMs:
		from = to
	case within.FromMs > b.minMs:
		from = int((uint64(within.FromMs)-uint64(b.minMs)-1)/uint64(intervalMs)) + 1
	}
	return min(from, to), to
}

// growingWithin returns the times [from, to) that lie within a range.
func growingWithin(times []int64, within TimeRange) (from, to int) {
	from, _ = slices.BinarySearch(times, within.FromMs)
	to, found := slices.BinarySearch(times, within.ToMs)
	if found {
		to++
	}
	return min(from, to), to
}

// decodeColumns is decodePoints with values as numbers.
func (s *section) decodeColumns(id uint32, b *blockRef, block *codec.BlockReader, dst *codec.Columns) error {
	if err := s.openBlock(id, b, block); err != nil {
		return err
	}
	times, err := s.decodeTimes(id, b, block, dst.Times)
	if err != nil {
		return err
	}
	mantissas, scales, err := block.Numbers(dst.Mantissas, dst.Scales)
	if err != nil {
		return s.corruptBlock(id, b, err)
	}
	dst.Times, dst.Mantissas, dst.Scales = times, mantissas, scales
	return nil
}

// openBlock starts to read a block.
func (s *section) openBlock(id uint32, b *blockRef, block *codec.BlockReader) error {
	payload, err := s.payload(id, b)
	if err != nil {
		return err
	}
	if err = block.Reset(payload); err != nil {
		return s.corruptBlock(id, b, err)
	}
	if block.Len() != b.samples {
		return s.corruptBlock(id, b, errBlockSamples)
	}
	return nil
}

// decodeTimes appends the times of a block that was opened to dst.
func (s *section) decodeTimes(id uint32, b *blockRef, block *codec.BlockReader, dst []int64) ([]int64, error) {
	times, err := block.Times(dst)
	if err != nil {
		return nil, s.corruptBlock(id, b, err)
	}
	if times[len(dst)] != b.minMs || times[len(times)-1] != b.maxMs {
		return nil, s.corruptBlock(id, b, errBlockTimes)
	}
	return times, nil
}

var (
	errBlockSamples = errors.New("the number of samples differs from the index")
	errBlockTimes   = errors.New("the times differ from the index")
)

func (s *section) corruptBlock(id uint32, b *blockRef, cause error) error {
	return s.corrupt(PartBlock, id, b.offset, cause.Error())
}
