package series

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// ExemplarRunesMax bounds the code points of an exemplar's names and values together, as OpenMetrics does.
const ExemplarRunesMax = 128

// ErrExemplar marks an exemplar whose labels are not allowed, or bytes that are none.
var ErrExemplar = errors.New("the labels of an exemplar must be UTF-8, ascending by name, each name once, not empty, and have at most 128 code points together")

// ExemplarLabel is a name and a value, such as trace_id and the id of a trace.
type ExemplarLabel struct{ Name, Value string }

// Exemplar is a measured value of a series with what leads to its origin.
type Exemplar struct {
	Key    Key
	TimeMs int64
	Value  float64
	Labels []ExemplarLabel // ascending by name
}

// ExemplarOutcomes counts what has become of exemplars.
type ExemplarOutcomes struct {
	Kept       int // also those that were there already
	OutOfOrder int // older than one of their series that is kept
	Refused    int // of no series, with labels that are not allowed, too large, or not wanted
}

// Add adds those of others.
func (o *ExemplarOutcomes) Add(of ExemplarOutcomes) {
	o.Kept += of.Kept
	o.OutOfOrder += of.OutOfOrder
	o.Refused += of.Refused
}

// Check returns ErrExemplar unless the labels are allowed.
func (e *Exemplar) Check() error {
	runes := 0
	for i, l := range e.Labels {
		if l.Name == "" || l.Value == "" || !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value) {
			return ErrExemplar
		}
		if i > 0 && l.Name <= e.Labels[i-1].Name {
			return ErrExemplar
		}
		if runes += utf8.RuneCountInString(l.Name) + utf8.RuneCountInString(l.Value); runes > ExemplarRunesMax {
			return ErrExemplar
		}
	}
	return nil
}

// Compare orders exemplars of one series: by time, value, and labels. Prometheus takes a hash of the labels,
// which differs between its builds.
func (e *Exemplar) Compare(other *Exemplar) int {
	switch {
	case e.TimeMs != other.TimeMs:
		return cmp.Compare(e.TimeMs, other.TimeMs)
	case e.Value < other.Value:
		return -1
	case e.Value > other.Value:
		return 1
	case e.Value != other.Value: // one or both are NaN
		if c := cmp.Compare(math.Float64bits(e.Value), math.Float64bits(other.Value)); c != 0 {
			return c
		}
	}
	return slices.CompareFunc(e.Labels, other.Labels, func(a, b ExemplarLabel) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
}

// AppendExemplar appends the encoded form of an exemplar, which is the same between processes, in logs and in files:
//
//	key length uvarint, key; time varint (ms); value u64, bits of a float64; labels uvarint, for each name and value:
//	length uvarint, bytes
func AppendExemplar(b []byte, e *Exemplar) []byte {
	b = append(binary.AppendUvarint(b, uint64(len(e.Key))), e.Key...)
	b = binary.AppendVarint(b, e.TimeMs)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.Value))
	b = binary.AppendUvarint(b, uint64(len(e.Labels)))
	for _, l := range e.Labels {
		b = append(binary.AppendUvarint(b, uint64(len(l.Name))), l.Name...)
		b = append(binary.AppendUvarint(b, uint64(len(l.Value))), l.Value...)
	}
	return b
}

// ReadExemplar reads an exemplar from the front of b. Its key points into b. Errors: ErrExemplar, also for a key that is
// none.
func ReadExemplar(b []byte) (e Exemplar, rest []byte, err error) {
	r := exemplarReader{rest: b}
	if e.Key = Key(r.text(KeyBytesMax)); !r.bad {
		if _, _, _, err := e.Key.Parts(nil); err != nil {
			return e, nil, fmt.Errorf("%w: %w", ErrExemplar, err)
		}
	}
	e.TimeMs = r.varint()
	if value := r.take(8); !r.bad {
		e.Value = math.Float64frombits(binary.LittleEndian.Uint64(value))
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		if len(e.Labels) == ExemplarRunesMax/2 { // a label has two code points or more
			r.bad = true
			break
		}
		const bytesMax = ExemplarRunesMax * utf8.UTFMax
		e.Labels = append(e.Labels, ExemplarLabel{Name: string(r.text(bytesMax)), Value: string(r.text(bytesMax))})
	}
	if r.bad {
		return e, nil, fmt.Errorf("%w: it is cut short, or a number is out of range", ErrExemplar)
	}
	return e, r.rest, e.Check()
}

// ReadExemplars reads all exemplars of b. Errors: those of ReadExemplar.
func ReadExemplars(b []byte) (all []Exemplar, err error) {
	for len(b) > 0 {
		var e Exemplar
		if e, b, err = ReadExemplar(b); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// exemplarReader reads values from the front of rest until one is not there.
type exemplarReader struct {
	rest []byte
	bad  bool
}

func (r *exemplarReader) text(bytesMax uint64) []byte {
	n := r.uvarint()
	if n > bytesMax {
		r.bad = true
	}
	return r.take(n)
}

func (r *exemplarReader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *exemplarReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *exemplarReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *exemplarReader) skip(n int) {
	if n <= 0 || r.bad {
		r.bad = true
		return
	}
	r.rest = r.rest[n:]
}
