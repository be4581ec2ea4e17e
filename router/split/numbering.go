package split

import "bytes"

// Numbers of parts of a context.
const (
	// unnumbered is what there is no number for. Lines of it are not cached, and those of others stay: who writes
	// to ever other databases, or with ever other labels or fields, empties nobody's cache sooner than ever other lines do.
	unnumbered = 255
	// numberedMax bounds the databases, and the sets of extra labels, that the cache tells apart.
	numberedMax = 64
)

// numbering numbers texts from 1.
type numbering [][]byte

// of returns the number of a text; unnumbered: there is no room for it.
func (n *numbering) of(text []byte) uint8 {
	for i, known := range *n {
		if string(known) == string(text) {
			return uint8(i + 1)
		}
	}
	if len(*n) == numberedMax {
		return unnumbered
	}
	*n = append(*n, bytes.Clone(text))
	return uint8(len(*n))
}
