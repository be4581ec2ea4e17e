package codec

// Bounds of a block's samples.
const (
	BlockSamples      = 1024 // of a block in a segment
	BlockSamplesDense = 8192 // of a block in a closed old partition
	BlockSamplesMax   = 8192
)

// BlockEncoder packs blocks. The zero value is ready; it keeps scratch memory
// between blocks and is not safe for concurrent use.
type BlockEncoder struct {
	// Dense spends more time on encoding and decoding for fewer bytes.
	Dense bool
}

// Append appends the block of the samples in columns to dst. There may be
// 1 to BlockSamplesMax samples, in any order of time.
func (e *BlockEncoder) Append(dst []byte, columns *Columns) ([]byte, error) { return dst, nil }

// BlockReader decodes one block. It keeps scratch memory between blocks.
type BlockReader struct {
}

// Reset starts to read a block. The payload must stay unchanged until the last
// call for it. Errors are ErrCorrupt.
func (r *BlockReader) Reset(payload []byte) error { return corrupt("block", 0) }

// Len gives the number of samples.
func (r *BlockReader) Len() int { return 0 }

// Times appends the times to dst. Errors are ErrCorrupt; dst is then as before.
func (r *BlockReader) Times(dst []int64) ([]int64, error) { return dst, nil }

// Values appends the values to dst. Errors are ErrCorrupt; dst is then as before.
func (r *BlockReader) Values(dst []float64) ([]float64, error) { return dst, nil }

// Numbers appends the values as numbers to both. Errors are ErrCorrupt.
func (r *BlockReader) Numbers(mantissas []int64, scales []uint8) ([]int64, []uint8, error) {
	return mantissas, scales, nil
}
