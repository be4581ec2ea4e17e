package exemplar

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/series"
)

const (
	// LabelRunesMax bounds the code points of an exemplar's names and values, as OpenMetrics does.
	LabelRunesMax = 128
	// BoundMax is the greatest bound of a ring.
	BoundMax = 1 << 20
)

// Reasons why an exemplar is not kept.
var (
	ErrOff        = errors.New("exemplars are not kept: the bound is 0")
	ErrLabels     = errors.New("the labels of an exemplar must be UTF-8, ascending and not empty, each once, and have at most 128 code points together")
	ErrDuplicate  = errors.New("the exemplar is the newest one of its series already")
	ErrOutOfOrder = errors.New("the exemplar is older than the newest one of its series")
)

// Label is a name and a value of an exemplar, such as trace_id and the id of a trace.
type Label struct{ Name, Value string }

// Exemplar is a measured value with what leads to its origin.
type Exemplar struct {
	Series series.ID
	TimeMs int64
	Value  float64
	Labels []Label // ascending by name
}

// Ring keeps the newest exemplars. When it is full, the one that came first makes room. The zero
// Ring is empty.
type Ring struct {
	bound  int
	first  int        // index of the exemplar that came first, once the ring is full
	kept   []Exemplar // at most bound
	newest map[series.ID]newest
}

// newest is what Add must know of a series.
type newest struct {
	exemplar Exemplar
	count    int // of the series' exemplars in the ring
}

// Len returns how many exemplars are kept.
func (r *Ring) Len() int { return len(r.kept) }

// Bound returns the bound of the last Add.
func (r *Ring) Bound() int { return r.bound }

// Add keeps e, in a ring of so many places, which is cut to BoundMax. A bound that differs from the last one
// applies to what is kept, too. The error is one of this package; the ring keeps e's labels, which must
// not change.
func (r *Ring) Add(bound int, e Exemplar) error {
	r.resize(min(max(bound, 0), BoundMax))
	if r.bound == 0 {
		return ErrOff
	}
	if !validLabels(e.Labels) {
		return ErrLabels
	}
	if last, ok := r.newest[e.Series]; ok {
		switch c := compare(e, last.exemplar); {
		case c == 0:
			return ErrDuplicate
		case c < 0:
			return ErrOutOfOrder
		}
	}
	r.push(e)
	return nil
}

// push appends e, and removes the exemplar that came first if all places are taken.
func (r *Ring) push(e Exemplar) {
	if len(r.kept) < r.bound {
		r.kept = append(r.kept, e)
	} else {
		r.release(r.kept[r.first].Series)
		r.kept[r.first] = e
		r.first = (r.first + 1) % r.bound
	}
	if r.newest == nil {
		r.newest = map[series.ID]newest{}
	}
	r.newest[e.Series] = newest{exemplar: e, count: r.newest[e.Series].count + 1}
}

// release notes that one exemplar of a series is gone.
func (r *Ring) release(id series.ID) {
	n := r.newest[id]
	if n.count--; n.count > 0 {
		r.newest[id] = n
	} else {
		delete(r.newest, id)
	}
}

// resize changes the bound: the exemplars that came last stay.
func (r *Ring) resize(bound int) {
	if bound == r.bound {
		return
	}
	all := r.ordered()
	r.rebuild(bound, all[max(len(all)-bound, 0):])
}

// Cut removes exemplars before a time and returns how many they were.
func (r *Ring) Cut(beforeMs int64) int {
	return r.remove(func(e Exemplar) bool { return e.TimeMs < beforeMs })
}

// Delete removes the exemplars of a series from a time to another, both inclusive, and returns how many they were.
func (r *Ring) Delete(ids []series.ID, fromMs, toMs int64) int {
	gone := make(map[series.ID]struct{}, len(ids))
	for _, id := range ids {
		gone[id] = struct{}{}
	}
	return r.remove(func(e Exemplar) bool {
		_, ok := gone[e.Series]
		return ok && fromMs <= e.TimeMs && e.TimeMs <= toMs
	})
}

func (r *Ring) remove(gone func(Exemplar) bool) int {
	if !slices.ContainsFunc(r.kept, gone) {
		return 0
	}
	before := len(r.kept)
	r.rebuild(r.bound, slices.DeleteFunc(r.ordered(), gone))
	return before - len(r.kept)
}

// rebuild makes the ring anew of exemplars in the order in which they came, at most bound.
func (r *Ring) rebuild(bound int, all []Exemplar) {
	*r = Ring{bound: bound}
	for _, e := range all {
		r.push(e)
	}
}

// ordered returns a copy of what is kept, in the order in which it came.
func (r *Ring) ordered() []Exemplar {
	return append(slices.Clone(r.kept[r.first:]), r.kept[:r.first]...)
}

// Select returns the exemplars of the wanted series from a time to another, both inclusive, by series
// and then in ascending time. Labels are shared with the ring.
func (r *Ring) Select(fromMs, toMs int64, wanted func(series.ID) bool) []Exemplar {
	var found []Exemplar
	for _, e := range r.ordered() {
		if fromMs <= e.TimeMs && e.TimeMs <= toMs && wanted(e.Series) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b Exemplar) int { return cmp.Compare(a.Series, b.Series) })
	return found
}

// compare orders exemplars of one series: by time, value, and labels. Prometheus takes a hash of the labels,
// which differs between its builds.
func compare(a, b Exemplar) int {
	switch {
	case a.TimeMs != b.TimeMs:
		return sign(a.TimeMs < b.TimeMs)
	case a.Value < b.Value || a.Value > b.Value:
		return sign(a.Value < b.Value)
	case a.Value != b.Value && math.Float64bits(a.Value) != math.Float64bits(b.Value): // one or both are NaN
		return sign(math.Float64bits(a.Value) < math.Float64bits(b.Value))
	}
	return slices.CompareFunc(a.Labels, b.Labels, func(a, b Label) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.Value, b.Value)
	})
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// validLabels reports whether an exemplar may have these labels.
func validLabels(labels []Label) bool {
	runes := 0
	for i, l := range labels {
		if l.Name == "" || l.Value == "" || !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value) {
			return false
		}
		if i > 0 && l.Name <= labels[i-1].Name {
			return false
		}
		if runes += utf8.RuneCountInString(l.Name) + utf8.RuneCountInString(l.Value); runes > LabelRunesMax {
			return false
		}
	}
	return true
}
