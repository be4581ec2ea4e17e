package influxql

import (
	"cmp"
	"math"
	"slices"
	"strings"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// table is what a SELECT reads of one set of tags: of a measurement the fields joined by
// time, of a subquery its rows.
type table struct {
	name    string
	tags    []answer.Tag // by key; of a subquery what it is grouped by
	order   string       // its tags as one text, by which tables are put into order; empty: it has none
	times   []int64
	columns []column // one for each of the selection's inputs
	windows *windows // of a read of windows, which has no rows
}

// column is one field or tag of a table.
type column struct {
	kind     answer.Kind
	numbers  []float64      // NaN is null
	values   []answer.Value // of rows that are not numbers
	constant *answer.Value  // the same in all rows: a tag
}

func (c *column) at(row int) answer.Value {
	switch {
	case c.constant != nil:
		return *c.constant
	case c.values != nil:
		return c.values[row]
	case c.numbers != nil:
		return answer.Number(c.numbers[row], c.kind)
	}
	return answer.Value{}
}

// number returns the number of a row; NaN: it has none.
func (c *column) number(row int) float64 {
	if c.numbers != nil {
		return c.numbers[row]
	}
	if v := c.at(row); v.IsNumber() {
		return v.Number
	}
	return math.NaN()
}

// isNull reports whether a row has no value.
func (c *column) isNull(row int) bool {
	if c.numbers != nil {
		v := c.numbers[row]
		return v != v
	}
	return c.at(row).Kind == answer.KindNull
}

// tagValue returns the value of a tag; a tag that is not there is the empty string.
func (t *table) tagValue(key string) string {
	for i := range t.tags {
		if t.tags[i].Key == key {
			return t.tags[i].Value
		}
	}
	return ""
}

// bytes is about what a table holds.
func (t *table) bytes() int64 {
	n := int64(200 + 8*cap(t.times) + 64*len(t.tags))
	for i := range t.columns {
		n += int64(96 + 8*cap(t.columns[i].numbers) + 48*cap(t.columns[i].values))
	}
	return n
}

// compareTables puts tables into the order of their names and tags.
func compareTables(a, b *table) int {
	if c := cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.order, b.order)); c != 0 {
		return c
	}
	return slices.CompareFunc(a.tags, b.tags, func(x, y answer.Tag) int {
		return cmp.Or(strings.Compare(x.Key, y.Key), strings.Compare(x.Value, y.Value))
	})
}

// group is the tables that one series of the answer is made from.
type group struct {
	key    string // by which groups are put into order: name and values
	name   string
	tags   []answer.Tag
	tables [][]*table // by read
}

// grouper puts tables into groups.
type grouper struct {
	by     []string // names of tags, sorted
	reads  int
	groups map[string]*group
	key    []byte
}

func newGrouper(by []string, reads int) *grouper {
	return &grouper{by: by, reads: reads, groups: map[string]*group{}}
}

func (g *grouper) add(read int, t *table) {
	g.key = append(append(g.key[:0], t.name...), 0)
	for _, name := range g.by {
		g.key = append(append(g.key, t.tagValue(name)...), 0)
	}
	of := g.groups[string(g.key)]
	if of == nil {
		of = &group{key: string(g.key), name: t.name, tags: make([]answer.Tag, len(g.by)), tables: make([][]*table, g.reads)}
		for i, name := range g.by {
			of.tags[i] = answer.Tag{Key: name, Value: t.tagValue(name)}
		}
		g.groups[of.key] = of
	}
	of.tables[read] = append(of.tables[read], t)
}

// sorted returns the groups by name and tags.
func (g *grouper) sorted() []*group {
	all := make([]*group, 0, len(g.groups))
	for _, of := range g.groups {
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b *group) int { return strings.Compare(a.key, b.key) })
	return all
}

// cut applies SLIMIT and SOFFSET: they count the groups of each measurement, in the order
// of InfluxDB's index, where the names of the tags that a group has come before the values.
func cut(groups []*group, limit, offset int) []*group {
	if limit <= 0 && offset <= 0 {
		return groups
	}
	order := slices.Clone(groups)
	slices.SortStableFunc(order, func(a, b *group) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.indexKey(), b.indexKey()))
	})
	kept := make(map[*group]bool, len(order))
	n := 0
	for i, g := range order {
		if i > 0 && g.name != order[i-1].name {
			n = 0
		}
		kept[g] = n >= offset && (limit <= 0 || n < offset+limit)
		n++
	}
	return slices.DeleteFunc(slices.Clone(groups), func(g *group) bool { return !kept[g] })
}

// indexKey returns names and values of the tags that are there.
func (g *group) indexKey() string {
	var names, values []string
	for _, t := range g.tags {
		if t.Value != "" {
			names, values = append(names, t.Key), append(values, t.Value)
		}
	}
	return strings.Join(append(names, values...), "|")
}

// placeOf returns the place of a variable among inputs.
func placeOf(inputs []ql.VarRef, name string) int {
	return slices.IndexFunc(inputs, func(ref ql.VarRef) bool { return ref.Val == name })
}
