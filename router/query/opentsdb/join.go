package opentsdb

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// table is the results of a metric or an expression, as a variable of other expressions.
type table struct {
	lines   []line
	fill    float64  // value where a line has no point, or NaN
	queried []string // names of the tags that the filters are about
}

// joinRule says which lines of different variables belong together (Join.java).
type joinRule struct {
	intersection bool // of lines that all variables have; otherwise of those that one has
	queryTags    bool // compare only tags that filters are about
	aggregated   bool // compare the names of aggregated tags too
}

// joinedLine is lines of several variables that belong together.
type joinedLine struct {
	parts [][]byte // what they have in common, to be sorted by
	at    []int    // by variable: its line, or -1
}

// joinedBytes is what a joinedLine takes, beside its parts and its place for each
// variable: in a list, as a key of a map, and as lines of lists.
const joinedBytes = 256 + lineBytes

// join finds the lines that belong together (UnionIterator, IntersectionIterator). What it
// makes is charged to the query.
func join(entry *ledger.Entry, names []string, tables []*table, rule joinRule) ([]joinedLine, error) {
	var found []joinedLine
	places := map[string]int{}
	for v, t := range tables {
		for i := range t.lines {
			parts, key := rule.key(&t.lines[i], t.queried)
			at, ok := places[key]
			if !ok {
				at = len(found)
				places[key] = at
				found = append(found, joinedLine{parts: parts, at: slices.Repeat([]int{-1}, len(tables))})
				if err := entry.Take(int64(joinedBytes + len(key) + 24*len(parts) + 8*len(tables))); err != nil {
					return nil, err
				}
			}
			if found[at].at[v] >= 0 {
				return nil, invalid("Several series of %s would be joined as one: group by more tags, or leave out useQueryTags", names[v])
			}
			found[at].at[v] = i
		}
	}
	if rule.intersection && len(found) > 0 {
		found = slices.DeleteFunc(found, func(j joinedLine) bool { return slices.Contains(j.at, -1) })
		if len(found) == 0 {
			return nil, invalid("No intersections found of %s", strings.Join(names, ", "))
		}
	}
	slices.SortFunc(found, func(a, b joinedLine) int { return slices.CompareFunc(a.parts, b.parts, bytes.Compare) })
	return found, nil
}

// key gives what lines that belong together have in common. Lines without tags all do,
// whatever was aggregated, as in OpenTSDB's flattenTags.
func (r joinRule) key(l *line, queried []string) (parts [][]byte, key string) {
	if len(l.tags) == 0 {
		return nil, ""
	}
	for _, t := range l.tags {
		if r.queryTags && !slices.Contains(queried, string(t.Name)) {
			continue
		}
		parts = append(parts, t.Name, t.Value)
	}
	parts = append(parts, nil) // a tag has a name
	if r.aggregated {
		parts = append(parts, l.aggregated...)
	}
	var text []byte
	for _, p := range parts {
		text = series.AppendPart(text, p)
	}
	return parts, string(text)
}

// evaluate joins the tables of a formula's variables and computes it for each line that
// comes of it, at each time at which one of the joined lines has a point.
func (f *formula) evaluate(ctx context.Context, tables []*table, rule joinRule) ([]line, error) {
	entry := ledger.Of(ctx)
	joined, err := join(entry, f.variables, tables, rule)
	if err != nil {
		return nil, err
	}
	var members []line
	for _, j := range joined {
		for v, at := range j.at {
			if at >= 0 {
				members = append(members, tables[v].lines[at])
			}
		}
	}
	times, err := timesOf(ctx, members)
	if err != nil {
		return nil, err
	}
	if err := entry.Take(f.bytes()); err != nil {
		return nil, err
	}
	defer entry.Give(f.bytes())
	e := newEvaluation(f)
	lines := make([]line, len(joined))
	for i, j := range joined {
		if err := entry.Take(int64(8*len(times)) + lineBytes + groupBytes); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lines[i] = nameJoined(j, tables)
		lines[i].times, lines[i].values = times, make([]float64, 0, len(times))
		cursors := make([]int, len(tables))
		for from := 0; from < len(times); from += formulaBlock {
			block := times[from:min(from+formulaBlock, len(times))]
			for v, t := range tables {
				var of *line
				if j.at[v] >= 0 {
					of = &t.lines[j.at[v]]
				}
				cursors[v] = of.valuesAt(block, cursors[v], t.fill, e.variables[v])
				for i, value := range e.variables[v][:len(block)] {
					if value != value {
						e.variables[v][i] = t.fill
					}
				}
			}
			lines[i].values = append(lines[i].values, e.compute(len(block))...)
		}
	}
	return lines, nil
}

// valuesAt writes a line's values at some times, and fill where it has no point. A nil line
// has none anywhere. It gives the cursor for the times that follow.
func (l *line) valuesAt(times []int64, cursor int, fill float64, to []float64) int {
	for i, t := range times {
		to[i] = fill
		if l == nil {
			continue
		}
		for cursor < len(l.times) && l.times[cursor] < t {
			cursor++
		}
		if cursor < len(l.times) && l.times[cursor] == t {
			to[i] = l.values[cursor]
		}
	}
	return cursor
}

// nameJoined gives a line without points: the tags that all its lines have in common, and
// all metrics and aggregated tags.
func nameJoined(j joinedLine, tables []*table) line {
	var l line
	first := true
	for v, at := range j.at {
		if at < 0 {
			continue
		}
		of := &tables[v].lines[at]
		if first {
			l.tags, l.alias, l.sub, first = of.tags, of.name(), of.sub, false
		} else {
			l.tags = commonTags(l.tags, of.tags)
		}
		l.metrics = unionOf(l.metrics, of.metrics)
		for _, name := range of.aggregated {
			if at, ok := slices.BinarySearchFunc(l.aggregated, name, bytes.Compare); !ok {
				l.aggregated = slices.Insert(slices.Clone(l.aggregated), at, name)
			}
		}
	}
	return l
}
