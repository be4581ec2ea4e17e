package promql

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/slab"
)

// An aggregation whose result does not depend on the order of series is done where these are
// stored: a row comes of each group and shard, instead of all series. That is count, group, min
// and max, and sum and avg, as sums are exact until they are rounded once (package exactsum).

// foldOf returns what stands for an aggregation in a request; nil: the source cannot do it.
func foldOf(a *parser.AggregateExpr, ranged *rangedCall) *scan.Fold {
	f := &scan.Fold{Without: a.Without}
	switch a.Op {
	case parser.COUNT:
		f.Kind = scan.FoldCount
	case parser.GROUP:
		f.Kind = scan.FoldGroup
	case parser.MIN:
		f.Kind = scan.FoldMin
	case parser.MAX:
		f.Kind = scan.FoldMax
	case parser.SUM, parser.AVG:
		f.Kind = scan.FoldSum
	default:
		return nil
	}
	f.Names = slices.Compact(slices.Sorted(slices.Values(a.Grouping)))
	if ranged != nil && !ranged.keepsName() {
		f.Names = slices.DeleteFunc(f.Names, func(name string) bool { return name == nameLabel })
	}
	if len(f.Names) > scan.FoldNamesMax {
		return nil
	}
	return f
}

func (d *directQuery) offsetMs() int64 { return d.selector.OriginalOffset.Milliseconds() }

// folded evaluates an aggregation by rows of groups. Not ok: series have to be read.
func (d *directQuery) folded(ctx context.Context, reader *querier, g grid) (matrix promql.Matrix, notes annotations.Annotations, ok bool, err error) {
	if _, several := reader.source.(*tenants); several || d.aggregate == nil {
		return nil, nil, false, nil
	}
	fold := foldOf(d.aggregate, d.ranged)
	if fold == nil {
		return nil, nil, false, nil
	}
	function, matchers, offsetMs := scan.StepNewest, d.selector.LabelMatchers, d.offsetMs()
	if d.ranged != nil {
		g, function, matchers, offsetMs = d.ranged.grid, d.ranged.function, d.ranged.vector.LabelMatchers, d.ranged.offsetMs
	}
	request, some := g.request(function)
	if some {
		request.Fold, request.DeduplicateMs = fold, reader.deduplicateMs
	}
	if !some || request.Check() != nil {
		return nil, nil, !some, nil //nolint:nilerr // what no node takes is read series by series
	}
	selectors, err := selectorsOf(ctx, reader.source, reader.database, matchers)
	if err != nil {
		return nil, nil, false, expanding(err)
	}
	if len(selectors) == 0 {
		return nil, nil, true, nil
	}
	r := reading{source: reader.source, entry: admission.Of(ctx), selectors: selectors, parallel: max(1, reader.parallel), steps: request}
	r.fromMs, r.toMs = rangeOf(request)
	rows, ok, err := r.fold(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, nil, false, expanding(err)
	}
	if !ok {
		return nil, nil, false, nil
	}
	if d.ranged != nil && rows.Len() > 0 {
		notes = d.ranged.notes()
	}
	if rows.Len() > 0 && reader.readsBeforeRaw(&r, nil) {
		notes = notes.Add(errBeforeRaw)
	}
	matrix, err = matrixOfRows(r.entry, rows, d.aggregate.Op, offsetMs, d.samplesMax)
	return matrix, notes, true, err
}

// foldReading is what several scans fold.
type foldReading struct {
	*reading
	alone           atomic.Bool // a series came by itself
	series, samples atomic.Int64
	bytes           atomic.Int64
}

// fold returns the rows of the selection. Not ok: series have to be read, as one came by itself (others
// may have the same labels, which only shows when all are named), or as there are too many groups.
func (r *reading) fold(ctx context.Context) (rows *steps.Folder, ok bool, err error) {
	f := &foldReading{reading: r}
	folders := make([]*steps.Folder, len(r.selectors))
	if len(r.selectors) == 1 {
		folders = make([]*steps.Folder, r.parallel)
	}
	if len(r.selectors) == 1 {
		err = f.scan(ctx, &r.selectors[0], folders)
	} else {
		err = inParallel(ctx, r.parallel, len(r.selectors), func(ctx context.Context, i int) error {
			return f.scan(ctx, &r.selectors[i], folders[i:][:1])
		})
	}
	var limit *scan.LimitError
	tooMany := errors.As(err, &limit) && limit.What == "bytes" // groups at once; series need not wait for others
	if err != nil && !tooMany {
		return nil, false, err
	}
	if tooMany || f.alone.Load() {
		r.entry.Uncount(f.series.Load(), f.samples.Load())
		r.entry.Give(f.bytes.Load())
		return nil, false, nil
	}
	rows = folders[0]
	for _, other := range folders[1:] {
		before := rows.Bytes() + other.Bytes()
		err := other.Visit(series.Ref{}, func(row *scan.Chunk) error {
			rows.AddRow(row)
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		if grown := rows.Bytes() - before; grown < 0 {
			r.entry.Give(int64(-grown))
		}
	}
	return rows, true, nil
}

// scan folds what matches one selector, with a folder for each worker.
func (f *foldReading) scan(ctx context.Context, selector *scan.Selector, folders []*steps.Folder) error {
	for i := range folders {
		folders[i] = steps.NewFolder(f.steps)
	}
	request := &scan.Request{
		Selector: *selector, FromMs: f.fromMs, ToMs: f.toMs, Steps: f.steps, Parallel: len(folders),
		SamplesRead: func(samples int64) error {
			f.samples.Add(samples)
			return nil
		},
	}
	err := f.source.Scan(ctx, request, func(worker int, chunk *scan.Chunk) error {
		f.series.Add(max(1, chunk.Series))
		if chunk.Series == 0 {
			f.alone.Store(true)
		}
		if f.alone.Load() {
			return scan.ErrStopped
		}
		before := folders[worker].Bytes()
		folders[worker].AddRow(chunk)
		grown := int64(folders[worker].Bytes() - before)
		err := f.entry.Take(grown)
		if err == nil {
			f.bytes.Add(grown)
		}
		return err
	})
	if err != nil {
		return fromSource(err)
	}
	return nil
}

// matrixOfRows returns groups.
func matrixOfRows(entry *admission.Entry, rows *steps.Folder, op parser.ItemType, offsetMs int64, samplesMax int) (promql.Matrix, error) {
	const groupBytes, pointBytes = 96, 16
	matrix := make(promql.Matrix, 0, rows.Len())
	var kept slab.Slab[promql.FPoint]
	var names naming
	total := 0
	err := rows.Visit(series.Ref{}, func(row *scan.Chunk) error {
		named, err := names.groupLabels(row.Key)
		if err != nil {
			return err
		}
		points, grown := kept.Take(len(row.Times))
		if err := entry.Take(int64(groupBytes + named.ByteSize() + uint64(pointBytes*grown))); err != nil {
			return err
		}
		if total += len(points); total > samplesMax {
			return promql.ErrTooManySamples("query execution")
		}
		for i, t := range row.Times {
			points[i] = promql.FPoint{T: t + offsetMs, F: rowValue(row, op, i)}
		}
		matrix = append(matrix, promql.Series{Metric: named, Floats: points})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return matrix, nil
}

// rowValue returns what an aggregation has of a group at one of its times.
func rowValue(row *scan.Chunk, op parser.ItemType, at int) float64 {
	switch op {
	case parser.COUNT:
		return float64(row.Count[at])
	case parser.MIN, parser.MAX:
		return row.Values[at]
	case parser.SUM:
		return sumOf(&row.Sums[at])
	case parser.AVG:
		return meanOf(&row.Sums[at], row.Count[at])
	}
	return 1
}

// groupLabels returns the labels of a group: those of its key, which has no metric if the group
// has none.
func (n *naming) groupLabels(key series.Key) (labels.Labels, error) {
	_, metric, tags, err := key.Parts(n.tags[:0])
	n.tags = tags
	if err != nil {
		return labels.EmptyLabels(), err
	}
	n.builder.Reset()
	n.builder.SetUnsafeAdd(true)
	if len(metric) > 0 {
		n.builder.Add(nameLabel, lent(metric))
	}
	for _, tag := range tags {
		n.builder.Add(lent(tag.Name), lent(tag.Value))
	}
	n.builder.Sort()
	return n.builder.Labels(), nil
}
