package split

import "bytes"

// Numbers of parts of a context.
const (
	// unnumbered is what there is no number for. Lines of it are not cached, and those of others stay: who writes
	// to ever other databases, or with ever other labels or fields, empties nobody's cache sooner than ever other lines do.
	unnumbered = 255
	// numberedMax bounds the databases, and the sets of extra labels, that the cache tells apart.
	numberedMax = 64
	// numberedBytesMax bounds their texts, and those of the sets of fields, each.
	numberedBytesMax = lineCacheBytesMax
)

// numbering numbers texts from 1.
type numbering struct {
	texts [][]byte
	bytes int // of texts
}

func (n *numbering) clear() {
	clear(n.texts)
	n.texts, n.bytes = n.texts[:0], 0
}

// of returns the number of a text; unnumbered: there is no room for it.
func (n *numbering) of(text []byte) uint8 {
	for i, known := range n.texts {
		if string(known) == string(text) {
			return uint8(i + 1)
		}
	}
	if len(n.texts) == numberedMax {
		return unnumbered
	}
	return n.add(text)
}

// add numbers a text that has no number.
func (n *numbering) add(text []byte) uint8 {
	if n.bytes+len(text) > numberedBytesMax {
		return unnumbered
	}
	n.texts, n.bytes = append(n.texts, bytes.Clone(text)), n.bytes+len(text)
	return uint8(len(n.texts))
}
