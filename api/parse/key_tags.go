package parse

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/tickmesh/tickmesh/api/series"
)

func (k *KeyBuilder) memoryBytes() int {
	return int(unsafe.Sizeof(series.Tag{}))*cap(k.tags) + int(unsafe.Sizeof(k.text))*cap(k.parts) + cap(k.text) + cap(k.key) + cap(k.suffix)
}

func (k *KeyBuilder) reset() {
	k.tags, k.text = k.tags[:0], k.text[:0]
}

// sortTags puts the tags in order, equal names in the order of the text.
func (k *KeyBuilder) sortTags() {
	if !slices.IsSortedFunc(k.tags, compareNames) {
		slices.SortStableFunc(k.tags, compareNames)
	}
}

func compareNames(a, b series.Tag) int { return bytes.Compare(a.Name, b.Name) }

// repeatedName returns the index of the first sorted tag that has the name of the
// one before it, or 0.
func (k *KeyBuilder) repeatedName() int {
	for i := 1; i < len(k.tags); i++ {
		if bytes.Equal(k.tags[i-1].Name, k.tags[i].Name) {
			return i
		}
	}
	return 0
}

// dropRepeated keeps the last of equal names of the sorted tags.
func (k *KeyBuilder) dropRepeated() {
	kept := 0
	for i := range k.tags {
		if i+1 < len(k.tags) && bytes.Equal(k.tags[i].Name, k.tags[i+1].Name) {
			continue
		}
		k.tags[kept] = k.tags[i]
		kept++
	}
	k.tags = k.tags[:kept]
}
