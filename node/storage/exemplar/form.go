package exemplar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

const formVersion = 1

var errForm = errors.New("exemplars: damaged, or of a newer version; restore the folder or rebuild the replica")

// Append appends the ring's durable form to b.
func (r *Ring) Append(b []byte) []byte {
	b = append(b, formVersion)
	b = binary.AppendUvarint(b, uint64(r.bound))
	b = binary.AppendUvarint(b, uint64(len(r.kept)))
	for _, e := range r.ordered() {
		b = appendExemplar(b, e)
	}
	return b
}

func appendExemplar(b []byte, e Exemplar) []byte {
	b = binary.AppendUvarint(b, uint64(e.Series))
	b = binary.AppendVarint(b, e.TimeMs)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.Value))
	b = binary.AppendUvarint(b, uint64(len(e.Labels)))
	for _, l := range e.Labels {
		b = appendText(b, l.Name)
		b = appendText(b, l.Value)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Decode reads a durable form, which it does not keep.
func Decode(b []byte) (Ring, error) {
	d := decoder{rest: b}
	if version := d.bytes(1); d.bad || version[0] != formVersion {
		return Ring{}, fmt.Errorf("%w: version", errForm)
	}
	bound, count := d.uvarint(), d.uvarint()
	if d.bad || bound > BoundMax || count > bound {
		return Ring{}, fmt.Errorf("%w: %d exemplars of %d", errForm, count, bound)
	}
	r := Ring{bound: int(bound)}
	for range count {
		e := d.exemplar()
		if d.bad {
			return Ring{}, fmt.Errorf("%w: it is cut short, or a number is out of range", errForm)
		}
		if err := r.Add(r.bound, e); err != nil {
			return Ring{}, fmt.Errorf("%w: %w", errForm, err)
		}
	}
	if len(d.rest) > 0 {
		return Ring{}, fmt.Errorf("%w: %d bytes too many", errForm, len(d.rest))
	}
	return r, nil
}

// decoder reads values from the front of rest until one is not there.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) exemplar() Exemplar {
	id := d.uvarint()
	e := Exemplar{Series: series.ID(id), TimeMs: d.varint()}
	if value := d.bytes(8); !d.bad {
		e.Value = math.Float64frombits(binary.LittleEndian.Uint64(value))
	}
	labels := d.uvarint()
	if id > math.MaxUint32 || labels > LabelRunesMax/2 { // a label has two code points or more
		d.bad = true
	}
	for range labels {
		if d.bad {
			break
		}
		e.Labels = append(e.Labels, Label{Name: d.text(), Value: d.text()})
	}
	return e
}

func (d *decoder) text() string { return string(d.bytes(d.uvarint())) }

func (d *decoder) bytes(n uint64) []byte {
	if d.bad || n > uint64(len(d.rest)) {
		d.bad = true
		return nil
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		d.bad = true
		return
	}
	d.rest = d.rest[n:]
}
