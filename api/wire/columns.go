package wire

import (
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/scan"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// SetColumns sets m to a copy of the chunk's columns and keeps m's memory.
func SetColumns(m *tickmeshv1.Columns, c *scan.Chunk) {
	m.TimeDeltasMs = AppendDeltas(m.TimeDeltasMs[:0], c.Times)
	m.Values = append(m.Values[:0], c.Values...)
	m.Sums = append(m.Sums[:0], c.Sum...)
	m.Counts = append(m.Counts[:0], c.Count...)
	m.Mins = append(m.Mins[:0], c.Min...)
	m.Maxs = append(m.Maxs[:0], c.Max...)
	m.Firsts = append(m.Firsts[:0], c.First...)
	m.Lasts = append(m.Lasts[:0], c.Last...)
	m.Digests = append(m.Digests[:0], c.Digest...)
	m.Hidden = append(m.Hidden[:0], c.Hidden...)
}

// SetChunk sets the columns of c to those of the message: Times in memory that c
// keeps, the others in the message's. Key and Ref stay. Errors: ErrInvalid when
// columns have different lengths or times do not grow.
func SetChunk(c *scan.Chunk, m *tickmeshv1.Columns) error {
	var err error
	if c.Times, err = AppendTimes(c.Times[:0], m.GetTimeDeltasMs(), 1); err != nil {
		return err
	}
	c.Values, c.Count = orNil(m.GetValues()), orNil(m.GetCounts())
	c.Sum, c.Min, c.Max = orNil(m.GetSums()), orNil(m.GetMins()), orNil(m.GetMaxs())
	c.First, c.Last = orNil(m.GetFirsts()), orNil(m.GetLasts())
	c.Digest, c.Hidden = orNil(m.GetDigests()), orNil(m.GetHidden())
	for _, n := range [...]int{len(c.Values), len(c.Sum), len(c.Count), len(c.Min), len(c.Max), len(c.First), len(c.Last), len(c.Digest), len(c.Hidden)} {
		if n != 0 && n != len(c.Times) {
			return fmt.Errorf("%w: columns of %d and %d entries", ErrInvalid, len(c.Times), n)
		}
	}
	return nil
}

func orNil[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// AppendDeltas appends the first time and then the differences between neighbours.
func AppendDeltas(dst, timesMs []int64) []int64 {
	previous := int64(0)
	for _, t := range timesMs {
		dst = append(dst, t-previous)
		previous = t
	}
	return dst
}

// AppendTimes appends the times that deltas say; each after the first has to be at
// least deltaMin: math.MinInt64 for no order. Errors: ErrInvalid, also for times
// outside of scan.TimeMsMin…TimeMsMax.
func AppendTimes(dst, deltas []int64, deltaMin int64) ([]int64, error) {
	t := int64(0)
	for i, d := range deltas {
		if i > 0 && d < deltaMin {
			return dst, fmt.Errorf("%w: time %d is %d ms after the one before it", ErrInvalid, i, d)
		}
		if d > 0 && t > math.MaxInt64-d || d < 0 && t < math.MinInt64-d {
			return dst, fmt.Errorf("%w: time %d is out of range", ErrInvalid, i)
		}
		if t += d; t < scan.TimeMsMin || t > scan.TimeMsMax {
			return dst, fmt.Errorf("%w: time %d is out of range", ErrInvalid, i)
		}
		dst = append(dst, t)
	}
	return dst, nil
}
