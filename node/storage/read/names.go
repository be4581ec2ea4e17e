package read

import (
	"context"
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
)

// Series implements scan.Source.
func (s *Source) Series(ctx context.Context, selector *scan.Selector, limit int, visit func(series.Key) error) (total int64, err error) {
	return s.SeriesBetween(ctx, selector, scan.TimeMsMin, scan.TimeMsMax, limit, visit)
}

// SeriesBetween is Series of scan.Dated's Between.
func (s *Source) SeriesBetween(ctx context.Context, selector *scan.Selector, fromMs, toMs int64, limit int, visit func(series.Key) error) (total int64, err error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	list := s.takeLocals()
	found, err := s.o.Index.Select(ctx, s.hosted(selector), index.DaysOf(fromMs, toMs), 0, *list)
	defer func() { s.keepLocals(list, found) }()
	if err != nil {
		return 0, err
	}
	locals := found
	total = int64(len(locals))
	if limit > 0 && len(locals) > limit {
		locals = locals[:limit]
	}
	var key []byte
	share := processor.Of(ctx)
	for i, local := range locals {
		if i&(1<<8-1) == 0 {
			share.Pace()
		}
		k, err := s.o.Index.Key(local, key[:0])
		if errors.Is(err, index.ErrForgotten) { // meanwhile
			total--
			continue
		}
		if err != nil {
			return total, err
		}
		key = k
		if err := visit(k); err != nil {
			if err == scan.ErrStopped { //nolint:errorlint // the visitor's own value
				return total, nil
			}
			return total, err
		}
	}
	return total, nil
}

// Names lists names that series of some shards carry.
type Names struct {
	source       *Source
	shards       []uint16 // nil: all that have a replica here
	fromMs, toMs int64    // see scan.Dated
}

// NamesOf returns the names of the series of some shards. Of a shard whose replica was
// dropped there are none.
func (s *Source) NamesOf(shards []uint16) Names {
	return Names{s, shards, scan.TimeMsMin, scan.TimeMsMax}
}

// Between returns the names of series with samples in a range of time, as described at scan.Dated; those
// of databases are all the same.
func (n Names) Between(fromMs, toMs int64) Names {
	n.fromMs, n.toMs = fromMs, toMs
	return n
}

// list lists names while the index is open.
func (n Names) list(ctx context.Context, do func(ctx context.Context, names index.Names) ([]string, error)) ([]string, error) {
	ctx, leave, err := n.source.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return do(ctx, n.source.o.Index.NamesOf(n.source.hosted(&scan.Selector{Shards: n.shards}).Shards).On(index.DaysOf(n.fromMs, n.toMs)))
}

// Databases returns the sorted names of databases.
func (n Names) Databases(ctx context.Context) ([]string, error) {
	return n.list(ctx, func(ctx context.Context, names index.Names) ([]string, error) { return names.Databases(ctx) })
}

// Metrics returns sorted metrics, as described at scan.Source.
func (n Names) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return n.list(ctx, func(ctx context.Context, names index.Names) ([]string, error) {
		return names.Metrics(ctx, database, prefix, limit)
	})
}

// TagNames returns sorted names of tags, as described at scan.Source.
func (n Names) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return n.list(ctx, func(ctx context.Context, names index.Names) ([]string, error) {
		return names.TagNames(ctx, database, metric, prefix, limit)
	})
}

// TagValues returns sorted values of a tag, as described at scan.Source. An empty name means the
// values of all tags.
func (n Names) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return n.list(ctx, func(ctx context.Context, names index.Names) ([]string, error) {
		if name != "" {
			return names.TagValues(ctx, database, metric, name, prefix, limit)
		}
		return valuesOfAllTags(ctx, names, database, metric, prefix, limit)
	})
}

func valuesOfAllTags(ctx context.Context, of index.Names, database, metric, prefix string, limit int) ([]string, error) {
	names, err := of.TagNames(ctx, database, metric, "", 0)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		values, err := of.TagValues(ctx, database, metric, name, prefix, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, values...)
		slices.Sort(all)
		all = slices.Compact(all)
		if limit > 0 && len(all) > limit {
			all = all[:limit]
		}
	}
	return all, nil
}

// Databases implements scan.Source.
func (s *Source) Databases(ctx context.Context) ([]string, error) {
	return s.NamesOf(nil).Databases(ctx)
}

// Metrics implements scan.Source.
func (s *Source) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return s.NamesOf(nil).Metrics(ctx, database, prefix, limit)
}

// TagNames implements scan.Source.
func (s *Source) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return s.NamesOf(nil).TagNames(ctx, database, metric, prefix, limit)
}

// TagValues implements scan.Source. An empty name means the values of all tags.
func (s *Source) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return s.NamesOf(nil).TagValues(ctx, database, metric, name, prefix, limit)
}

// SelectIDs returns, by shard, the sorted ids of the series that match.
func (s *Source) SelectIDs(ctx context.Context, selector *scan.Selector) (byShard [][]uint32, total int64, err error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	refs, err := s.selectRefs(ctx, selector, scan.TimeMsMin, scan.TimeMsMax, scan.Limits{})
	if err != nil {
		return nil, 0, err
	}
	byShard = make([][]uint32, len(s.o.Shards))
	for _, ref := range refs {
		byShard[ref.Shard] = append(byShard[ref.Shard], uint32(ref.ID))
	}
	return byShard, int64(len(refs)), nil
}

// LookupSeries finds a series by its key. It must not be called after Close.
func (s *Source) LookupSeries(key series.Key) (ref series.Ref, known bool, err error) {
	return s.o.Index.Lookup(key)
}

// Resolve finds series by their keys and sets refs, which is as long as keys; the
// Ref of a key that is not known has HintNone. It tries first the series that was
// created after hint, or after the key before. A key whose part of the table
// cannot be read counts as unknown: defining it again is harmless.
// It must not be called after Close: writers end first.
func (s *Source) Resolve(hint uint32, keys []series.Key, refs []series.Ref) {
	err := s.o.Index.Guard(func() error {
		s.o.Index.ResolveBatch(hint, keys, refs)
		return nil
	})
	if err == nil {
		return
	}
	// One by one, so that only what cannot be read is unknown.
	for i, key := range keys {
		ref, known, err := s.o.Index.Lookup(key)
		if !known || err != nil {
			ref = series.Ref{Hint: series.HintNone}
		}
		refs[i] = ref
	}
}

// SeriesCount returns the number of series that were ever created.
func (s *Source) SeriesCount() int64 { return int64(s.o.Index.Len()) }

// SeriesKnown returns how many of them are not forgotten.
func (s *Source) SeriesKnown() int64 { return s.o.Index.Known() }

// Count returns the number of series of a database that have samples.
func (n Names) Count(ctx context.Context, database string) (int64, error) {
	ctx, leave, err := n.source.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	return n.source.o.Index.NamesOf(n.source.hosted(&scan.Selector{Shards: n.shards}).Shards).Count(ctx, database)
}
