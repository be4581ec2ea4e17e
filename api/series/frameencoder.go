package series

import "slices"

// FrameEncoder encodes points into a frame: one batch for each shard that has any. The zero
// value is ready; Begin keeps its memory.
type FrameEncoder struct {
	frame   Frame
	batches []BatchEncoder // of the frame's parts; those behind them are kept for other frames
	partOf  []uint32       // by shard: the index of its part plus 1, or 0
	encoded []byte
}

// Begin starts a frame without points. All else of it is as in header.
func (e *FrameEncoder) Begin(header Frame) {
	e.forgetParts()
	header.Parts, header.Points = e.frame.Parts[:0], 0
	e.frame = header
}

// forgetParts makes the encoders of the frame's parts ready for another frame.
func (e *FrameEncoder) forgetParts() {
	for i := range e.frame.Parts {
		e.partOf[e.frame.Parts[i].Shard] = 0
		e.batches[i].Reset()
	}
}

// Part returns the index of a shard's part, which it adds if there is none.
func (e *FrameEncoder) Part(shard uint16) int {
	if int(shard) < len(e.partOf) && e.partOf[shard] != 0 {
		return int(e.partOf[shard]) - 1
	}
	return e.addPart(shard)
}

func (e *FrameEncoder) addPart(shard uint16) int {
	if n := int(shard) + 1; n > len(e.partOf) {
		e.partOf = slices.Grow(e.partOf, n-len(e.partOf))[:n]
	}
	part := len(e.frame.Parts)
	e.frame.Parts = append(e.frame.Parts, Part{Shard: shard})
	if part == len(e.batches) {
		e.batches = append(e.batches, BatchEncoder{})
	}
	if e.frame.Hours {
		e.batches[part].SetHours()
	}
	e.partOf[shard] = uint32(part + 1)
	return part
}

// Batch returns the encoder of a part. It is valid until the next call of Part.
func (e *FrameEncoder) Batch(part int) *BatchEncoder { return &e.batches[part] }

// Finish writes the parts' batches one behind the other and returns the frame, which is valid
// until the next call of Begin. Points is the number of points in all parts.
func (e *FrameEncoder) Finish(points int) *Frame {
	size := 0
	for i := range e.frame.Parts {
		size += e.batches[i].SizeMax()
	}
	if cap(e.encoded) < size {
		e.encoded = make([]byte, 0, size+size/4)
	}
	encoded := e.encoded[:0]
	for i := range e.frame.Parts {
		start := len(encoded)
		encoded = e.batches[i].AppendTo(encoded)
		e.frame.Parts[i].Batch = encoded[start:len(encoded):len(encoded)]
	}
	e.encoded, e.frame.Points = encoded, points
	return &e.frame
}

// Frame returns the frame of the last Begin.
func (e *FrameEncoder) Frame() *Frame { return &e.frame }

// MoveTo moves the finished frame with its memory to f, so that it outlives the next Begin, and
// takes the memory that f had.
func (e *FrameEncoder) MoveTo(f *EncodedFrame) {
	e.forgetParts()
	f.Frame, e.frame = e.frame, Frame{Parts: f.Frame.Parts[:0]}
	f.encoded, e.encoded = e.encoded, f.encoded[:0]
}

// MemoryBytes returns about how much memory it keeps.
func (e *FrameEncoder) MemoryBytes() int {
	n := cap(e.encoded) + 4*cap(e.partOf) + partBytes*cap(e.frame.Parts)
	for i := range e.batches {
		n += e.batches[i].MemoryBytes()
	}
	return n
}

const partBytes = 32 // of a Part

// EncodedFrame is a frame with its memory, apart from the FrameEncoder that made it. The zero
// value is ready, and its memory is used again by the next MoveTo.
type EncodedFrame struct {
	Frame   Frame
	encoded []byte
}

// MemoryBytes returns about how much memory it keeps.
func (f *EncodedFrame) MemoryBytes() int { return cap(f.encoded) + partBytes*cap(f.Frame.Parts) }
