package codec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// ErrCorrupt marks bytes that no encoder of this package wrote.
var ErrCorrupt = errors.New("corrupt samples")

func corrupt(what string, at int) error {
	return fmt.Errorf("%w: %s at byte %d", ErrCorrupt, what, at)
}

// Columns are samples in the form that encoders take: sample i is at
// Times[i] (ms) with the Number {Mantissas[i], Scales[i]}. All three have the
// same length.
type Columns struct {
	Times     []int64
	Mantissas []int64
	Scales    []uint8
}

// Len returns the number of samples.
func (c *Columns) Len() int { return len(c.Times) }

// Reset empties the columns and keeps their memory.
func (c *Columns) Reset() {
	c.Times, c.Mantissas, c.Scales = c.Times[:0], c.Mantissas[:0], c.Scales[:0]
}

// Append adds one sample.
func (c *Columns) Append(timeMs int64, number series.Number) {
	c.Times = append(c.Times, timeMs)
	c.Mantissas = append(c.Mantissas, number.Mantissa)
	c.Scales = append(c.Scales, number.Scale)
}

// Points are samples in the form that queries take. Both slices have the same
// length.
type Points struct {
	Times  []int64
	Values []float64
}

// Len returns the number of samples.
func (p *Points) Len() int { return len(p.Times) }

// Reserve makes room for n samples in all, and not for more, where there is less.
func (p *Points) Reserve(n int) {
	if n > cap(p.Times) {
		p.Times, p.Values = append(make([]int64, 0, n), p.Times...), append(make([]float64, 0, n), p.Values...)
	}
}

// Reset empties the points and keeps their memory.
func (p *Points) Reset() { p.Times, p.Values = p.Times[:0], p.Values[:0] }

// extend lengthens s by n elements, whose content is undefined.
func extend[T any](s []T, n int) []T {
	return slices.Grow(s, n)[:len(s)+n]
}
