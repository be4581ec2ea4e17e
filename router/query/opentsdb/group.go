package opentsdb

import (
	"bytes"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// group is the columns that make one result.
type group struct {
	members    []column
	tags       []series.Tag // that all members have with one value, sorted by name
	aggregated [][]byte     // names of tags whose values differ, sorted
}

// What a group takes, and a tag of it, and a member after the first.
const (
	groupBytes  = 256
	tagBytes    = 48
	memberBytes = 96
)

// groupColumns splits columns by the
// values of the tags to group by; results are in the order of these values. For
// functions that keep whole series every result has one member. What groups hold
// is charged to memory.
func groupColumns(columns []column, sub *subQuery, memory *holding) ([]group, error) {
	if sub.aggregator.selection == selectAll {
		return singles(columns, memory)
	}
	if len(sub.groupBy) == 0 && len(columns) > 0 {
		g, err := oneGroup(columns, memory)
		if err != nil {
			return nil, err
		}
		return keepWanted([]group{g}, sub, memory)
	}
	groups, err := groupsByTags(columns, sub.groupBy, memory)
	if err != nil {
		return nil, err
	}
	return keepWanted(groups, sub, memory)
}

// groupsByTags puts columns that have the same values of some tags together, in the order of these values.
func groupsByTags(columns []column, names []string, memory *holding) ([]group, error) {
	var (
		groups []group
		values [][]byte // of the groups, as length-prefixed parts
		find   = map[string]int{}
		value  []byte
		tags   []series.Tag
	)
	for _, c := range columns {
		_, _, parsed, err := c.key.Parts(tags[:0])
		if err != nil {
			return nil, err
		}
		tags = parsed
		value = value[:0]
		for _, name := range names {
			value = series.AppendPart(value, tagValue(tags, name))
		}
		at, ok := find[string(value)]
		if !ok {
			at = len(groups)
			find[string(value)] = at
			groups = append(groups, group{tags: slices.Clone(tags)})
			values = append(values, slices.Clone(value))
			if err := memory.take(groupBytes + tagBytes*int64(len(tags)) + 2*int64(len(value))); err != nil {
				return nil, err
			}
		} else if err := memory.take(memberBytes); err != nil {
			return nil, err
		}
		g := &groups[at]
		if len(g.members) > 0 {
			g.merge(tags)
		}
		g.members = append(g.members, c)
	}
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(values[a], values[b]) })
	sorted := make([]group, len(groups))
	for i, at := range order {
		sorted[i] = groups[at]
	}
	return sorted, nil
}

// keepWanted leaves out of groups what the function does not want.
func keepWanted(groups []group, sub *subQuery, memory *holding) ([]group, error) {
	if sub.aggregator.selection == selectTop || sub.aggregator.selection == selectBottom {
		return keepSome(groups, &sub.aggregator, memory)
	}
	return groups, nil
}

// oneGroup makes one group of all columns, of which there is at least one.
func oneGroup(columns []column, memory *holding) (group, error) {
	g := group{members: columns}
	var tags []series.Tag
	for i := range columns {
		_, _, parsed, err := columns[i].key.Parts(tags[:0])
		if err != nil {
			return group{}, err
		}
		if tags = parsed; i == 0 {
			g.tags = slices.Clone(tags)
		} else {
			g.merge(tags)
		}
	}
	return g, memory.take(groupBytes + tagBytes*int64(len(g.tags)) + memberBytes*int64(len(columns)-1))
}

// name returns the metric of a result.
func (g *group) name() string {
	if len(g.members) == 0 {
		return ""
	}
	return string(metricOf(g.members[0].key))
}

// integers reports whether OpenTSDB would answer a result with integers: where all samples are whole, which it
// stores as integers, and nothing is made of them that may be none. All else are doubles, whole or not.
func (g *group) integers(sub *subQuery) bool {
	if sub.downsample != nil || sub.rate {
		return false
	}
	for i := range g.members {
		if !whole(g.members[i].values) {
			return false
		}
	}
	if len(g.members) < 2 || sub.aggregator.selection != selectMerged {
		return true
	}
	if !sub.aggregator.keepsWhole {
		return false
	}
	if sub.aggregator.between != interpolateLinear {
		return true
	}
	for i := range g.members[1:] {
		if !slices.Equal(g.members[i].times, g.members[i+1].times) {
			return false
		}
	}
	return true
}

// whole reports whether all values are integers of 64 bits.
func whole(values []float64) bool {
	for _, v := range values {
		if v != math.Trunc(v) || !(math.Abs(v) < 1<<63) {
			return false
		}
	}
	return true
}

func tagValue(tags []series.Tag, name string) []byte {
	for i := range tags {
		if string(tags[i].Name) == name {
			return tags[i].Value
		}
	}
	return nil
}

// merge takes the tags of one more member, sorted by name, into account. As in
// SpanGroup.computeTags a tag that only some members have counts as common when
// its value is always the same.
func (g *group) merge(tags []series.Tag) {
	at := 0
	for i := range tags {
		for at < len(g.tags) && bytes.Compare(g.tags[at].Name, tags[i].Name) < 0 {
			at++
		}
		if at < len(g.tags) && bytes.Equal(g.tags[at].Name, tags[i].Name) {
			if !bytes.Equal(g.tags[at].Value, tags[i].Value) {
				g.aggregate(tags[i].Name)
				g.tags = slices.Delete(g.tags, at, at+1)
			}
			continue
		}
		if _, differs := slices.BinarySearchFunc(g.aggregated, tags[i].Name, bytes.Compare); !differs {
			g.tags = slices.Insert(g.tags, at, tags[i])
		}
	}
}

func (g *group) aggregate(name []byte) {
	at, _ := slices.BinarySearchFunc(g.aggregated, name, bytes.Compare)
	g.aggregated = slices.Insert(g.aggregated, at, name)
}

// singles makes one result of each column.
func singles(columns []column, memory *holding) ([]group, error) {
	groups := make([]group, len(columns))
	for i := range columns {
		_, _, tags, err := columns[i].key.Parts(nil)
		if err != nil {
			return nil, err
		}
		groups[i] = group{members: columns[i : i+1], tags: tags}
		if err := memory.take(groupBytes + tagBytes*int64(len(tags))); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// rankPoints is the number of last points that TickTock ranks series by.
const rankPoints = 3

// keepSome keeps, of each group, the series with the largest (topN) or smallest
// (bottomN) of their last points, best first; of equal ones the first by key.
func keepSome(groups []group, a *aggregator, memory *holding) ([]group, error) {
	var kept []column
	for _, g := range groups {
		ranks := make([]float64, len(g.members))
		order := make([]int, len(g.members))
		for i, c := range g.members {
			values := c.values[max(0, len(c.values)-rankPoints):]
			if order[i] = i; a.selection == selectTop {
				ranks[i] = -maximum(values)
			} else {
				ranks[i] = minimum(values)
			}
			if math.IsNaN(ranks[i]) {
				ranks[i] = math.Inf(1)
			}
		}
		slices.SortStableFunc(order, func(x, y int) int {
			switch {
			case ranks[x] < ranks[y]:
				return -1
			case ranks[x] > ranks[y]:
				return 1
			}
			return 0
		})
		for _, i := range order[:min(a.keep, len(order))] {
			kept = append(kept, g.members[i])
		}
	}
	return singles(kept, memory)
}
