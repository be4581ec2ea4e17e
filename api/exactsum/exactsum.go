package exactsum

import (
	"math"
	"unsafe"
)

// LargeBytes is what a sum holds beside itself once two float64s were not enough.
const LargeBytes = int(unsafe.Sizeof(large{}))

// Sum is the exact sum of the values that were added to it. The zero Sum is of none: a negative
// zero, which changes no other sum. A copy shares the large form with its original: of the two, one may be added to.
type Sum struct {
	// The sum is the first number, negated so that the zero Sum is what it has to be, and the second. If the
	// first is no number or infinite, it alone is the sum, for ever.
	negated, rest float64
	large         *large // has all that is finite; nil: the two numbers have it
}

// Bytes returns what the sum holds, with itself.
func (s *Sum) Bytes() int {
	if s.large != nil {
		return int(unsafe.Sizeof(*s)) + LargeBytes
	}
	return int(unsafe.Sizeof(*s))
}

// Add adds a value and returns by how many bytes the sum has grown: LargeBytes or 0.
func (s *Sum) Add(v float64) (grown int) {
	if s.large == nil && s.addTo(-s.negated, s.rest, v) {
		return 0
	}
	return s.addSlow(v)
}

// AddAll adds values as Add does, faster.
func (s *Sum) AddAll(values []float64) (grown int) {
	for len(values) > 0 {
		if s.large == nil {
			n := s.addMany(values)
			if values = values[n:]; len(values) == 0 {
				break
			}
		}
		grown += s.addSlow(values[0])
		values = values[1:]
	}
	return grown
}

// addMany adds values while two numbers are enough and returns how many it has added.
func (s *Sum) addMany(values []float64) (added int) {
	first, rest := -s.negated, s.rest // in registers
	for _, v := range values {
		sum, off := twoSum(first, v)
		more, left := twoSum(rest, off)
		if left != 0 {
			break
		}
		first, rest = sum, more
		added++
	}
	s.negated, s.rest = -first, rest
	return added
}

// addTo makes the sum that of three numbers. Not ok: two have no room for it.
func (s *Sum) addTo(first, rest, v float64) (ok bool) {
	first, off := twoSum(first, v)
	rest, left := twoSum(rest, off)
	if left != 0 { // or NaN, as it is of infinities
		return false
	}
	s.negated, s.rest = -first, rest
	return true
}

// twoSum returns the rounded sum of two numbers and what was rounded off.
func twoSum(a, b float64) (sum, off float64) {
	sum = a + b
	ofB := sum - a
	return sum, (a - (sum - ofB)) + (b - ofB)
}

// addSlow is Add where two numbers are not enough as they are, and for what is not finite.
func (s *Sum) addSlow(v float64) (grown int) {
	if first := -s.negated; special(first) || special(v) {
		s.negated, s.rest = -(first + v), 0
		return 0
	}
	if s.large == nil { // the rest is what was rounded off many sums, and may be larger than what is of one
		if first, rest := twoSum(-s.negated, s.rest); s.addTo(first, rest, v) {
			return 0
		}
	}
	grown = s.grow()
	s.large.add(v)
	return grown
}

func special(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// grow makes the sum take its large form and returns LargeBytes, or 0 if it has it.
func (s *Sum) grow() int {
	if s.large != nil {
		return 0
	}
	s.large = &large{}
	s.large.add(-s.negated)
	s.large.add(s.rest)
	s.negated, s.rest = 0, 0
	return LargeBytes
}

// Merge adds the values of another sum and returns by how many bytes this one has grown.
func (s *Sum) Merge(o *Sum) (grown int) {
	first := -o.negated
	switch {
	case special(first):
		return s.Add(first)
	case o.large == nil:
		if grown = s.Add(first); o.rest != 0 {
			grown += s.Add(o.rest)
		}
		return grown
	case special(s.negated):
		return 0
	}
	grown = s.grow()
	s.large.merge(o.large)
	return grown
}

// Value returns the sum, rounded to the nearest float64, to even between two. As IEEE 754 has it,
// it is NaN where a value is, or where both infinities are; an infinity beyond the greatest float64; and
// a negative zero of nothing but negative zeros. What the sum was on the way does not matter.
func (s *Sum) Value() float64 {
	first := -s.negated
	switch {
	case s.large != nil && !special(first):
		return s.large.round(0)
	case s.rest == 0: // which may be a zero of another sign
		return first
	}
	return first + s.rest
}

// Mean returns the sum of so many values, rounded as Value has it, by their number; also where the
// sum itself is beyond the greatest float64.
func (s *Sum) Mean(count int64) float64 {
	v := s.Value()
	if !math.IsInf(v, 0) || special(s.negated) {
		return v / float64(count)
	}
	all := s.large
	if all == nil {
		all = &large{}
		all.add(-s.negated)
		all.add(s.rest)
	}
	const less = 64 // the sum of 2^64 values is not beyond, by 2^64
	return math.Ldexp(all.round(less)/float64(count), less)
}
