package index

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Select appends the local ids of the series that match and are active on one of days
// to dst, in growing order. With more than seriesMax (0: no bound) it returns a
// *scan.LimitError.
//
// Errors besides: ErrRegexp, ErrMatcher, ctx.Err(), *CorruptError, *vfs.FaultError.
func (x *Index) Select(ctx context.Context, selector *scan.Selector, days Days, seriesMax int64, dst []uint32) ([]uint32, error) {
	matchers, err := compileMatchers(selector.Matchers)
	if err != nil {
		return dst, err
	}
	before := len(dst)
	err = x.parts.read(func(parts []*part) error {
		dst = dst[:before]
		s := x.takeSelection()
		defer x.keepSelection(s)
		s.ctx, s.keys, s.selector, s.matchers = ctx, x.keys, selector, matchers
		s.active = x.activity.viewWith(days, s.active.periods[:0])
		s.few.rule = x.few
		s.shards = x.keys.inShards(selector.Shards)
		for _, p := range parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			if dst, err = s.part(p, dst); err != nil {
				return err
			}
			if seriesMax > 0 && int64(len(dst)-before) > seriesMax {
				return &scan.LimitError{What: "series", Limit: seriesMax}
			}
		}
		return nil
	})
	if err != nil {
		return dst[:before], err
	}
	return dst, nil
}

// part appends what a part has.
func (s *selection) part(p *part, dst []uint32) ([]uint32, error) {
	start, metrics := len(dst), 0
	s.few.begin(s.active, p)
	for i := p.search(s.selector.Database, s.firstMetric()); i < len(p.metrics); i++ {
		m := p.entry(i)
		if string(m.database) != s.selector.Database || !s.selector.MetricAny && string(m.metric) != s.selector.Metric {
			break
		}
		if i%256 == 255 && s.ctx.Err() != nil {
			return dst, s.ctx.Err()
		}
		found, err := s.metric(p, i, &m)
		if err != nil {
			return dst, err
		}
		if len(found) > 0 {
			metrics++
		}
		dst = s.appendActive(dst, p.lo, found)
	}
	if metrics > 1 {
		slices.Sort(dst[start:])
	}
	return dst, nil
}

func (s *selection) firstMetric() string {
	if s.selector.MetricAny {
		return ""
	}
	return s.selector.Metric
}

// appendActive appends those of a part's candidates that are active.
func (s *selection) appendActive(dst []uint32, lo uint32, found []uint32) []uint32 {
	const none = 1<<64 - 1
	var word uint64
	at := uint64(none) // which word
	for _, rel := range found {
		local := lo + rel
		if uint64(local/64) != at {
			at = uint64(local / 64)
			word = s.active.word(local &^ 63)
		}
		if word&(1<<(local%64)) != 0 && s.shards.has(local) {
			dst = append(dst, local)
		}
	}
	return dst
}

// step is what one matcher asks of a metric: series that are, or are not, in the
// union of some postings.
type step struct {
	matcher *matcher
	tag     tagEntry
	keep    bool
	known   bool       // values is filled
	values  []posting  // the union
	count   int        // series in it, if known
	scratch *[]posting // memory for values; nil: they are given
}

// metric returns the candidates of metric number of a part. The result is reused by the next call.
func (s *selection) metric(p *part, number int, m *metricEntry) ([]uint32, error) {
	steps, empty := s.plan(m)
	if empty {
		return nil, nil
	}
	s.found = s.found[:0]
	started := false
	if few, ok := s.few.below(candidates(m, steps)); ok {
		s.finder.reset(m.series)
		s.found = s.finder.filter(append(s.found, few...), true)
		started = true
	} else if err := s.collectEarly(p, number, steps); err != nil {
		return nil, err
	}
	for i := range steps {
		st := &steps[i]
		if started && len(s.found) == 0 || st.known && st.keep && st.count == 0 {
			s.found = s.found[:0]
			return s.found, nil
		}
		if started && !st.known && len(s.found) < st.tag.values/4 {
			if err := s.checkKeys(p, st.matcher); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.collect(p, number, st); err != nil {
			return nil, err
		}
		if !started && st.keep {
			s.union(p, st.values)
		} else {
			if !started {
				s.found = m.series.appendTo(s.found, 0)
			}
			s.filter(p, st)
		}
		started = true
	}
	if !started {
		s.found = m.series.appendTo(s.found, 0)
	}
	return s.found, nil
}

// candidates returns of how many series at most the steps that are known leave some.
func candidates(m *metricEntry, steps []step) int {
	count := int(m.series.count)
	for i := range steps {
		if st := &steps[i]; st.known && st.keep {
			count = min(count, st.count)
		}
	}
	return count
}

// plan puts the matchers in the order of their cost: what is known and picks
// first, the smallest set foremost. It reports whether nothing can match.
func (s *selection) plan(m *metricEntry) (steps []step, empty bool) {
	steps = s.steps[:0]
	for i := range s.matchers {
		c := &s.matchers[i]
		tag, ok := m.tag(c.name)
		if !ok {
			if !c.matches(nil, false) {
				return nil, true
			}
			continue
		}
		steps = append(steps, step{matcher: c, tag: tag, keep: !c.matches(nil, false), scratch: s.scratch(len(steps))})
		st := &steps[len(steps)-1]
		st.lookUp()
		if st.known && (st.keep && st.count == 0 || !st.keep && st.count == int(m.series.count)) {
			return nil, true // values of a tag share no series
		}
		if st.known && (st.count == 0 || st.keep && st.count == int(m.series.count)) {
			steps = steps[:len(steps)-1] // all series pass
		}
	}
	if s.selector.Exact {
		m.eachTag(func(t tagEntry) bool {
			if !slices.ContainsFunc(s.matchers, func(c matcher) bool { return c.name == string(t.name) }) {
				steps = append(steps, step{tag: t, known: true, values: []posting{t.series}, count: int(t.series.count)})
			}
			return true
		})
	}
	slices.SortStableFunc(steps, func(x, y step) int { return cmp.Compare(x.cost(), y.cost()) })
	s.steps = steps
	return steps, false
}

func (st *step) cost() int {
	cost := 0
	if st.known && st.keep {
		return st.count
	}
	if !st.known {
		cost = st.tag.values
	}
	const later = 1 << 40
	if st.keep {
		return later + cost
	}
	return 2*later + cost
}

// lookUp fills values without walking all values of the tag, if that can be done.
func (st *step) lookUp() {
	c, values := st.matcher, (*st.scratch)[:0]
	switch {
	case c.presence:
		st.known, st.values = true, []posting{st.tag.series}
	case c.test == nil && !c.holdsEmpty:
		st.known = true
		for _, v := range c.literals {
			if p, ok := st.tag.find(v); ok {
				values = append(values, p)
			}
		}
		st.values, *st.scratch = values, values
	case c.test == nil && !slices.ContainsFunc(c.literals, st.hasValue):
		// All of the tag's values differ from the literals, one of which is "".
		st.known, st.values = true, []posting{st.tag.series}
	}
	for _, p := range st.values {
		st.count += int(p.count)
	}
}

func (st *step) hasValue(value string) bool {
	_, ok := st.tag.find(value)
	return ok
}

// valuesChecked is how many values are tried between looks at the context.
const valuesChecked = 1 << 12

// expressionsChecked is the same for values that an expression is tried on: a large one takes up
// to milliseconds for each.
const expressionsChecked = 1 << 6

// collectEarly collects what will have to be collected whatever comes before it, and then
// puts the steps in order again: few hosts that an expression picks come before the many
// series that a known value has.
func (s *selection) collectEarly(p *part, number int, steps []step) error {
	least := math.MaxInt
	for i := range steps {
		if st := &steps[i]; st.known && st.keep {
			least = min(least, st.count)
		}
	}
	early := false
	for i := range steps {
		st := &steps[i]
		if st.known || !st.keep || least < st.tag.values/4 {
			continue
		}
		if err := s.collect(p, number, st); err != nil {
			return err
		}
		least, early = min(least, st.count), true
	}
	if early {
		slices.SortStableFunc(steps, func(x, y step) int { return cmp.Compare(x.cost(), y.cost()) })
	}
	return nil
}

// collect fills values: those for which the predicate is not what it is for a
// series without the tag. Their union is then kept, or left out.
func (s *selection) collect(p *part, number int, st *step) error {
	if st.known {
		return nil
	}
	c := st.matcher
	remembered, ok := p.memo.find(number, c)
	if ok {
		checkAgain(p.seal, remembered)
	} else {
		var err error
		if *st.scratch, err = s.tryValues(st, (*st.scratch)[:0]); err != nil {
			return err
		}
		remembered = *st.scratch
		p.memo.keep(number, c, st.tag.values, remembered)
	}
	st.known, st.values, st.count = true, remembered, 0
	for _, v := range st.values {
		st.count += int(v.count)
	}
	return nil
}

// tryValues appends the postings that collect is to fill in.
func (s *selection) tryValues(st *step, dst []posting) ([]posting, error) {
	c := st.matcher
	from := ""
	if !c.holdsEmpty {
		from = c.prefix
	}
	for values := st.tag.cursor(from); values.next(); {
		if c.holds(values.value) != c.holdsEmpty {
			dst = append(dst, values.posting)
		} else if from != "" && string(values.value) > from && !bytes.HasPrefix(values.value, []byte(from)) {
			break
		}
		if (values.at%valuesChecked == 0 || c.regexp != "" && values.at%expressionsChecked == 0) && s.ctx.Err() != nil {
			return dst, s.ctx.Err()
		}
	}
	return dst, nil
}

// union makes the candidates the union of postings.
func (s *selection) union(p *part, values []posting) {
	switch len(values) {
	case 0:
		return
	case 1:
		s.found = values[0].appendTo(s.found, 0)
		return
	}
	total := 0
	for _, v := range values {
		total += int(v.count)
	}
	if total < int(p.size())/64 {
		for _, v := range values {
			s.found = v.appendTo(s.found, 0)
		}
		slices.Sort(s.found) // a series has one value, so none is there twice
		return
	}
	s.fillSet(p, values)
	s.found = appendSet(s.found, s.set)
}

func (s *selection) fillSet(p *part, values []posting) {
	words := int(p.size()+63) / 64
	s.set = slices.Grow(s.set[:0], words)[:words]
	clear(s.set)
	for _, v := range values {
		v.orInto(s.set)
	}
}

// filter keeps the candidates that are, or are not, in the union.
func (s *selection) filter(p *part, st *step) {
	switch {
	case len(st.values) == 1:
		s.finder.reset(st.values[0])
		s.found = s.finder.filter(s.found, st.keep)
		return
	case len(st.values)*len(s.found) < int(p.size())/16:
		s.filterFew(st)
		return
	}
	s.fillSet(p, st.values)
	kept := s.found[:0]
	for _, v := range s.found {
		if s.set[v/64]&(1<<(v%64)) != 0 == st.keep {
			kept = append(kept, v)
		}
	}
	s.found = kept
}

// filterFew looks few candidates up in few postings.
func (s *selection) filterFew(st *step) {
	if !st.keep {
		for _, v := range st.values {
			s.finder.reset(v)
			s.found = s.finder.filter(s.found, false)
		}
		return
	}
	candidates := len(s.found)
	for _, v := range st.values {
		s.finder.reset(v)
		for _, c := range s.found[:candidates] {
			if s.finder.has(c) {
				s.found = append(s.found, c)
			}
		}
	}
	s.found = append(s.found[:0], s.found[candidates:]...)
	slices.Sort(s.found)
}

// checkKeys evaluates a matcher on the keys of the candidates, when these are
// fewer than the values that the tag has.
func (s *selection) checkKeys(p *part, c *matcher) error {
	return vfs.Guard(func() error {
		kept := s.found[:0]
		for _, rel := range s.found {
			record, err := s.keys.intact(p.lo + rel)
			if err != nil && s.keys.dropped.has(p.lo+rel) {
				continue
			}
			if err != nil {
				return err
			}
			_, _, tags, err := recordKey(record).Parts(s.tags[:0])
			if err != nil {
				return err
			}
			s.tags = tags
			i := slices.IndexFunc(tags, func(t series.Tag) bool { return string(t.Name) == c.name })
			var value []byte
			if i >= 0 {
				value = tags[i].Value
			}
			if c.matches(value, i >= 0) {
				kept = append(kept, rel)
			}
		}
		s.found = kept
		return nil
	})
}

func appendSet(dst []uint32, set []uint64) []uint32 {
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, uint32(i*64+bits.TrailingZeros64(word)))
		}
	}
	return dst
}
