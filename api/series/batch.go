package series

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// ErrBatch marks bytes that are not an encoded batch.
var ErrBatch = errors.New("not an encoded batch")

// An encoded batch, the samples of one shard, is
//
//	hoursPrefix, if its points are those of hours (see Hour): no batch of samples begins so
//	uvarint definitions, then for each: uvarint length, key
//	uvarint points, then for each:
//	    control byte
//	        bits 0–2  bytes of the mantissa, less one
//	        bits 3–4  reference: 0 previous+1, 1 previous, 2 start of run, 3 explicit
//	        bits 5–6  time: 0 previous, 1 previous+step, 2 explicit
//	        bit  7    a scale byte follows; else the scale is the one expected
//	    scale byte    0–15, or 255 for float64 bits
//	    reference     zigzag varint, the difference to the previous reference; starts a run
//	    time          zigzag varint, the difference to the previous time; becomes the step
//	    mantissa      zigzag, little-endian, as many bytes as said
//
// Agents send the same series over and over in the same order. So points have a
// place: 0 at an explicit reference or a start of run, one more at each next one.
// Without a scale byte the scale is that of the last point at the same place; and
// where that was the same series' (after a start of run, or with the previous
// reference) and has the same scale, the mantissa is the difference to its. A place
// without a last point, and each from placesMax on, expects the previous point's
// scale.
//
// All "previous" and remembered values are 0 at the start. A reference below SlotBase is the id
// of a series; SlotBase+n is definition n of the same batch. Points are in the
// order in which they were written: of equal series and time the last one counts.
const (
	controlLengthMask  = 0x07
	controlRefNext     = 0 << 3
	controlRefSame     = 1 << 3
	controlRefRunStart = 2 << 3
	controlRefExplicit = 3 << 3
	controlRefMask     = 3 << 3
	controlTimeSame    = 0 << 5
	controlTimeStep    = 1 << 5
	controlTimeDelta   = 2 << 5
	controlTimeMask    = 3 << 5
	controlScale       = 1 << 7

	pointBytesMax = 1 + 1 + 2*binary.MaxVarintLen64 + 8
)

// hoursPrefix would be a count of more definitions than a batch can have, so programs that do not know it refuse the batch.
const hoursPrefix = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"

// HoursOf reports whether the points of an encoded batch are those of hours, and not samples.
func HoursOf(batch []byte) bool {
	return len(batch) >= len(hoursPrefix) && string(batch[:len(hoursPrefix)]) == hoursPrefix
}

// BatchEncoder builds an encoded batch. The zero value is ready; Reset makes it
// ready again and keeps its memory.
type BatchEncoder struct {
	definitions      []byte
	definitionsCount int
	points           []byte
	pointsCount      int
	hours            bool

	ref, runStart uint32
	timeMs, step  int64
	places        places
}

// placesMax is the number of places in a run that are remembered. Every batch pays
// for clearing them.
const placesMax = 16

// places remember the last point of each place of a run.
type places struct {
	mantissas [placesMax]int64
	scales    [placesMax]uint8
	at        int
	filled    int   // places below it have a last point
	repeated  bool  // the run began with the start of run: places have the same series
	scale     uint8 // of the previous point
}

// begin starts a run.
func (p *places) begin(repeated bool) { p.at, p.repeated = 0, repeated }

// expect returns the scale that the point at the present place should have, and the
// mantissa that counts from, given that it has it.
func (p *places) expect(same bool) (scale uint8, mantissa int64) {
	if p.at >= p.filled {
		return p.scale, 0
	}
	if !same && !p.repeated {
		return p.scales[p.at], 0
	}
	return p.scales[p.at], p.mantissas[p.at]
}

func (p *places) remember(scale uint8, mantissa int64) {
	p.scale = scale
	if p.at < placesMax {
		p.mantissas[p.at], p.scales[p.at] = mantissa, scale
		p.filled = max(p.filled, p.at+1)
	}
}

// Reset empties the encoder.
func (e *BatchEncoder) Reset() {
	*e = BatchEncoder{definitions: e.definitions[:0], points: e.points[:0]}
}

// SetHours makes the batch one of hours: its points are those of Hour.AppendSamples, each hour's one after the other.
func (e *BatchEncoder) SetHours() { e.hours = true }

// Points returns the number of points so far.
func (e *BatchEncoder) Points() int { return e.pointsCount }

// MemoryBytes returns the memory that the encoder keeps.
func (e *BatchEncoder) MemoryBytes() int { return cap(e.definitions) + cap(e.points) }

// Define adds a definition and returns the reference for its points.
func (e *BatchEncoder) Define(k Key) ID {
	e.definitions = binary.AppendUvarint(e.definitions, uint64(len(k)))
	e.definitions = append(e.definitions, k...)
	e.definitionsCount++
	return SlotBase + ID(e.definitionsCount-1)
}

// Append adds one point. It does not allocate once the encoder has grown.
func (e *BatchEncoder) Append(ref ID, timeMs, mantissa int64, scale uint8) {
	if cap(e.points)-len(e.points) < pointBytesMax {
		e.grow()
	}
	n := len(e.points)
	p := e.points[n : n+pointBytesMax]
	var control byte
	at := 1
	r, same := uint32(ref), false
	var explicit uint64
	switch r {
	case e.ref + 1:
		e.places.at++
	case e.ref:
		control, same = controlRefSame, true
	case e.runStart:
		control = controlRefRunStart
		e.places.begin(true)
	default:
		control = controlRefExplicit
		explicit = zigzag(int64(r) - int64(e.ref))
		e.runStart = r
		e.places.begin(false)
	}
	expected, base := e.places.expect(same)
	if scale != expected {
		control |= controlScale
		p[1] = scale
		at, base = 2, 0
	}
	e.places.remember(scale, mantissa)
	if control&controlRefMask == controlRefExplicit {
		at += binary.PutUvarint(p[at:], explicit)
	}
	e.ref = uint32(ref)
	if delta := timeMs - e.timeMs; delta != 0 {
		if delta == e.step {
			control |= controlTimeStep
		} else {
			control |= controlTimeDelta
			at += binary.PutUvarint(p[at:], zigzag(delta))
			e.step = delta
		}
		e.timeMs = timeMs
	}
	z := zigzag(mantissa - base)
	length := (bits.Len64(z|1) + 7) / 8
	binary.LittleEndian.PutUint64(p[at:], z)
	p[0] = control | byte(length-1)
	e.points = e.points[:n+at+length]
	e.pointsCount++
}

func (e *BatchEncoder) grow() {
	grown := make([]byte, len(e.points), 2*cap(e.points)+64*pointBytesMax)
	copy(grown, e.points)
	e.points = grown
}

// AppendTo appends the encoded batch to dst.
func (e *BatchEncoder) AppendTo(dst []byte) []byte {
	if e.hours {
		dst = append(dst, hoursPrefix...)
	}
	dst = binary.AppendUvarint(dst, uint64(e.definitionsCount))
	dst = append(dst, e.definitions...)
	dst = binary.AppendUvarint(dst, uint64(e.pointsCount))
	return append(dst, e.points...)
}

// SizeMax bounds the number of bytes that AppendTo adds.
func (e *BatchEncoder) SizeMax() int {
	return len(hoursPrefix) + 2*binary.MaxVarintLen64 + len(e.definitions) + len(e.points)
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(z uint64) int64 { return int64(z>>1) ^ -int64(z&1) }

// BatchReader walks an encoded batch: first all definitions, then the points.
// Every byte is checked before it is used; after an error, Err says what is
// wrong and both Next methods give false.
type BatchReader struct {
	rest            []byte
	definitionsLeft uint64
	pointsLeft      uint64
	points          int
	err             error
	runStart        uint32
	step            int64
	places          places

	// The point that NextPoint found. Ref is an ID or SlotBase+n.
	Ref      uint32
	TimeMs   int64
	Mantissa int64
	Scale    uint8
}

// Reset starts to read an encoded batch.
func (r *BatchReader) Reset(b []byte) {
	if HoursOf(b) {
		b = b[len(hoursPrefix):]
	}
	*r = BatchReader{rest: b}
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		r.fail("count of definitions")
		return
	}
	r.rest, r.definitionsLeft = b[used:], n
	if n == 0 {
		r.startPoints()
	}
}

func (r *BatchReader) fail(what string) {
	r.err = fmt.Errorf("%w: %s, %d bytes before its end", ErrBatch, what, len(r.rest))
	r.definitionsLeft, r.pointsLeft = 0, 0
}

func (r *BatchReader) startPoints() {
	n, used := binary.Uvarint(r.rest)
	if used <= 0 || n > uint64(len(r.rest)-used)/2 {
		r.fail("count of points")
		return
	}
	r.rest, r.pointsLeft, r.points = r.rest[used:], n, int(n)
	if n == 0 && len(r.rest) > 0 {
		r.fail("bytes after the last point")
	}
}

// Err returns the first error.
func (r *BatchReader) Err() error { return r.err }

// Points returns the number of points in all; it is known once the definitions
// have been read.
func (r *BatchReader) Points() int { return r.points }

// NextDefinition returns the next definition's key, which points into the batch.
func (r *BatchReader) NextDefinition() (Key, bool) {
	if r.definitionsLeft == 0 {
		return nil, false
	}
	n, used := binary.Uvarint(r.rest)
	if used <= 0 || n > uint64(len(r.rest)-used) || n > KeyBytesMax {
		r.fail("length of a definition")
		return nil, false
	}
	key := r.rest[used : used+int(n) : used+int(n)]
	r.rest = r.rest[used+int(n):]
	r.definitionsLeft--
	if r.definitionsLeft == 0 {
		r.startPoints()
	}
	return key, true
}

// NextPoint moves to the next point.
func (r *BatchReader) NextPoint() bool {
	if r.pointsLeft == 0 || r.definitionsLeft != 0 {
		return false
	}
	b := r.rest
	if len(b) < 2 {
		r.fail("a point is cut short")
		return false
	}
	control := b[0]
	b = b[1:]
	scaled := control&controlScale != 0
	if scaled {
		if b[0] > ScaleMax && b[0] != ScaleFloat {
			r.fail("scale")
			return false
		}
		r.Scale = b[0]
		b = b[1:]
	}
	used, ok := r.reference(control, b)
	if !ok {
		return false
	}
	b = b[used:]
	switch control & controlTimeMask {
	case controlTimeSame:
	case controlTimeStep:
		r.TimeMs += r.step
	case controlTimeDelta:
		z, used := uvarint(b)
		if used <= 0 {
			r.fail("time")
			return false
		}
		b = b[used:]
		r.step = unzigzag(z)
		r.TimeMs += r.step
	default:
		r.fail("time code")
		return false
	}
	length := int(control&controlLengthMask) + 1
	if len(b) >= 8 {
		r.Mantissa = unzigzag(binary.LittleEndian.Uint64(b) & (^uint64(0) >> (64 - 8*length)))
	} else if !r.shortMantissa(b, length) {
		return false
	}
	expected, base := r.places.expect(control&controlRefMask == controlRefSame)
	if !scaled {
		r.Scale = expected
		r.Mantissa += base
	}
	r.places.remember(r.Scale, r.Mantissa)
	r.rest = b[length:]
	r.pointsLeft--
	if r.pointsLeft == 0 && len(r.rest) > 0 {
		r.fail("bytes after the last point")
		return false
	}
	return true
}

// NextRef moves to the next point as NextPoint does, and ends where that does, but fills in Ref alone. A batch is read by one of
// the two.
func (r *BatchReader) NextRef() bool {
	if r.pointsLeft == 0 || r.definitionsLeft != 0 {
		return false
	}
	b := r.rest
	if len(b) < 2 {
		r.fail("a point is cut short")
		return false
	}
	control := b[0]
	b = b[1:]
	if control&controlScale != 0 {
		if b[0] > ScaleMax && b[0] != ScaleFloat {
			r.fail("scale")
			return false
		}
		b = b[1:]
	}
	switch control & controlRefMask {
	case controlRefNext:
		r.Ref++
	case controlRefRunStart:
		r.Ref = r.runStart
	case controlRefExplicit:
		z, used := uvarint(b)
		if used <= 0 {
			r.fail("reference")
			return false
		}
		b = b[used:]
		r.Ref = uint32(int64(r.Ref) + unzigzag(z))
		r.runStart = r.Ref
	}
	switch control & controlTimeMask {
	case controlTimeSame, controlTimeStep:
	case controlTimeDelta:
		_, used := uvarint(b)
		if used <= 0 {
			r.fail("time")
			return false
		}
		b = b[used:]
	default:
		r.fail("time code")
		return false
	}
	length := int(control&controlLengthMask) + 1
	if len(b) < length {
		r.fail("a mantissa is cut short")
		return false
	}
	r.rest = b[length:]
	r.pointsLeft--
	if r.pointsLeft == 0 && len(r.rest) > 0 {
		r.fail("bytes after the last point")
		return false
	}
	return true
}

// reference reads what a control byte says of the reference, from b.
func (r *BatchReader) reference(control byte, b []byte) (used int, ok bool) {
	switch control & controlRefMask {
	case controlRefNext:
		r.Ref++
		r.places.at++
	case controlRefRunStart:
		r.Ref = r.runStart
		r.places.begin(true)
	case controlRefExplicit:
		z, n := uvarint(b)
		if n <= 0 {
			r.fail("reference")
			return 0, false
		}
		used = n
		r.Ref = uint32(int64(r.Ref) + unzigzag(z))
		r.runStart = r.Ref
		r.places.begin(false)
	}
	return used, true
}

// shortMantissa reads a mantissa of length bytes near the end of the batch.
func (r *BatchReader) shortMantissa(b []byte, length int) bool {
	if len(b) < length {
		r.fail("a mantissa is cut short")
		return false
	}
	var z uint64
	for i := length - 1; i >= 0; i-- {
		z = z<<8 | uint64(b[i])
	}
	r.Mantissa = unzigzag(z)
	return true
}

func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}
