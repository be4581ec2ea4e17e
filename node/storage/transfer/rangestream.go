package transfer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// A range of a shard travels as frames, see shardstream.go: a header (JSON: rangeHeader),
// then samples, then the end (JSON: rangeEnd). Frames of samples hold blocks, in order
// of (id, time): uvarint id, uvarint length, block (codec/FORMAT.md).

// rangeFormat is the version of the stream, in its header.
const rangeFormat = 1

const (
	frameRangeHeader  = 16
	frameRangeSamples = 17
	frameRangeEnd     = 18
)

// rangeHeader begins the stream.
type rangeHeader struct {
	Format int    `json:"format"`
	Shards int    `json:"shards"` // of the sender's folder
	Shard  uint16 `json:"shard"`
	FromMs int64  `json:"fromMs"`
	ToMs   int64  `json:"toMs"`
}

// rangeEnd ends it.
type rangeEnd struct {
	// Index is the entry up to which the samples are complete; those up to the entry
	// Through may be there.
	Index   uint64 `json:"index"`
	Through uint64 `json:"through"`
	Series  int64  `json:"series"` // that have samples
	Samples int64  `json:"samples"`
}

// rangeWriter writes a stream.
type rangeWriter struct {
	w       io.Writer
	number  uint32
	frame   []byte // scratch
	payload []byte // of the present frame of samples
	block   []byte // scratch
	encoder codec.BlockEncoder
	columns codec.Columns // of one series, not yet in a block
	scale   uint8         // of its last value
	end     rangeEnd
}

func (w *rangeWriter) send(kind uint8, payload []byte) error {
	w.frame = append(beginFrame(w.frame[:0], kind, w.number, len(payload)), payload...)
	w.frame = endFrame(w.frame, 0)
	w.number++
	_, err := w.w.Write(w.frame)
	return err
}

func (w *rangeWriter) sendJSON(kind uint8, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a range: %w", err)
	}
	return w.send(kind, b)
}

// add takes the next samples of a series.
func (w *rangeWriter) add(id uint32, times []int64, values []float64) error {
	for i, t := range times {
		number := series.DecimalOf(values[i], w.scale)
		w.scale = number.Scale
		w.columns.Append(t, number)
		if w.columns.Len() == codec.BlockSamples {
			if err := w.endBlock(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// endBlock puts what a series has gathered into a block.
func (w *rangeWriter) endBlock(id uint32) (err error) {
	if w.columns.Len() == 0 {
		return nil
	}
	if w.block, err = w.encoder.Append(w.block[:0], &w.columns); err != nil {
		return err
	}
	w.end.Samples += int64(w.columns.Len())
	w.columns.Reset()
	w.payload = binary.AppendUvarint(w.payload, uint64(id))
	w.payload = binary.AppendUvarint(w.payload, uint64(len(w.block)))
	w.payload = append(w.payload, w.block...)
	if len(w.payload) < frameBytes {
		return nil
	}
	return w.flush()
}

func (w *rangeWriter) flush() error {
	if len(w.payload) == 0 {
		return nil
	}
	err := w.send(frameRangeSamples, w.payload)
	w.payload = w.payload[:0]
	return err
}

// rangeReader reads a stream.
type rangeReader struct {
	frames  frameReader
	header  rangeHeader
	decoder codec.BlockReader
	columns codec.Columns
	end     rangeEnd
	samples int64
}

// begin reads the header, which must be that of a shard and a range.
func (r *rangeReader) begin(want rangeHeader) error {
	kind, payload, err := r.frames.next()
	if err != nil {
		return err
	}
	if kind != frameRangeHeader {
		return fmt.Errorf("%w: a range begins with a frame of kind %d", ErrStream, kind)
	}
	if err := json.Unmarshal(payload, &r.header); err != nil {
		return fmt.Errorf("%w: header of a range: %w", ErrStream, err)
	}
	if r.header != want {
		return fmt.Errorf("%w: it is %+v, not %+v", ErrStream, r.header, want)
	}
	return nil
}

// each visits all blocks. The columns are good until visit returns.
func (r *rangeReader) each(visit func(id uint32, columns *codec.Columns) error) error {
	for {
		kind, payload, err := r.frames.next()
		switch {
		case err != nil:
			return err
		case kind == frameRangeEnd:
			if err := json.Unmarshal(payload, &r.end); err != nil {
				return fmt.Errorf("%w: end of a range: %w", ErrStream, err)
			}
			if r.end.Samples != r.samples || r.end.Through < r.end.Index {
				return fmt.Errorf("%w: %d samples came of %+v", ErrStream, r.samples, r.end)
			}
			return nil
		case kind != frameRangeSamples:
			return fmt.Errorf("%w: a frame of kind %d within a range", ErrStream, kind)
		}
		for len(payload) > 0 {
			if payload, err = r.block(payload, visit); err != nil {
				return err
			}
		}
	}
}

func (r *rangeReader) block(b []byte, visit func(id uint32, columns *codec.Columns) error) (rest []byte, err error) {
	id, used := binary.Uvarint(b)
	if used <= 0 || id > uint64(series.IDMax) {
		return nil, fmt.Errorf("%w: id of a block", ErrStream)
	}
	b = b[used:]
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, fmt.Errorf("%w: length of a block", ErrStream)
	}
	b = b[used:]
	if err := r.decode(b[:n]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStream, err)
	}
	r.samples += int64(r.columns.Len())
	return b[n:], visit(uint32(id), &r.columns)
}

func (r *rangeReader) decode(payload []byte) (err error) {
	c := &r.columns
	c.Reset()
	if err = r.decoder.Reset(payload); err != nil {
		return err
	}
	if c.Times, err = r.decoder.Times(c.Times); err != nil {
		return err
	}
	c.Mantissas, c.Scales, err = r.decoder.Numbers(c.Mantissas, c.Scales)
	return err
}
