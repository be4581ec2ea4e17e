package wire

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/exactsum"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// FromSteps returns the message of steps; nil for nil.
func FromSteps(s *scan.Steps) *nodev1.Steps {
	if s == nil {
		return nil
	}
	m := &nodev1.Steps{FirstMs: s.FirstMs, LastMs: s.LastMs, StepMs: s.StepMs, RangeMs: s.RangeMs, Function: nodev1.StepFunction(s.Function)}
	if s.DeduplicateMs > 0 { // an older version must not take it for a request without
		m.Function, m.FunctionDeduplicated, m.DeduplicateMs = nodev1.StepFunction_STEP_FUNCTION_UNSPECIFIED, m.GetFunction(), s.DeduplicateMs
	}
	if f := s.Fold; f != nil {
		m.Fold = &nodev1.Fold{Kind: nodev1.FoldKind(f.Kind), Without: f.Without}
		for _, name := range f.Names {
			m.Fold.Names = append(m.Fold.Names, []byte(name))
		}
	}
	return m
}

// ToSteps returns the steps of a message. It returns nil for nil and for a function of a later
// version, which is answered with samples; a fold of a later version is left out, as the caller
// folds series, too. Errors: ErrInvalid.
func ToSteps(m *nodev1.Steps) (*scan.Steps, error) {
	function := m.GetFunction()
	if m.GetDeduplicateMs() != 0 {
		function = m.GetFunctionDeduplicated()
	}
	if m == nil || function < 0 || function > nodev1.StepFunction(^scan.StepFunction(0)) || !scan.StepFunction(function).Known() {
		return nil, nil
	}
	s := &scan.Steps{
		FirstMs: m.GetFirstMs(), LastMs: m.GetLastMs(), StepMs: m.GetStepMs(), RangeMs: m.GetRangeMs(),
		Function: scan.StepFunction(function), DeduplicateMs: m.GetDeduplicateMs(),
	}
	if f := m.GetFold(); f != nil && f.GetKind() > 0 && f.GetKind() <= nodev1.FoldKind(^scan.FoldKind(0)) && scan.FoldKind(f.GetKind()).Known() {
		s.Fold = &scan.Fold{Kind: scan.FoldKind(f.GetKind()), Without: f.GetWithout()}
		for _, name := range f.GetNames() {
			s.Fold.Names = append(s.Fold.Names, string(name))
		}
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s, nil
}

// SetStepColumns sets m to a copy of a chunk of values at steps, and keeps m's memory: a step
// is sent as its number, which takes a byte where one follows the other.
func SetStepColumns(m *tickmeshv1.Columns, c *scan.Chunk, s *scan.Steps) {
	m.TimeDeltasMs = m.TimeDeltasMs[:0]
	previous := int64(0)
	for _, t := range c.Times {
		n := (t - s.FirstMs) / s.StepMs
		m.TimeDeltasMs = append(m.TimeDeltasMs, n-previous)
		previous = n
	}
	m.Values = append(m.Values[:0], c.Values...)
	m.Counts = append(m.Counts[:0], c.Count...)
}

// AppendSums appends the sums of a row.
func AppendSums(dst []byte, sums []exactsum.Sum) []byte {
	for i := range sums {
		dst = sums[i].Append(dst)
	}
	return dst
}

// toSums returns so many sums that AppendSums has appended.
func toSums(src []byte, count int) (sums []exactsum.Sum, err error) {
	if count == 0 && len(src) == 0 {
		return nil, nil
	}
	sums = make([]exactsum.Sum, count)
	for i := range sums {
		if src, err = sums[i].Decode(src); err != nil {
			return nil, fmt.Errorf("%w: sum %d of %d of a row: %w", ErrInvalid, i, count, err)
		}
	}
	if len(src) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the %d sums of a row", ErrInvalid, len(src), count)
	}
	return sums, nil
}

// SetStepChunk sets the columns of c to those of a message that SetStepColumns has made for
// the same steps, of so many folded series, as SetChunk does, and to sums that AppendSums has
// appended. Errors: ErrInvalid when there are
// other columns than the steps ask for, or steps that they do not have.
func SetStepChunk(c *scan.Chunk, m *tickmeshv1.Columns, s *scan.Steps, folded uint64, sums []byte) error {
	number, count := int64(0), int64(s.Count())
	times := slices.Grow(c.Times[:0], min(len(m.GetTimeDeltasMs()), s.Count()))
	for i, d := range m.GetTimeDeltasMs() {
		if d < 0 || d == 0 && i > 0 || d >= count-number {
			return fmt.Errorf("%w: step %d of a row is %d after the one before it", ErrInvalid, i, d)
		}
		number += d
		times = append(times, s.FirstMs+number*s.StepMs)
	}
	values, counts, summed := len(times), 0, 0
	switch {
	case folded == 0:
	case s.Fold == nil || folded > uint64(series.IDMax): // of one shard; sums of all shards are far from 64 bits
		return fmt.Errorf("%w: a row of %d series that was not asked for", ErrInvalid, folded)
	case s.Fold.Kind == scan.FoldCount:
		values, counts = 0, len(times)
	case s.Fold.Kind == scan.FoldSum:
		values, counts, summed = 0, len(times), len(times)
	case s.Fold.Kind == scan.FoldGroup:
		values = 0
	}
	if len(m.GetValues()) != values || len(m.GetCounts()) != counts {
		return fmt.Errorf("%w: a row of %d steps has %d values and %d counts", ErrInvalid, len(times), len(m.GetValues()), len(m.GetCounts()))
	}
	for _, n := range m.GetCounts() {
		if n < 1 || uint64(n) > folded {
			return fmt.Errorf("%w: %d of %d series have a value", ErrInvalid, n, folded)
		}
	}
	exact, err := toSums(sums, summed)
	if err != nil {
		return err
	}
	*c = scan.Chunk{Key: c.Key, Ref: c.Ref, Times: times, Values: orNil(m.GetValues()), Count: orNil(m.GetCounts()), Sums: exact, Series: int64(folded)}
	return nil
}
