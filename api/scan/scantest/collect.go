package scantest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/exactsum"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// ErrChunk marks a chunk that breaks the rules of scan.Chunk.
var ErrChunk = errors.New("broken chunk")

// Collect runs a scan and returns one chunk per series, or one row per group, by key. It checks what
// scan.Chunk and scan.Visitor promise and returns ErrChunk when one is broken.
func Collect(ctx context.Context, source scan.Source, request *scan.Request) (map[string]*scan.Chunk, error) {
	c := collector{request: request, all: map[string]*scan.Chunk{}, rows: map[string]*scan.Chunk{}, owner: map[string]int{},
		open: make([]string, max(1, request.Parallel)), busy: make([]bool, max(1, request.Parallel))}
	if err := source.Scan(ctx, request, c.visit); err != nil {
		return nil, err
	}
	for key, row := range c.rows {
		if c.all[key] != nil { // of a series by itself
			key = "row of " + key
		}
		c.all[key] = row
	}
	return c.all, nil
}

type collector struct {
	request *scan.Request

	mu    sync.Mutex
	all   map[string]*scan.Chunk
	rows  map[string]*scan.Chunk // of groups
	owner map[string]int         // which worker visits a series
	open  []string               // the series that a worker is at
	busy  []bool                 // a worker is inside visit
}

func (c *collector) visit(worker int, chunk *scan.Chunk) error {
	if err := c.enter(worker, chunk); err != nil {
		return err
	}
	err := c.add(worker, chunk)
	c.mu.Lock()
	c.busy[worker] = false
	c.mu.Unlock()
	return err
}

func (c *collector) enter(worker int, chunk *scan.Chunk) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if worker < 0 || worker >= len(c.busy) {
		return fmt.Errorf("%w: worker %d of %d", ErrChunk, worker, len(c.busy))
	}
	if c.busy[worker] {
		return fmt.Errorf("%w: worker %d visits twice at once", ErrChunk, worker)
	}
	c.busy[worker] = true
	return checkColumns(chunk, c.request)
}

func (c *collector) add(worker int, chunk *scan.Chunk) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := string(chunk.Key)
	if chunk.Series > 0 {
		c.rows[key] = addRow(c.rows[key], chunk, c.request.Steps.Fold.Kind)
		return nil
	}
	have, seen := c.all[key]
	if !seen {
		have = &scan.Chunk{Key: slices.Clone(chunk.Key)}
		c.all[key] = have
		c.owner[key] = worker
	} else if c.owner[key] != worker || c.open[worker] != key {
		return fmt.Errorf("%w: %v is visited by two workers or comes back after another series", ErrChunk, chunk.Key)
	}
	c.open[worker] = key
	if n := len(have.Times); n > 0 && have.Times[n-1] >= chunk.Times[0] {
		return fmt.Errorf("%w: %v: %d does not come after %d", ErrChunk, chunk.Key, chunk.Times[0], have.Times[n-1])
	}
	have.Times = append(have.Times, chunk.Times...)
	have.Values = append(have.Values, chunk.Values...)
	have.Sum = append(have.Sum, chunk.Sum...)
	have.Min = append(have.Min, chunk.Min...)
	have.Max = append(have.Max, chunk.Max...)
	have.First = append(have.First, chunk.First...)
	have.Last = append(have.Last, chunk.Last...)
	have.Count = append(have.Count, chunk.Count...)
	have.Digest = append(have.Digest, chunk.Digest...)
	return nil
}

// checkColumns checks one chunk by itself.
func checkColumns(c *scan.Chunk, r *scan.Request) error {
	if _, _, _, err := c.Key.Parts([]series.Tag(nil)); err != nil {
		return fmt.Errorf("%w: %w", ErrChunk, err)
	}
	if len(c.Times) == 0 {
		return fmt.Errorf("%w: %v: no times", ErrChunk, c.Key)
	}
	for i := range c.Times {
		if i > 0 && c.Times[i] <= c.Times[i-1] {
			return fmt.Errorf("%w: %v: %d does not come after %d", ErrChunk, c.Key, c.Times[i], c.Times[i-1])
		}
	}
	if r.Steps != nil && r.Steps.Function != scan.StepNewest || c.Series > 0 {
		return checkSteps(c, r.Steps)
	}
	if r.Windows == nil {
		if len(c.Values) != len(c.Times) {
			return fmt.Errorf("%w: %v: %d values for %d times", ErrChunk, c.Key, len(c.Values), len(c.Times))
		}
		if c.Times[0] < r.FromMs || c.Times[len(c.Times)-1] > r.ToMs {
			return fmt.Errorf("%w: %v: times %d to %d outside the range", ErrChunk, c.Key, c.Times[0], c.Times[len(c.Times)-1])
		}
		return nil
	}
	return checkWindows(c, r.Windows)
}

func checkWindows(c *scan.Chunk, w *scan.Windows) error {
	for _, t := range c.Times {
		if WindowStart(t, w) != t {
			return fmt.Errorf("%w: %v: no window starts at %d", ErrChunk, c.Key, t)
		}
	}
	for _, column := range []struct {
		name   string
		wanted scan.Aggregate
		length int
	}{
		{"sum", scan.AggregateSum, len(c.Sum)}, {"count", scan.AggregateCount, len(c.Count)},
		{"min", scan.AggregateMin, len(c.Min)}, {"max", scan.AggregateMax, len(c.Max)},
		{"first", scan.AggregateFirst, len(c.First)}, {"last", scan.AggregateLast, len(c.Last)},
		{"digest", scan.AggregateDigest, len(c.Digest)},
	} {
		if w.Aggregates&column.wanted != 0 && column.length != len(c.Times) {
			return fmt.Errorf("%w: %v: %d values of %s for %d windows", ErrChunk, c.Key, column.length, column.name, len(c.Times))
		}
	}
	return nil
}

func checkSteps(c *scan.Chunk, s *scan.Steps) error {
	for _, t := range c.Times {
		if t < s.FirstMs || t > s.LastMs || (t-s.FirstMs)%s.StepMs != 0 {
			return fmt.Errorf("%w: %v: no step is at %d", ErrChunk, c.Key, t)
		}
	}
	values, counts, sums := len(c.Times), 0, 0
	if c.Series > 0 {
		switch s.Fold.Kind {
		case scan.FoldCount:
			values, counts = 0, len(c.Times)
		case scan.FoldSum:
			values, counts, sums = 0, len(c.Times), len(c.Times)
		case scan.FoldGroup:
			values = 0
		case scan.FoldMin, scan.FoldMax:
		}
	}
	if len(c.Values) != values || len(c.Count) != counts || len(c.Sums) != sums {
		return fmt.Errorf("%w: %v: %d values, %d counts and %d sums of a row of %d steps", ErrChunk, c.Key, len(c.Values), len(c.Count), len(c.Sums), len(c.Times))
	}
	return nil
}

// addRow puts two rows of a group together.
func addRow(have, row *scan.Chunk, kind scan.FoldKind) *scan.Chunk {
	if have == nil {
		have = &scan.Chunk{Key: slices.Clone(row.Key)}
	}
	both := &scan.Chunk{Key: have.Key, Series: have.Series + row.Series}
	both.Times = slices.Concat(have.Times, row.Times)
	slices.Sort(both.Times)
	both.Times = slices.Compact(both.Times)
	for _, at := range both.Times {
		var values []float64
		var count int64
		var sum exactsum.Sum
		for _, c := range []*scan.Chunk{have, row} {
			i, found := slices.BinarySearch(c.Times, at)
			switch {
			case !found:
			case kind == scan.FoldMin || kind == scan.FoldMax:
				values = append(values, c.Values[i])
			case kind == scan.FoldCount:
				count += c.Count[i]
			case kind == scan.FoldSum:
				count += c.Count[i]
				sum.Merge(&c.Sums[i])
			}
		}
		switch kind {
		case scan.FoldCount:
			both.Count = append(both.Count, count)
		case scan.FoldSum:
			both.Count, both.Sums = append(both.Count, count), append(both.Sums, sum)
		case scan.FoldMin, scan.FoldMax:
			g := folded{values: map[int64][]float64{at: values}}
			both.Values = append(both.Values, g.row(kind).Values...)
		case scan.FoldGroup:
		}
	}
	return both
}
