package archive

import (
	"cmp"
	"context"
	"slices"
	"sort"
)

// metricName is a metric of a database.
type metricName struct{ database, metric string }

// candidates are the units of an earlier backup that a new one may take.
type candidates struct {
	backup string
	index  *Index
	units  map[metricName][]int // of the index, by FromMs
}

func newCandidates(x *Index) *candidates {
	c := &candidates{backup: x.Backup, index: x, units: map[metricName][]int{}}
	for i := range x.Units {
		name := metricName{string(x.Units[i].Database), string(x.Units[i].Metric)}
		c.units[name] = append(c.units[name], i)
	}
	for _, list := range c.units {
		slices.SortFunc(list, func(a, b int) int { return cmp.Compare(x.Units[a].FromMs, x.Units[b].FromMs) })
	}
	return c
}

// find returns the units that together are what is wanted; none: there are no such.
func (c *candidates) find(w *Wanted) []int {
	list := c.units[metricName{w.Database, w.Metric}]
	first := sort.Search(len(list), func(i int) bool { return c.index.Units[list[i]].ToMs >= w.FromMs })
	var found []int
	var sum Digest
	hours := false
	for _, i := range list[first:] {
		u := &c.index.Units[i]
		if u.FromMs > w.ToMs {
			break
		}
		if u.FromMs < w.FromMs || u.ToMs > w.ToMs {
			return nil // nobody knows what it has in the range
		}
		found = append(found, i)
		if u.Hours {
			hours = true
			continue
		}
		sum.Merge(u.Digest)
	}
	if sum != w.Digest || w.Thinned && !hours {
		return nil
	}
	return found
}

// objectsPresent returns all objects of a target by checksum.
func objectsPresent(ctx context.Context, s Store) (map[string]Info, error) {
	present := map[string]Info{}
	for info, err := range s.List(ctx, objectsPrefix) {
		if err != nil {
			return nil, err
		}
		present[info.Key[len(objectsPrefix):]] = info
	}
	return present, nil
}

// keep drops the units whose objects are not all there.
func (c *candidates) keep(present map[string]Info) {
	whole := func(i int) bool {
		for _, p := range c.index.Units[i].Parts {
			o := &c.index.Objects[p.Object]
			if info, ok := present[o.SHA256]; !ok || info.Bytes != o.Bytes {
				return false
			}
		}
		return true
	}
	for name, list := range c.units {
		c.units[name] = slices.DeleteFunc(list, func(i int) bool { return !whole(i) })
	}
}

// taken is a wanted unit that a candidate has.
type taken struct {
	wanted int
	from   *candidates
	units  []int
}

// usedMin is the part of an object that a backup has to use to take anything from it, as
// one in so many: else the object would be kept for little.
const usedMin = 2

// sparse returns the objects of which too little is taken.
func sparse(all []taken) map[string]bool {
	used, whole := map[string]int64{}, map[string]int64{}
	for _, t := range all {
		for _, i := range t.units {
			for _, p := range t.from.index.Units[i].Parts {
				o := &t.from.index.Objects[p.Object]
				used[o.SHA256] += p.Bytes
				whole[o.SHA256] = o.Bytes - int64(objectHeaderBytes)
			}
		}
	}
	drop := map[string]bool{}
	for sum, n := range used {
		drop[sum] = n < whole[sum]/usedMin
	}
	return drop
}

// uses reports whether something is taken from one of some objects.
func (t *taken) uses(objects map[string]bool) bool {
	for _, i := range t.units {
		for _, p := range t.from.index.Units[i].Parts {
			if objects[t.from.index.Objects[p.Object].SHA256] {
				return true
			}
		}
	}
	return false
}
