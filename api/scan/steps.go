package scan

import "fmt"

// StepFunction is a function of PromQL over the samples of one series in a range of time.
// Its results have the bits of Prometheus' own.
type StepFunction uint8

// The functions that Steps can ask for.
const (
	// StepNewest is no function: it asks for the newest sample of each range, as it is and
	// with its own time, staleness markers included. So it leaves out what an instant selector
	// cannot see. With Fold it is what such a selector returns: the value of the newest sample,
	// and none for a staleness marker.
	StepNewest StepFunction = iota + 1
	StepRate
	StepIncrease
	StepDelta
	StepIrate
	StepIdelta
	StepDeriv
	StepChanges
	StepResets
	StepAvg
	StepSum
	StepMin
	StepMax
	StepCount
	StepStddev
	StepStdvar
	StepPresent
	StepLast
	stepFunctionEnd
)

// Known reports whether f is one of the functions above.
func (f StepFunction) Known() bool { return f >= StepNewest && f < stepFunctionEnd }

// StepsMax bounds the steps of a request.
const StepsMax = 1 << 14

// Steps asks for one value per series and step instead of samples. Steps are FirstMs,
// FirstMs+StepMs, … up to LastMs; at step t a function sees the samples in (t-RangeMs, t], of
// which staleness markers (StaleBits) are left out. A step that sees none has no value, and a
// function may have none for few samples. Only samples in the request's range count.
//
// A value is a sample whose time is its step. A step without one that follows a step with
// one has a staleness marker, so that whoever looks for the newest sample at a step finds
// none; a NaN result is never that marker.
type Steps struct {
	FirstMs, LastMs, StepMs int64
	RangeMs                 int64
	Function                StepFunction
	Fold                    *Fold // nil: series stay apart
	// DeduplicateMs leaves of the samples in the request's range only the newest of each interval ((k-1)·DeduplicateMs,
	// k·DeduplicateMs], a staleness marker as any other; 0: all count.
	DeduplicateMs int64
}

// StaleBits are the bits of the NaN by which Prometheus marks the end of a series.
const StaleBits uint64 = 0x7ff0000000000002

// FoldKind is an aggregation over series whose result does not depend on their order.
type FoldKind uint8

// The kinds of Fold.
const (
	FoldCount FoldKind = iota + 1
	FoldGroup          // 1 where a series has a value
	// FoldMin and FoldMax pass over NaN where there is another value. Of zeros, the negative
	// one is less.
	FoldMin
	FoldMax
	FoldSum // exactly, with the number of values, for sums and means
	foldKindEnd
)

// Known reports whether k is one of the kinds above.
func (k FoldKind) Known() bool { return k >= FoldCount && k < foldKindEnd }

// Fold asks for one row per group of series. Names, sorted, are the tags that a group has,
// or with Without those that it has not; NameTag stands for the metric, which is never kept
// with Without. Tags that are empty, or called NameTag, count as absent.
//
// A group may be visited several times, each time for other series; whoever asks puts the
// rows together (package steps). With other functions than StepNewest, a series that has a tag
// which is empty or begins with "__" is visited by itself: another one may have the same labels.
type Fold struct {
	Kind    FoldKind
	Without bool
	Names   []string
}

// FoldNamesMax bounds the names of a Fold: each tag of a series is looked for among them.
const FoldNamesMax = 64

// NameTag is what Fold.Names calls the metric.
const NameTag = "__name__"

// Count returns the number of steps.
func (s *Steps) Count() int { return int((s.LastMs-s.FirstMs)/s.StepMs) + 1 }

// At returns the first step at or after t, which may be behind the last.
func (s *Steps) At(t int64) int64 {
	if t <= s.FirstMs {
		return s.FirstMs
	}
	return s.FirstMs + (t-s.FirstMs+s.StepMs-1)/s.StepMs*s.StepMs
}

// stepRangeMsMax is a range over all of time.
const stepRangeMsMax = TimeMsMax - TimeMsMin + 1

// Check returns an error where the arithmetic of steps would leave 64 bits, or where there
// are more than StepsMax.
func (s *Steps) Check() error {
	switch {
	case s.FirstMs < TimeMsMin || s.LastMs > TimeMsMax || s.FirstMs > s.LastMs || s.StepMs < 1 || s.StepMs > stepRangeMsMax:
		return fmt.Errorf("steps of %d ms from %d to %d ms", s.StepMs, s.FirstMs, s.LastMs)
	case (s.LastMs-s.FirstMs)/s.StepMs >= StepsMax:
		return fmt.Errorf("%d steps are more than %d", (s.LastMs-s.FirstMs)/s.StepMs+1, StepsMax)
	case s.RangeMs < 1 || s.RangeMs > stepRangeMsMax:
		return fmt.Errorf("a range of %d ms: it must be longer than 0, and at most %d ms", s.RangeMs, int64(stepRangeMsMax))
	case s.DeduplicateMs < 0 || s.DeduplicateMs > stepRangeMsMax:
		return fmt.Errorf("an interval of %d ms: it must be at most %d ms", s.DeduplicateMs, int64(stepRangeMsMax))
	case !s.Function.Known():
		return fmt.Errorf("unknown function %d", s.Function)
	case s.Fold != nil && (!s.Fold.Kind.Known() || len(s.Fold.Names) > FoldNamesMax):
		return fmt.Errorf("a fold of kind %d by %d names", s.Fold.Kind, len(s.Fold.Names))
	}
	return nil
}
