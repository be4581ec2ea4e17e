package years

import (
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// Sample is one value to be written.
type Sample struct {
	Key    series.Key
	TimeMs int64
	Value  float64
}

// Oracle records what a node must hold, and what it may: what a write or delete that was answered by an
// error has done is in doubt, until a look at the healthy node tells. It is slow and obvious.
type Oracle struct {
	Lines   map[string]*Line    // by key
	horizon map[string]*Horizon // by metric
	touched map[int64]map[string]bool
}

// Line is one series.
type Line struct {
	Key    series.Key
	Metric string
	TimeMs []int64 // that must be there, in order
	Bits   []uint64
	doubt  map[int64][]uint64 // values that may be there instead, or as well
	gone   map[int64]bool     // of those that must, these may be missing
}

// Horizon is how far back a metric's samples are: those before GoneMs are not there any more, and those from
// KeptMs on must be. Between, nobody knows: cuts are made in steps. Likewise of hours that begin before ThinnedMs the last sample is
// there alone, and of those from WholeMs on all are.
type Horizon struct{ GoneMs, KeptMs, ThinnedMs, WholeMs int64 }

// NewOracle returns the oracle of an empty node.
func NewOracle() *Oracle {
	return &Oracle{Lines: map[string]*Line{}, horizon: map[string]*Horizon{}, touched: map[int64]map[string]bool{}}
}

// stepMs is what cuts are rounded down to.
const stepMs = 2 * hourMs

// Keeps notes for how long a metric is kept at a time; 0: for ever.
func (o *Oracle) Keeps(metric string, keepMs, nowMs int64) {
	if keepMs != 0 {
		h := o.Horizon(metric)
		h.KeptMs = max(h.KeptMs, nowMs-keepMs)
	}
}

// Cut notes that all cuts have been made that were due at a time, when a metric was kept for so long; 0: for ever.
func (o *Oracle) Cut(metric string, keepMs, dueMs int64) {
	if keepMs != 0 {
		h, cutMs := o.Horizon(metric), dueMs-keepMs
		h.GoneMs = max(h.GoneMs, cutMs-((cutMs%stepMs)+stepMs)%stepMs)
	}
}

// Thins notes for how long all samples of a metric are kept at a time.
func (o *Oracle) Thins(metric string, rawMs, nowMs int64) {
	h := o.Horizon(metric)
	h.WholeMs = max(h.WholeMs, floorDay(nowMs-rawMs))
}

// Thinned notes that the hours have been thinned which were due at a time, when all samples of a metric were kept for so long.
func (o *Oracle) Thinned(metric string, rawMs, dueMs int64) {
	h := o.Horizon(metric)
	h.ThinnedMs = max(h.ThinnedMs, floorDay(dueMs-rawMs))
}

// Horizon returns that of a metric, which may be moved.
func (o *Oracle) Horizon(metric string) *Horizon {
	h := o.horizon[metric]
	if h == nil {
		h = &Horizon{math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64}
		o.horizon[metric] = h
	}
	return h
}

func (o *Oracle) line(key series.Key) *Line {
	l := o.Lines[string(key)]
	if l == nil {
		_, metric, _, _ := key.Parts(nil)
		l = &Line{Key: slices.Clone(key), Metric: string(metric), doubt: map[int64][]uint64{}, gone: map[int64]bool{}}
		o.Lines[string(l.Key)] = l
	}
	return l
}

// touch notes that a series may have a sample on a day.
func (o *Oracle) touch(s *Sample) {
	day := floorDay(s.TimeMs)
	if o.touched[day] == nil {
		o.touched[day] = map[string]bool{}
	}
	o.touched[day][string(s.Key)] = true
}

// TouchedOn reports whether a series was ever written with a time of a day.
func (o *Oracle) TouchedOn(day int64, key series.Key) bool { return o.touched[day][string(key)] }

// Wrote notes writes that were acknowledged. Again says that they have been sent before, and answered by an
// error: what came after that may have come before it.
func (o *Oracle) Wrote(samples []Sample, again bool) {
	for i := range samples {
		s := &samples[i]
		o.touch(s)
		l := o.line(s.Key)
		l.put(s.TimeMs, math.Float64bits(s.Value))
		delete(l.gone, s.TimeMs)
		if !again {
			delete(l.doubt, s.TimeMs)
		}
	}
}

// MayHaveWritten notes writes that were answered by an error, or not at all.
func (o *Oracle) MayHaveWritten(samples []Sample) {
	for i := range samples {
		s := &samples[i]
		o.touch(s)
		l := o.line(s.Key)
		l.doubt[s.TimeMs] = append(l.doubt[s.TimeMs], math.Float64bits(s.Value))
	}
}

// Deleted notes what became of a delete of [fromMs, toMs] of the series that match.
func (o *Oracle) Deleted(match func(*Line) bool, fromMs, toMs int64, err error) {
	for _, l := range o.Lines {
		if match(l) {
			l.deleted(fromMs, toMs, err)
		}
	}
}

func (l *Line) deleted(fromMs, toMs int64, err error) {
	from, to := l.find(fromMs), l.find(toMs+1)
	if err != nil {
		for _, at := range l.TimeMs[from:to] {
			l.gone[at] = true
		}
		return
	}
	l.TimeMs, l.Bits = slices.Delete(l.TimeMs, from, to), slices.Delete(l.Bits, from, to)
	within := func(at int64) bool { return at >= fromMs && at <= toMs }
	for at := range l.doubt {
		if within(at) {
			delete(l.doubt, at)
		}
	}
	for at := range l.gone {
		if within(at) {
			delete(l.gone, at)
		}
	}
}

// find returns the place of the first sample at or after a time.
func (l *Line) find(atMs int64) int {
	i, _ := slices.BinarySearch(l.TimeMs, atMs)
	return i
}

func (l *Line) put(atMs int64, bits uint64) {
	i, found := slices.BinarySearch(l.TimeMs, atMs)
	if found {
		l.Bits[i] = bits
		return
	}
	l.TimeMs, l.Bits = slices.Insert(l.TimeMs, i, atMs), slices.Insert(l.Bits, i, bits)
}

// Forget drops what is gone, and lines without anything.
func (o *Oracle) Forget() {
	for k, l := range o.Lines {
		l.deleted(math.MinInt64, o.Horizon(l.Metric).GoneMs-1, nil)
		if len(l.TimeMs) == 0 && len(l.doubt) == 0 {
			delete(o.Lines, k)
		}
	}
}

// ForgetDays drops what was noted of days before one.
func (o *Oracle) ForgetDays(beforeMs int64) {
	for day := range o.touched {
		if day < beforeMs {
			delete(o.touched, day)
		}
	}
}

// InDoubt returns how many samples are in doubt.
func (o *Oracle) InDoubt() (n int) {
	for _, l := range o.Lines {
		n += len(l.doubt) + len(l.gone)
	}
	return n
}

// Samples returns how many samples must be there.
func (o *Oracle) Samples() (n int64) {
	for _, l := range o.Lines {
		n += int64(len(l.TimeMs))
	}
	return n
}

// compare describes where got is not what it may be, of one line, and how many samples differ. With adopt
// what was in doubt is as it is found, from now on.
func (l *Line) compare(h *Horizon, timesMs []int64, values []float64, adopt bool) (what string, count int) {
	differ := func(format string, args ...any) {
		if count++; count == 1 {
			what = l.Key.String() + " " + fmt.Sprintf(format, args...)
		}
	}
	got := make(map[int64]uint64, len(timesMs))
	for i, at := range timesMs {
		bits := math.Float64bits(values[i])
		got[at] = bits
		place, must := slices.BinarySearch(l.TimeMs, at)
		switch {
		case at < h.GoneMs:
			differ("at %s is there, though retention has cut it", stamp(at))
		case at < h.ThinnedMs && must && !l.lastOfHour(place):
			differ("at %s is there, though a later one of its hour is, and the hour is thinned", stamp(at))
		case must && l.Bits[place] == bits || slices.Contains(l.doubt[at], bits):
		case must:
			differ("at %s is %v, want %v", stamp(at), values[i], math.Float64frombits(l.Bits[place]))
		default:
			differ("at %s is there with %v, and was deleted or never written", stamp(at), values[i])
		}
	}
	for i, at := range l.TimeMs {
		if at < h.WholeMs && !l.lastOfHour(i) {
			continue
		}
		if _, there := got[at]; !there && at >= h.KeptMs && !l.gone[at] {
			differ("at %s is missing", stamp(at))
		}
	}
	if adopt {
		l.adopt(got)
	}
	return what, count
}

// lastOfHour reports whether a sample is the last of its hour.
func (l *Line) lastOfHour(place int) bool {
	return place == len(l.TimeMs)-1 || l.TimeMs[place+1]/hourMs > l.TimeMs[place]/hourMs
}

// adopt ends all doubts.
func (l *Line) adopt(got map[int64]uint64) {
	for at := range l.doubt {
		if bits, there := got[at]; there {
			l.put(at, bits)
		}
	}
	for at := range l.gone {
		if _, there := got[at]; !there {
			i := l.find(at)
			if i < len(l.TimeMs) && l.TimeMs[i] == at {
				l.TimeMs, l.Bits = slices.Delete(l.TimeMs, i, i+1), slices.Delete(l.Bits, i, i+1)
			}
		}
	}
	clear(l.doubt)
	clear(l.gone)
}

// Compare compares all lines with what a node has answered, and returns a few of the differences.
// Adopt ends all doubts, which a node that is not well yet must not.
func (o *Oracle) Compare(got map[string]*Answer, adopt bool) (differences []string) {
	note := func(what string, count int) {
		if count > 0 {
			differences = append(differences, fmt.Sprintf("%s (%d of this series)", what, count))
		}
	}
	none := &Answer{}
	for k, l := range o.Lines {
		a := got[k]
		if a == nil {
			a = none
		}
		note(l.compare(o.Horizon(l.Metric), a.TimeMs, a.Values, adopt))
	}
	for k, a := range got {
		if o.Lines[k] == nil && len(a.TimeMs) > 0 {
			note(fmt.Sprintf("%s at %s is there, and nothing of it should be", series.Key(k), stamp(a.TimeMs[0])), len(a.TimeMs))
		}
	}
	slices.Sort(differences)
	return differences[:min(len(differences), 10)]
}

// Answer is what a node has answered of one series.
type Answer struct {
	TimeMs []int64
	Values []float64
}
