package index

import (
	"context"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// selection is one query on the way through the parts.
type selection struct {
	ctx      context.Context
	keys     *keyFile
	selector *scan.Selector
	matchers []matcher
	active   view
	few      fewActive
	shards   shardFilter
	found    []uint32     // scratch: the candidates of a metric
	set      []uint64     // scratch: a set of a part
	steps    []step       // scratch: of a metric
	values   []*[]posting // scratch: of each step
	finder   finder
	tags     []series.Tag
}

const (
	selectionBytesKept = 1 << 16 // of the scratch that one query leaves for the next
	postingBytes       = 64      // about
	stepBytes          = 256     // about
)

// takeSelection returns a selection with the scratch of one before, or without.
func (x *Index) takeSelection() *selection {
	if s, ok := x.idle.Get().(*selection); ok {
		return s
	}
	return &selection{}
}

// keepSelection takes the scratch of a selection that has ended. It refers to no part any more, which would keep that in
// memory.
func (x *Index) keepSelection(s *selection) {
	bytes := 4*cap(s.found) + 8*cap(s.set) + 4*cap(s.few.list) + 8*cap(s.active.periods) + stepBytes*(cap(s.steps)+len(s.values)) + 48*cap(s.tags)
	for _, v := range s.values {
		clear((*v)[:cap(*v)])
		bytes += cap(*v) * postingBytes
	}
	if bytes > selectionBytesKept {
		return
	}
	clear(s.steps[:cap(s.steps)])
	clear(s.tags[:cap(s.tags)])
	clear(s.active.periods[:cap(s.active.periods)])
	kept := selection{found: s.found[:0], set: s.set, steps: s.steps[:0], values: s.values, tags: s.tags[:0]}
	kept.few.list, kept.active.periods = s.few.list[:0], s.active.periods[:0]
	*s = kept
	x.idle.Put(s)
}

// scratch returns the list for the values of a step.
func (s *selection) scratch(number int) *[]posting {
	if number == len(s.values) {
		s.values = append(s.values, new([]posting))
	}
	return s.values[number]
}
