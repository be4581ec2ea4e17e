package parse

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Wire types of the protobuf encoding.
const (
	wireVarint     = 0
	wireFixed64    = 1
	wireBytes      = 2
	wireStartGroup = 3
	wireEndGroup   = 4
	wireFixed32    = 5
)

// wireDepthMax bounds groups inside groups, which no known message has.
const wireDepthMax = 16

// wire walks the fields of a protobuf message (protobuf.dev/programming-guides/
// encoding). Every byte is checked before it is used.
type wire struct {
	b     []byte
	at    int // behind the current field
	start int // of the current field, its tag
	data  int // of the current field's payload, for wireBytes
	field uint64
	kind  uint8
	value uint64 // of a wireVarint
	err   error
}

// next moves to the next field. It returns false at the end and after an error.
func (w *wire) next() bool {
	if w.err != nil || w.at >= len(w.b) {
		return false
	}
	w.start = w.at
	if !w.step() {
		return false
	}
	if w.kind == wireStartGroup {
		return w.skipGroup()
	}
	if w.kind == wireEndGroup {
		w.fail("end of a group that has not begun")
		return false
	}
	return true
}

// step reads one tag and its payload; of groups the tag only.
func (w *wire) step() bool {
	tag, used := uvarint(w.b[w.at:])
	if used <= 0 {
		return w.fail("tag")
	}
	w.at += used
	w.field, w.kind = tag>>3, uint8(tag&7)
	if w.field == 0 || w.field > math.MaxInt32 {
		return w.fail("number of a field")
	}
	switch w.kind {
	case wireVarint:
		if w.value, used = uvarint(w.b[w.at:]); used <= 0 {
			return w.fail("varint")
		}
		w.at += used
	case wireFixed64:
		w.at += 8
	case wireFixed32:
		w.at += 4
	case wireBytes:
		n, used := uvarint(w.b[w.at:])
		if used <= 0 || n > uint64(len(w.b)-w.at-used) {
			return w.fail("length")
		}
		w.data = w.at + used
		w.at = w.data + int(n)
	case wireStartGroup, wireEndGroup:
	default:
		return w.fail("wire type")
	}
	if w.at > len(w.b) {
		return w.fail("a field is cut short")
	}
	return true
}

// skipGroup moves behind the group that has just begun. The group is then the
// current field, of kind wireStartGroup, which nobody asks for.
func (w *wire) skipGroup() bool {
	field := w.field
	open := [wireDepthMax]uint64{field}
	for depth := 1; depth > 0; {
		if w.at >= len(w.b) {
			return w.fail("a group is cut short")
		}
		if !w.step() {
			return false
		}
		switch w.kind {
		case wireStartGroup:
			if depth == wireDepthMax {
				return w.fail("groups are too deep")
			}
			open[depth] = w.field
			depth++
		case wireEndGroup:
			depth--
			if open[depth] != w.field {
				return w.fail("end of another group")
			}
		}
	}
	w.field, w.kind = field, wireStartGroup
	return true
}

// is reports whether the current field is of a wire type.
func (w *wire) is(kind uint8) bool { return w.kind == kind }

// span returns the payload of the current field, which is of kind wireBytes.
func (w *wire) span() Span { return Span{uint32(w.data), uint32(w.at)} }

func (w *wire) fail(what string) bool {
	w.err = fmt.Errorf("%w: protobuf: %s at byte %d", ErrMalformed, what, w.start)
	return false
}

// fault is the error for a known field of a wrong wire type.
func (w *wire) fault() error {
	w.fail(fmt.Sprintf("field %d has wire type %d", w.field, w.kind))
	return w.err
}

func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}
