package replica

import "encoding/binary"

// decoder reads from the front of bytes. After the first thing that is not there, or
// is too large, it is broken and returns zeros.
type decoder struct {
	rest   []byte
	broken bool
}

func (d *decoder) fail() {
	d.rest, d.broken = nil, true
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, used := binary.Uvarint(d.rest)
	if used <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[used:]
	return v
}

func (d *decoder) uvarintMax(largest uint64) uint64 {
	v := d.uvarint()
	if v > largest {
		d.fail()
		return 0
	}
	return v
}

// bytes returns a stretch after its length; it points into what is decoded.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

const stringBytesMax = 255

func (d *decoder) string() string {
	b := d.bytes()
	if len(b) > stringBytesMax {
		d.fail()
		return ""
	}
	return string(b)
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
