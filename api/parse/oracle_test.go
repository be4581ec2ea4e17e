package parse

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// result is what a body means, in the plainest form: what the parsers under test
// and the slow reference parsers of these tests must agree on.
type result struct {
	points   []resultPoint
	errors   []int // numbers of the lines that have an error, in order
	commands []string
	strings  int // skipped string fields
}

type resultPoint struct {
	number int    // of the line
	series string // canonical key
	timeMs int64
	bits   uint64 // of the float64
}

// resultOf builds the keys of all lines of a batch, as package split does for
// lines that it does not know, and collects everything.
func resultOf(b *Batch, database string, limits Limits) result {
	var r result
	var keys KeyBuilder
	for i := range b.Lines {
		l := &b.Lines[i]
		if err := keys.Start(b, l, []byte(database), limits); err != nil {
			r.errors = append(r.errors, int(l.Number))
			continue
		}
		failed := false
		for j := l.First; j < l.First+l.Count; j++ {
			p := &b.Points[j]
			key, err := keys.Key(b.Field(p), p.FieldEscaped)
			if err != nil {
				failed = true
				continue
			}
			bits := math.Float64bits(series.Float64(p.Mantissa, p.Scale))
			r.points = append(r.points, resultPoint{int(l.Number), string(key), p.TimeMs, bits})
		}
		if failed {
			r.errors = append(r.errors, int(l.Number))
		}
	}
	for i := range b.Errors {
		r.errors = append(r.errors, b.Errors[i].Number)
	}
	slices.Sort(r.errors)
	for _, c := range b.Commands {
		r.commands = append(r.commands, string(b.Body[c.Text.Start:c.Text.End]))
	}
	r.strings = b.SkippedStrings
	return r
}

// keyOf builds a canonical key the slow way.
func keyOf(database, metric string, tags map[string]string) string {
	names := []string{}
	for name := range tags {
		names = append(names, name)
	}
	slices.Sort(names)
	var all []series.Tag
	for _, name := range names {
		all = append(all, series.Tag{Name: []byte(name), Value: []byte(tags[name])})
	}
	return string(series.AppendKey(nil, []byte(database), []byte(metric), all))
}

// difference returns where two results differ; it is empty when they do not.
func difference(got, want result) string {
	switch {
	case !slices.Equal(got.errors, want.errors):
		return fmt.Sprintf("lines with errors %v, want %v", got.errors, want.errors)
	case !slices.Equal(got.commands, want.commands):
		return fmt.Sprintf("commands %q, want %q", got.commands, want.commands)
	case got.strings != want.strings:
		return fmt.Sprintf("%d strings skipped, want %d", got.strings, want.strings)
	case len(got.points) != len(want.points):
		return fmt.Sprintf("%d points, want %d", len(got.points), len(want.points))
	}
	for i := range got.points {
		if got.points[i].timeMs < scan.TimeMsMin || got.points[i].timeMs > scan.TimeMsMax {
			return fmt.Sprintf("point %d is of %d ms, which no query reaches", i, got.points[i].timeMs)
		}
		if got.points[i] != want.points[i] {
			return fmt.Sprintf("point %d is %v, want %v", i, got.points[i], want.points[i])
		}
	}
	return ""
}

// withRoom copies a body into memory that has room for the fast paths' reads
// behind its end, filled with what would change the last number or name if it
// were taken for input.
func withRoom(body string) []byte {
	b := append([]byte(body), strings.Repeat("1", 64)...)
	return b[:len(body)]
}

// exact copies a body into memory that ends where the body ends.
func exact(body string) []byte { return append(make([]byte, 0, len(body)), body...) }
