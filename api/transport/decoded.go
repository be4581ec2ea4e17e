package transport

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What decoded messages take beside their text.
const (
	messageBytes = 96 // of a message: its struct and the pointer to it
	textBytes    = 32 // of a string or bytes: the slice, and what allocation rounds up
	// smallBytes is a message whose fields are not worth counting, each of whose bytes may
	// become smallMultiple.
	smallBytes    = 256
	smallMultiple = messageBytes / 2
	// depthMax bounds messages inside messages; no known one comes near. What is deeper is
	// no message of ours, and its fields are kept as they are.
	depthMax = 8
)

// DecodedBytes returns a bound of the memory that a message takes when it is decoded: two
// bytes may be a message of their own, and one byte a number of eight.
func DecodedBytes(d protoreflect.MessageDescriptor, b []byte) int {
	if len(b) <= smallBytes {
		return messageBytes + smallMultiple*len(b)
	}
	return fieldsBytes(d, b, 0)
}

func fieldsBytes(d protoreflect.MessageDescriptor, b []byte, depth int) int {
	total := messageBytes
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return total + len(b) // it will be refused
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return total + len(b)
		}
		value := b[n : n+size]
		b = b[n+size:]
		total += valueBytes(d.Fields().ByNumber(number), kind, value, depth)
	}
	return total
}

// valueBytes returns the memory of one value; a nil field is not known and kept as it is.
func valueBytes(f protoreflect.FieldDescriptor, kind protowire.Type, value []byte, depth int) int {
	const numberBytes = 16 // of a slice that is growing
	switch {
	case kind != protowire.BytesType:
		return len(value) + numberBytes
	case f == nil || depth == depthMax:
		return 2*len(value) + textBytes
	}
	content, _ := protowire.ConsumeBytes(value)
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return fieldsBytes(f.Message(), content, depth+1)
	case protoreflect.StringKind, protoreflect.BytesKind:
		return len(content) + textBytes
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind,
		protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return len(content)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Uint64Kind:
		return 8 * numbersIn(content)
	default:
		return 4 * numbersIn(content)
	}
}

// numbersIn returns how many variable-length numbers there are.
func numbersIn(packed []byte) (n int) {
	for _, b := range packed {
		if b < 0x80 {
			n++
		}
	}
	return n
}
