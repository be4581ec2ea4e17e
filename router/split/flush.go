package split

import (
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// addNew adds a line that the cache does not know to the resolve batch. It returns the
// number of points encoded when the resolve batch had to end within the line.
func (s *Splitter) addNew(b *parse.Batch, line uint32, database []byte, id identity, r Resolver) (added int) {
	st := &s.pending
	if st.repeat(b, line, id) {
		return 0
	}
	l := &b.Lines[line]
	if err := s.keys.Start(b, l, database, s.limits); err != nil {
		st.addRefused(line, int(l.Count), err)
		return 0
	}
	points := b.Points[l.First : l.First+l.Count]
	run := 1 // points of one series
	if l.Form != parse.FormLine {
		run = len(points)
	}
	it, whole := st.open(line, 0), true
	for i := 0; i < len(points); i += run {
		p := &points[i]
		key, err := s.keys.Key(b.Field(p), p.FieldEscaped)
		if st.isFull(len(key)) {
			st.close(it)
			added += s.flush(b, r)
			it, whole = st.open(line, i), false
		}
		if err != nil {
			st.close(it)
			st.addRefused(line, run, err)
			it, whole = st.open(line, i+run), false
			continue
		}
		st.addKey(&it, key, run)
	}
	if whole {
		st.closeWhole(it, id)
	} else {
		st.close(it)
	}
	return added
}

// flush resolves the keys of the resolve batch and encodes its points, in their order.
// It returns the number of points encoded.
func (s *Splitter) flush(b *parse.Batch, r Resolver) (added int) {
	st := &s.pending
	if len(st.items) == 0 {
		return 0
	}
	if len(st.keys) > 0 {
		st.resolve(r, s.hint, s.inOrder)
		s.hint, s.inOrder = st.order(s.hint)
	}
	for i := range st.items {
		it := &st.items[i]
		l := &b.Lines[it.line]
		switch it.kind {
		case itemKnown:
			s.appendKnown(b, l, &s.lines.entries[it.at])
			added += int(l.Count)
		case itemRefused:
			s.refuse(b, l, int(it.points), st.errors[it.at])
		case itemKeys:
			n, known := s.appendKeys(b, it)
			added += n
			if known && it.whole {
				s.lines.insert(it.identity.hash, it.identity.context, b.Head(l), b.Tags(l), st.refs[it.at:it.at+it.keys])
			}
		}
	}
	st.reset()
	return added
}

// appendKeys encodes the points of an item by its keys. It returns the number of
// points encoded, and whether all of them are of series that exist.
func (s *Splitter) appendKeys(b *parse.Batch, it *item) (added int, known bool) {
	l := &b.Lines[it.line]
	start := l.First + it.first
	points := b.Points[start : start+it.points]
	run := 1
	if l.Form != parse.FormLine {
		run = len(points)
	}
	known = true
	for key := it.at; len(points) > 0; key++ {
		ref := &s.pending.refs[key]
		part, id := 0, ref.ID
		if ref.Hint != series.HintNone {
			part = s.frame.Part(ref.Shard)
		} else {
			known = false
			if len(s.definitions.keys)+len(s.pending.keys[key]) > definitionBytesMax {
				b.AddError(l, run, parse.KindRefused, errDefinitions.Error(), s.limits.ErrorsMax)
				points = points[run:]
				continue
			}
			part, id = s.define(s.pending.keys[key], it.line, run)
		}
		encoder := s.frame.Batch(part)
		for i := range points[:run] {
			encoder.Append(id, points[i].TimeMs, points[i].Mantissa, points[i].Scale)
		}
		points = points[run:]
		added += run
	}
	return added, known
}
