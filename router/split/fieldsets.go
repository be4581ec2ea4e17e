package split

import "github.com/tickmesh/tickmesh/api/parse"

// fieldSetsMax bounds the sets of field names that a splitter tells apart.
const fieldSetsMax = unnumbered - 1

// noFields is the field set of lines without fields.
const noFields = 0

// fieldSets numbers the sequences of field names, from 1.
type fieldSets struct {
	seed  uint64
	byKey map[uint64]uint8 // hash of the names to the number
	names numbering        // every name with an = behind it
	text  []byte           // scratch
}

func newFieldSets(seed uint64) fieldSets {
	return fieldSets{seed: seed, byKey: make(map[uint64]uint8)}
}

func (s *fieldSets) clear() {
	clear(s.byKey)
	s.names.clear()
}

// of returns the number of a line's field set; unnumbered: there is no room for it.
// Raw names may hold no = that is not escaped, so the joined text is unambiguous.
func (s *fieldSets) of(b *parse.Batch, l *parse.Line) uint8 {
	s.text = s.text[:0]
	points := b.Points[l.First : l.First+l.Count]
	for i := range points {
		s.text = append(append(s.text, b.Field(&points[i])...), '=')
	}
	hash := hashText(s.seed, s.text)
	if n, ok := s.byKey[hash]; ok {
		if string(s.names.texts[n-1]) == string(s.text) {
			return n
		}
		return unnumbered // two field sets with one hash: as if there were no room
	}
	if len(s.names.texts) == fieldSetsMax {
		return unnumbered
	}
	number := s.names.add(s.text)
	if number != unnumbered {
		s.byKey[hash] = number
	}
	return number
}
