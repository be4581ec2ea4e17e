package envelope

import "encoding/binary"

// Decoder reads from the front of bytes. After the first thing that is not there, or
// is too large, it is broken and returns zeros.
type Decoder struct {
	Rest   []byte // not read yet
	Broken bool
}

func (d *Decoder) fail() {
	d.Rest, d.Broken = nil, true
}

// Byte returns the next byte.
func (d *Decoder) Byte() byte {
	if len(d.Rest) == 0 {
		d.fail()
		return 0
	}
	b := d.Rest[0]
	d.Rest = d.Rest[1:]
	return b
}

// Uvarint returns the next number.
func (d *Decoder) Uvarint() uint64 {
	v, used := binary.Uvarint(d.Rest)
	if used <= 0 {
		d.fail()
		return 0
	}
	d.Rest = d.Rest[used:]
	return v
}

// UvarintMax returns the next number, which is at most the largest.
func (d *Decoder) UvarintMax(largest uint64) uint64 {
	v := d.Uvarint()
	if v > largest {
		d.fail()
		return 0
	}
	return v
}

// bytes returns a stretch after its length; it points into what is decoded.
func (d *Decoder) bytes() []byte {
	n := d.Uvarint()
	if n > uint64(len(d.Rest)) {
		d.fail()
		return nil
	}
	b := d.Rest[:n:n]
	d.Rest = d.Rest[n:]
	return b
}

const stringBytesMax = 255

// Text returns the next text after its length.
func (d *Decoder) Text() string {
	b := d.bytes()
	if len(b) > stringBytesMax {
		d.fail()
		return ""
	}
	return string(b)
}

// AppendString appends a text after its length, as Text reads it.
func AppendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
