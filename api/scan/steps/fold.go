package steps

import (
	"bytes"
	"math"
	"slices"
	"unsafe"

	"github.com/tickmesh/tickmesh/api/exactsum"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Folder folds series, or rows of groups, into one row per group. It is for one goroutine.
type Folder struct {
	request *scan.Steps
	steps   int
	groups  map[string]*row
	bytes   int

	tags  []series.Tag
	key   series.Key
	chunk scan.Chunk // for visits

	// The values of a series of scan.StepNewest at the steps.
	times  []int64
	values []float64
}

// row is one group.
type row struct {
	series int64
	counts []int64        // of series with a value, by step
	values []float64      // the least or greatest value, by step; nil: the fold has none
	sums   []exactsum.Sum // by step; nil: likewise
}

// What a step of a group takes, by what a fold has of it.
const (
	countBytes   = 8
	extremeBytes = 8
	sumBytes     = int(unsafe.Sizeof(exactsum.Sum{}))
)

// rowBytes is about what a group takes beside its key and its cells.
const rowBytes = 160

// NewFolder returns an empty folder for a request with a Fold that has passed its Check.
func NewFolder(request *scan.Steps) *Folder {
	return &Folder{request: request, steps: request.Count(), groups: map[string]*row{}}
}

// Bytes returns what the folder holds.
func (f *Folder) Bytes() int { return f.bytes }

// Len returns the number of groups.
func (f *Folder) Len() int { return len(f.groups) }

// Add folds what an Evaluator has of a series into the group of its key. Not ok: the series is
// one that is visited by itself. Errors: series.ErrKey.
func (f *Folder) Add(key series.Key, times []int64, values []float64) (ok bool, err error) {
	if ok, err = f.find(key); !ok || err != nil {
		return ok, err
	}
	if f.request.Function == scan.StepNewest {
		f.times, f.values = AppendNewest(f.request, f.times[:0], f.values[:0], times, values)
		times, values = f.times, f.values
	}
	if len(times) == 0 {
		return true, nil
	}
	r := f.row(f.key)
	r.series++
	at, step := f.request.FirstMs, 0
	for i, t := range times {
		if t != at {
			step, at = int((t-f.request.FirstMs)/f.request.StepMs), t
		}
		if v := values[i]; !IsStale(v) {
			f.bytes += r.add(f.request.Fold.Kind, step, 1, v)
		}
		step, at = step+1, at+f.request.StepMs
	}
	return true, nil
}

// AddRow folds a row of a group, as Visit hands it out, whose times are steps.
func (f *Folder) AddRow(chunk *scan.Chunk) {
	r := f.row(chunk.Key)
	r.series += chunk.Series
	for i, t := range chunk.Times {
		count, value := int64(1), 0.0
		if len(chunk.Count) > 0 {
			count = chunk.Count[i]
		}
		if len(chunk.Values) > 0 {
			value = chunk.Values[i]
		}
		step := int((t - f.request.FirstMs) / f.request.StepMs)
		if r.sums == nil {
			r.add(f.request.Fold.Kind, step, count, value)
			continue
		}
		r.counts[step] += count
		f.bytes += r.sums[step].Merge(&chunk.Sums[i])
	}
}

// add takes another value of a step, or the extreme value of several series, and returns by how many bytes the row
// has grown.
func (r *row) add(kind scan.FoldKind, step int, count int64, v float64) (grown int) {
	first := r.counts[step] == 0
	r.counts[step] += count
	if r.sums != nil {
		return r.sums[step].Add(v)
	}
	if r.values == nil {
		return 0
	}
	if have := &r.values[step]; first || kind == scan.FoldMax && Above(v, *have) || kind == scan.FoldMin && Below(v, *have) {
		*have = v
	}
	return 0
}

// Above reports whether v takes the place of the greatest value so far. Of zeros the positive
// one is greater, so that it does not depend on the order of series which one is left.
func Above(v, greatest float64) bool {
	return v > greatest || math.IsNaN(greatest) || v == 0 && greatest == 0 && math.Signbit(greatest)
}

// Below reports whether v takes the place of the least value so far; see Above.
func Below(v, least float64) bool {
	return v < least || math.IsNaN(least) || v == 0 && least == 0 && math.Signbit(v)
}

func (f *Folder) row(key series.Key) *row {
	r := f.groups[string(key)]
	if r == nil {
		r = &row{counts: make([]int64, f.steps)}
		cellBytes := countBytes
		switch f.request.Fold.Kind {
		case scan.FoldMin, scan.FoldMax:
			r.values = make([]float64, f.steps)
			cellBytes += extremeBytes
		case scan.FoldSum:
			r.sums = make([]exactsum.Sum, f.steps)
			cellBytes += sumBytes
		case scan.FoldCount, scan.FoldGroup:
		}
		f.groups[string(key)] = r
		f.bytes += rowBytes + len(key) + cellBytes*f.steps
	}
	return r
}

// find sets f.key to the key of a series' group.
func (f *Folder) find(key series.Key) (ok bool, err error) {
	fold := f.request.Fold
	database, metric, tags, err := key.Parts(f.tags[:0])
	f.tags = tags
	if err != nil {
		return false, err
	}
	if f.request.Function != scan.StepNewest && slices.ContainsFunc(tags, lossy) {
		return false, nil
	}
	if fold.Without || !named(fold.Names, nameTag) {
		metric = nil
	}
	f.key = series.AppendPart(series.AppendPart(f.key[:0], database), metric)
	if !fold.Without && len(fold.Names) == 0 {
		return true, nil
	}
	for i := range tags {
		t := &tags[i]
		if len(t.Value) > 0 && string(t.Name) != scan.NameTag && named(fold.Names, t.Name) != fold.Without {
			f.key = series.AppendPart(series.AppendPart(f.key, t.Name), t.Value)
		}
	}
	return true, nil
}

//nolint:gochecknoglobals // constants
var (
	nameTag        = []byte(scan.NameTag)
	reservedPrefix = []byte("__")
)

// lossy reports whether a tag may be lost where functions name their results.
func lossy(t series.Tag) bool { return len(t.Value) == 0 || bytes.HasPrefix(t.Name, reservedPrefix) }

func named(names []string, name []byte) bool {
	for _, n := range names {
		if n == string(name) {
			return true
		}
	}
	return false
}

// Visit hands out the rows of all groups, in the order of their keys, and forgets them. The
// chunk's slices are used again.
func (f *Folder) Visit(ref series.Ref, visit func(*scan.Chunk) error) error {
	keys := make([]string, 0, len(f.groups))
	for key := range f.groups {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	defer f.Forget()
	for _, key := range keys {
		f.fill(f.groups[key])
		if len(f.chunk.Times) == 0 {
			continue
		}
		f.key = append(f.key[:0], key...)
		f.chunk.Key, f.chunk.Ref = f.key, ref
		if err := visit(&f.chunk); err != nil {
			return err
		}
	}
	return nil
}

// Forget drops all groups.
func (f *Folder) Forget() {
	clear(f.groups)
	f.bytes = 0
}

// fill sets the chunk to a row.
func (f *Folder) fill(r *row) {
	c := &f.chunk
	c.Times, c.Values, c.Count, c.Sums, c.Series = c.Times[:0], c.Values[:0], c.Count[:0], c.Sums[:0], r.series
	for step, n := range r.counts {
		if n == 0 {
			continue
		}
		c.Times = append(c.Times, f.request.FirstMs+int64(step)*f.request.StepMs)
		switch {
		case r.values != nil:
			c.Values = append(c.Values, r.values[step])
		case r.sums != nil:
			c.Count, c.Sums = append(c.Count, n), append(c.Sums, r.sums[step])
		case f.request.Fold.Kind == scan.FoldCount:
			c.Count = append(c.Count, n)
		}
	}
}

// AppendNewest appends what an instant selector has at the steps: the newest sample that can be
// seen, if it is no staleness marker.
func AppendNewest(s *scan.Steps, toTimes []int64, toValues []float64, times []int64, values []float64) ([]int64, []float64) {
	next := 0 // sample: those before are not younger than the step
	for at := s.FirstMs; at <= s.LastMs; at += s.StepMs {
		for next < len(times) && times[next] <= at {
			next++
		}
		if next == 0 || times[next-1] <= at-s.RangeMs { // nothing is seen until the next sample
			if next == len(times) {
				break
			}
			at = s.At(times[next]) - s.StepMs
			continue
		}
		if v := values[next-1]; !IsStale(v) {
			toTimes, toValues = append(toTimes, at), append(toValues, v)
		}
	}
	return toTimes, toValues
}
