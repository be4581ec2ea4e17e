package exemplar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

const formVersion = 1

// ErrForm marks bytes that are not the durable form of a ring.
var ErrForm = errors.New("exemplars: damaged, or of a newer version")

// Append appends the ring's durable form to b. That of the zero Ring is nothing.
func (r *Ring) Append(b []byte) []byte {
	if r.entry == 0 && r.Len() == 0 {
		return b
	}
	b = append(b, formVersion)
	b = binary.AppendUvarint(b, r.entry)
	b = binary.AppendUvarint(b, uint64(r.bound))
	for _, q := range r.databases {
		all := q.all()
		for i := range all {
			b = series.AppendExemplar(b, &all[i])
		}
	}
	return b
}

// Decode reads a durable form, which it does not keep. Errors: ErrForm.
func Decode(b []byte) (Ring, error) {
	if len(b) == 0 {
		return Ring{}, nil
	}
	if b[0] != formVersion {
		return Ring{}, fmt.Errorf("%w: version %d", ErrForm, b[0])
	}
	var head [2]uint64
	b = b[1:]
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return Ring{}, fmt.Errorf("%w: its head is cut short", ErrForm)
		}
		head[i], b = v, b[n:]
	}
	r := Ring{entry: head[0], bound: int64(min(head[1], math.MaxInt64))}
	if r.bound > BoundMax {
		return Ring{}, fmt.Errorf("%w: a bound of %d bytes", ErrForm, r.bound)
	}
	for count := 1; len(b) > 0; count++ {
		e, rest, err := series.ReadExemplar(b)
		if err == nil {
			err = r.Add(r.bound, e)
		}
		if err == nil && r.Len() < count {
			err = ErrOff
		}
		if err != nil {
			return Ring{}, fmt.Errorf("%w: exemplar %d of %d bytes: %w", ErrForm, count, r.bound, err)
		}
		b = rest
	}
	return r, nil
}
