// Package snappy decodes blocks of snappy, large ones in steps. The decoder of klauspost/compress is assembly, in which
// Go's runtime cannot stop a goroutine: a block of tens of MiB kept all others waiting, as the collector of garbage stops
// all or none.
package snappy

import (
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/snappy"

	"github.com/tickmesh/tickmesh/api/processor"
)

// ErrCorrupt reports what is no block of snappy.
var ErrCorrupt = errors.New("snappy: the block is corrupt")

// stepBytes is what is decoded without a stop: a third of a millisecond of assembly, two of Go.
const stepBytes = 512 << 10

// DecodedLen returns the length that a block claims to have when it is decoded.
func DecodedLen(block []byte) (int, error) { return snappy.DecodedLen(block) }

// Decode decodes a block into buffer, or a new one if that is too small. In a large block it calls step now and then,
// which may wait. Errors: ErrCorrupt, and those of klauspost/compress.
func Decode(buffer, block []byte, step func()) ([]byte, error) {
	n, err := DecodedLen(block)
	switch {
	case err != nil:
		return nil, err
	case n <= stepBytes:
		return snappy.Decode(buffer, block)
	case n > cap(buffer):
		buffer = make([]byte, n)
	}
	_, header := binary.Uvarint(block)
	return buffer[:n], decode(buffer[:n], block[header:], step)
}

// decode fills out with what the elements stand for: literals, and copies of what is there already
// (https://github.com/google/snappy/blob/main/format_description.txt).
func decode(out, elements []byte, step func()) error {
	done, pause := 0, stepBytes
	for len(elements) > 0 {
		if done >= pause {
			step()
			pause = done + stepBytes
		}
		e := readElement(elements)
		if elements = elements[e.size:]; e.size == 0 || e.length > len(out)-done {
			return ErrCorrupt
		}
		if e.literal {
			if e.length > len(elements) {
				return ErrCorrupt
			}
			processor.Copy(out[done:], elements[:e.length])
			done, elements = done+e.length, elements[e.length:]
			continue
		}
		if e.offset == 0 || e.offset > done {
			return ErrCorrupt
		}
		// What is copied may overlap its copy: each round doubles what there is of it.
		for start, end := done-e.offset, done+e.length; done < end; {
			done += copy(out[done:end], out[start:done])
		}
	}
	if done != len(out) {
		return ErrCorrupt
	}
	return nil
}

// element is the head of an element of a block.
type element struct {
	literal bool // length bytes follow; else they are those offset bytes before
	size    int  // of the head; 0: it is cut
	length  int
	offset  int
}

func readElement(b []byte) element {
	var wide [4]byte
	tag := int(b[0])
	switch kind := tag & 3; kind {
	case 0:
		length := tag >> 2
		more := max(0, length-59) // bytes of the length
		if more > 0 {
			if copy(wide[:more], b[1:]) < more {
				return element{}
			}
			length = int(binary.LittleEndian.Uint32(wide[:]))
		}
		return element{literal: true, size: 1 + more, length: length + 1}
	case 1:
		if len(b) < 2 {
			return element{}
		}
		return element{size: 2, length: 4 + tag>>2&7, offset: tag>>5<<8 | int(b[1])}
	default:
		more := 2 * (kind - 1) // bytes of the offset
		if copy(wide[:more], b[1:]) < more {
			return element{}
		}
		return element{size: 1 + more, length: 1 + tag>>2, offset: int(binary.LittleEndian.Uint32(wide[:]))}
	}
}
