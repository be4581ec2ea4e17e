package segment

import (
	"errors"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// decodePoints checks and decodes a block, and appends its samples to dst, which is
// as before after an error. It must be called within Guard.
func (s *section) decodePoints(id uint32, b *blockRef, block *codec.BlockReader, dst *codec.Points) error {
	times, err := s.decodeTimes(id, b, block, dst.Times)
	if err != nil {
		return err
	}
	values, err := block.Values(dst.Values)
	if err != nil {
		return s.corruptBlock(id, b, err)
	}
	dst.Times, dst.Values = times, values
	return nil
}

// decodeColumns is decodePoints with values as numbers.
func (s *section) decodeColumns(id uint32, b *blockRef, block *codec.BlockReader, dst *codec.Columns) error {
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

// decodeTimes starts to read a block and appends its times to dst.
func (s *section) decodeTimes(id uint32, b *blockRef, block *codec.BlockReader, dst []int64) ([]int64, error) {
	payload, err := s.payload(id, b)
	if err != nil {
		return nil, err
	}
	if err = block.Reset(payload); err != nil {
		return nil, s.corruptBlock(id, b, err)
	}
	if block.Len() != b.samples {
		return nil, s.corruptBlock(id, b, errBlockSamples)
	}
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
