package load

import (
	"cmp"
	"math"
	"slices"
	"strings"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
)

// Table is what a SELECT reads of one set of tags: of a measurement the fields joined by
// time, of a subquery its rows.
type Table struct {
	Name    string
	Tags    []answer.Tag // by key; of a subquery what it is grouped by
	order   string       // its tags as one text, by which tables are put into order; empty: it has none
	Times   []int64
	Columns []Column // one for each of the selection's inputs
	Windows *Windows // of a read of windows, which has no rows
}

// Column is one field or tag of a table.
type Column struct {
	Kind     answer.Kind
	Numbers  []float64      // NaN is null
	Values   []answer.Value // of rows that are not numbers
	Constant *answer.Value  // the same in all rows: a tag
}

// At returns the value of a row.
func (c *Column) At(row int) answer.Value {
	switch {
	case c.Constant != nil:
		return *c.Constant
	case c.Values != nil:
		return c.Values[row]
	case c.Numbers != nil:
		return answer.Number(c.Numbers[row], c.Kind)
	}
	return answer.Value{}
}

// Number returns the number of a row; NaN: it has none.
func (c *Column) Number(row int) float64 {
	if c.Numbers != nil {
		return c.Numbers[row]
	}
	if v := c.At(row); v.IsNumber() {
		return v.Number
	}
	return math.NaN()
}

// IsNull reports whether a row has no value.
func (c *Column) IsNull(row int) bool {
	if c.Numbers != nil {
		v := c.Numbers[row]
		return v != v
	}
	return c.At(row).Kind == answer.KindNull
}

// TagValue returns the value of a tag; a tag that is not there is the empty string.
func (t *Table) TagValue(key string) string {
	for i := range t.Tags {
		if t.Tags[i].Key == key {
			return t.Tags[i].Value
		}
	}
	return ""
}

// Bytes is about what a table holds.
func (t *Table) Bytes() int64 {
	n := int64(200 + 8*cap(t.Times) + 64*len(t.Tags))
	for i := range t.Columns {
		n += int64(96 + 8*cap(t.Columns[i].Numbers) + 48*cap(t.Columns[i].Values))
	}
	return n
}

// CompareTables puts tables into the order of their names and tags.
func CompareTables(a, b *Table) int {
	if c := cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.order, b.order)); c != 0 {
		return c
	}
	return slices.CompareFunc(a.Tags, b.Tags, func(x, y answer.Tag) int {
		return cmp.Or(strings.Compare(x.Key, y.Key), strings.Compare(x.Value, y.Value))
	})
}

// Group is the tables that one series of the answer is made from.
type Group struct {
	key    string // by which groups are put into order: name and values
	Name   string
	Tags   []answer.Tag
	Tables [][]*Table // by read
}

// Grouper puts tables into groups.
type Grouper struct {
	by     []string // names of tags, sorted
	reads  int
	groups map[string]*Group
	key    []byte
}

// NewGrouper returns one that groups the tables of so many reads by some tags.
func NewGrouper(by []string, reads int) *Grouper {
	return &Grouper{by: by, reads: reads, groups: map[string]*Group{}}
}

// Add puts a table of a read to its group.
func (g *Grouper) Add(read int, t *Table) {
	g.key = append(append(g.key[:0], t.Name...), 0)
	for _, name := range g.by {
		g.key = append(append(g.key, t.TagValue(name)...), 0)
	}
	of := g.groups[string(g.key)]
	if of == nil {
		of = &Group{key: string(g.key), Name: t.Name, Tags: make([]answer.Tag, len(g.by)), Tables: make([][]*Table, g.reads)}
		for i, name := range g.by {
			of.Tags[i] = answer.Tag{Key: name, Value: t.TagValue(name)}
		}
		g.groups[of.key] = of
	}
	of.Tables[read] = append(of.Tables[read], t)
}

// Sorted returns the groups by name and tags.
func (g *Grouper) Sorted() []*Group {
	all := make([]*Group, 0, len(g.groups))
	for _, of := range g.groups {
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b *Group) int { return strings.Compare(a.key, b.key) })
	return all
}

// Cut applies SLIMIT and SOFFSET: they count the groups of each measurement, in the order
// of InfluxDB's index, where the names of the tags that a group has come before the values.
func Cut(groups []*Group, limit, offset int) []*Group {
	if limit <= 0 && offset <= 0 {
		return groups
	}
	order := slices.Clone(groups)
	slices.SortStableFunc(order, func(a, b *Group) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.indexKey(), b.indexKey()))
	})
	kept := make(map[*Group]bool, len(order))
	n := 0
	for i, g := range order {
		if i > 0 && g.Name != order[i-1].Name {
			n = 0
		}
		kept[g] = n >= offset && (limit <= 0 || n < offset+limit)
		n++
	}
	return slices.DeleteFunc(slices.Clone(groups), func(g *Group) bool { return !kept[g] })
}

// indexKey returns names and values of the tags that are there.
func (g *Group) indexKey() string {
	var names, values []string
	for _, t := range g.Tags {
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
