package index

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// nameList collects the names that active series carry. They come in runs, each
// in order, so that the first of each run are enough for the first of all.
type nameList struct {
	ctx    context.Context
	keys   *keyFile
	active view
	shards shardFilter
	prefix string
	limit  int // 0: all
	list   []string
	runs   []int // where runs begin in list
	text   []byte
	ends   []int // of the names of the current run, in text
	left   int   // names that the current run may still give; -1: all
	tried  int
	rule   fewRule
	few    []uint32 // scratch
	tags   []series.Tag
}

const (
	namesChecked = 1 << 10 // names between looks at the context
	namesHeld    = 1 << 16 // names held, at least, before doubles are removed
)

// Names lists names that series of some shards carry.
type Names struct {
	index  *Index
	shards []uint16 // nil: all
	days   Days
}

// NamesOf returns the names of the series of some shards; nil: of all.
func (x *Index) NamesOf(shards []uint16) Names {
	return Names{index: x, shards: shards, days: AllDays()}
}

// On returns the names of series that are active on one of days.
func (ns Names) On(days Days) Names {
	ns.days = days
	return ns
}

// read collects from parts, and returns what it has collected.
func (ns Names) read(ctx context.Context, prefix string, limit int, collect func(n *nameList, parts []*part)) (list []string, err error) {
	err = ns.index.parts.read(func(parts []*part) (err error) {
		n := ns.collection(ctx, prefix, limit)
		collect(n, parts)
		list, err = n.result()
		return err
	})
	return list, err
}

func (ns Names) collection(ctx context.Context, prefix string, limit int) *nameList {
	keys := ns.index.keys
	return &nameList{
		ctx: ctx, keys: keys, active: ns.index.activity.view(ns.days), shards: keys.inShards(ns.shards), prefix: prefix, limit: max(limit, 0), rule: ns.index.few,
	}
}

func (n *nameList) beginRun() {
	n.endRun()
	n.left = n.limit
	if n.limit == 0 {
		n.left = -1
	}
	if bound := max(namesHeld, 4*n.limit); len(n.list) >= bound && len(n.list) == cap(n.list) {
		n.merge()
	}
}

// endRun makes strings of the names of a run, which share their memory.
func (n *nameList) endRun() {
	if len(n.ends) == 0 {
		return
	}
	text, from := string(n.text), 0
	n.runs = append(n.runs, len(n.list))
	n.list = slices.Grow(n.list, len(n.ends))
	for _, end := range n.ends {
		n.list = append(n.list, text[from:end])
		from = end
	}
	n.text, n.ends = n.text[:0], n.ends[:0]
}

// add takes the next name of a run, and the series of part p that carry it. It
// returns false when the run need not go on.
func (n *nameList) add(name []byte, p *part, series posting) bool {
	if n.tried++; n.tried%namesChecked == 0 && n.ctx.Err() != nil {
		return false
	}
	if !strings.HasPrefix(string(name), n.prefix) {
		return string(name) < n.prefix
	}
	if !n.hasAny(p.lo, series) {
		return true
	}
	n.text = append(n.text, name...)
	n.ends = append(n.ends, len(n.text))
	n.left--
	return n.left != 0
}

// fromFew adds a run of the names that visit returns of the active series of a part, which have
// a database and, unless that is empty, a metric. It reports whether they were few enough:
// otherwise it has added nothing.
func (n *nameList) fromFew(p *part, database, metric string, visit func(metric []byte, tags []series.Tag, add func(name []byte))) (ok bool) {
	if n.few, ok = n.active.appendFew(n.few[:0], p.lo, p.hi, int(p.size())/n.rule.shareOfPart); !ok {
		return false
	}
	var names []string
	add := func(name []byte) {
		if strings.HasPrefix(string(name), n.prefix) {
			names = append(names, string(name))
		}
	}
	err := vfs.Guard(func() error {
		for _, rel := range n.few {
			local := p.lo + rel
			if !n.shards.has(local) {
				continue
			}
			record, err := n.keys.intact(local)
			if errors.Is(err, ErrUnknown) {
				continue // it is lost: no part has it
			}
			if err != nil {
				return err
			}
			ofDatabase, ofMetric, tags, err := recordKey(record).Parts(n.tags[:0])
			if err != nil {
				return err
			}
			if n.tags = tags; string(ofDatabase) == database && (metric == "" || string(ofMetric) == metric) {
				visit(ofMetric, tags, add)
			}
		}
		return nil
	})
	if err != nil {
		return false // a key cannot be read: the part has its names too
	}
	slices.Sort(names)
	names = slices.Compact(names)
	n.beginRun()
	for _, name := range names {
		n.text = append(n.text, name...)
		n.ends = append(n.ends, len(n.text))
		if n.left--; n.left == 0 {
			break
		}
	}
	return true
}

// merge makes one run of all.
func (n *nameList) merge() {
	n.list = mergeRuns(n.list, n.runs)
	n.runs = append(n.runs[:0], 0)
}

// mergeRuns merges sorted runs that begin at starts, and drops doubles.
func mergeRuns(list []string, starts []int) []string {
	starts = slices.Clone(starts)
	var scratch []string
	for len(starts) > 1 {
		out, left := slices.Grow(scratch[:0], len(list)), 0
		for i := 0; i < len(starts); i += 2 {
			middle, end := len(list), len(list)
			if i+1 < len(starts) {
				middle = starts[i+1]
			}
			if i+2 < len(starts) {
				end = starts[i+2]
			}
			a, b := list[starts[i]:middle], list[middle:end]
			starts[left] = len(out)
			left++
			out = mergeNames(out, a, b)
		}
		list, scratch, starts = out, list, starts[:left]
	}
	return list
}

// mergeNames appends two sorted runs as one; a name that is in both comes once.
func mergeNames(dst, a, b []string) []string {
	for len(a) > 0 && len(b) > 0 {
		switch order := strings.Compare(a[0], b[0]); {
		case order < 0:
			dst, a = append(dst, a[0]), a[1:]
		case order > 0:
			dst, b = append(dst, b[0]), b[1:]
		default:
			a = a[1:]
		}
	}
	return append(append(dst, a...), b...)
}

func (n *nameList) result() ([]string, error) {
	if err := n.ctx.Err(); err != nil {
		return nil, err
	}
	n.endRun()
	n.merge()
	if n.limit > 0 && len(n.list) > n.limit {
		n.list = n.list[:n.limit]
	}
	return n.list, nil
}

// hasAny reports whether any series of a posting is active, and of the shards.
func (n *nameList) hasAny(lo uint32, p posting) (found bool) {
	if first, ok := p.first(); ok && n.has(lo+first) {
		return true // nearly always
	}
	if p.count == 1 {
		return false
	}
	p.each(func(run []uint32) bool {
		found = slices.ContainsFunc(run, func(rel uint32) bool { return n.has(lo + rel) })
		return !found
	})
	return found
}

func (n *nameList) has(local uint32) bool {
	return n.active.has(local) && n.shards.has(local)
}

// count returns the number of active series of a posting.
func (v view) count(lo uint32, p posting) (n int64) {
	p.each(func(run []uint32) bool {
		for _, rel := range run {
			if v.has(lo + rel) {
				n++
			}
		}
		return true
	})
	return n
}

// eachMetric visits the entries of one metric or, when it is empty, of all
// metrics of a database, until visit returns false.
func (p *part) eachMetric(database, metric string, visit func(m *metricEntry) bool) {
	for i := p.search(database, metric); i < len(p.metrics); i++ {
		m := p.entry(i)
		if string(m.database) != database || metric != "" && string(m.metric) != metric || !visit(&m) {
			return
		}
	}
}

// Databases returns the sorted names of the databases that have active series, on any day.
func (ns Names) Databases(ctx context.Context) ([]string, error) {
	ns.days = AllDays()
	return ns.read(ctx, "", 0, func(n *nameList, parts []*part) {
		for _, p := range parts {
			n.beginRun()
			for i := 0; i < len(p.metrics); {
				m := p.entry(i)
				before := len(n.ends)
				if !n.add(m.database, p, m.series) {
					break
				}
				if len(n.ends) == before {
					i++ // its series are gone; perhaps another metric has some
					continue
				}
				// "\x00" makes the least name after this one.
				i = p.search(string(m.database)+"\x00", "")
			}
		}
	})
}

// Metrics returns the sorted metrics of a database that start with prefix and have
// active series, at most limit (0: all). Errors: ctx.Err(), *vfs.FaultError.
func (ns Names) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return ns.read(ctx, prefix, limit, func(n *nameList, parts []*part) {
		for _, p := range parts {
			few := n.fromFew(p, database, "", func(metric []byte, _ []series.Tag, add func([]byte)) { add(metric) })
			if few {
				continue
			}
			n.beginRun()
			for i := p.search(database, prefix); i < len(p.metrics); i++ {
				m := p.entry(i)
				if string(m.database) != database || !n.add(m.metric, p, m.series) {
					break
				}
			}
		}
	})
}

// TagNames returns the sorted names of tags, as Metrics does. An empty metric
// means all metrics.
func (ns Names) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return ns.read(ctx, prefix, limit, func(n *nameList, parts []*part) {
		for _, p := range parts {
			few := n.fromFew(p, database, metric, func(_ []byte, tags []series.Tag, add func([]byte)) {
				for i := range tags {
					add(tags[i].Name)
				}
			})
			if few {
				continue
			}
			p.eachMetric(database, metric, func(m *metricEntry) bool {
				n.beginRun()
				m.eachTag(func(t tagEntry) bool { return n.add(t.name, p, t.series) })
				return ctx.Err() == nil
			})
		}
	})
}

// TagValues returns the sorted values of a tag, as TagNames does.
func (ns Names) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return ns.read(ctx, prefix, limit, func(n *nameList, parts []*part) {
		for _, p := range parts {
			few := n.fromFew(p, database, metric, func(_ []byte, tags []series.Tag, add func([]byte)) {
				for i := range tags {
					if string(tags[i].Name) == name {
						add(tags[i].Value)
					}
				}
			})
			if few {
				continue
			}
			p.eachMetric(database, metric, func(m *metricEntry) bool {
				if t, ok := m.tag(name); ok {
					n.beginRun()
					for c := t.cursor(prefix); c.next(); {
						if !n.add(c.value, p, c.posting) {
							break
						}
					}
				}
				return ctx.Err() == nil
			})
		}
	})
}

// Count returns the number of active series of a database.
func (ns Names) Count(ctx context.Context, database string) (count int64, err error) {
	err = ns.index.parts.read(func(parts []*part) error {
		n := ns.collection(ctx, "", 0)
		count = 0
		for _, p := range parts {
			p.eachMetric(database, "", func(m *metricEntry) bool {
				if n.shards.set == nil {
					count += n.active.count(p.lo, m.series)
					return ctx.Err() == nil
				}
				m.series.each(func(run []uint32) bool {
					for _, rel := range run {
						if n.has(p.lo + rel) {
							count++
						}
					}
					return true
				})
				return ctx.Err() == nil
			})
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return count, ctx.Err()
}
