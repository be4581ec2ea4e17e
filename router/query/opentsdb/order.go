package opentsdb

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// place is a column's place in a list and the first bytes in which its key may
// differ from the others, as one number that sorts like them.
type place struct {
	lead uint64
	at   int
}

// sortColumns returns columns in the order of their keys. Keys of one query begin
// alike, with database, metric and the name of the first tag, so the bytes after
// that decide almost every comparison.
func sortColumns(columns []column) []column {
	if slices.IsSortedFunc(columns, compareColumns) {
		return columns
	}
	common := len(columns[0].key)
	for i := range columns {
		common = sharedPrefix(columns[0].key[:common], columns[i].key)
	}
	places := make([]place, len(columns))
	for i := range columns {
		var lead [8]byte
		copy(lead[:], columns[i].key[common:])
		places[i] = place{lead: binary.BigEndian.Uint64(lead[:]), at: i}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.lead != b.lead {
			return cmp.Compare(a.lead, b.lead)
		}
		return compareColumns(columns[a.at], columns[b.at])
	})
	sorted := make([]column, len(columns))
	for i, p := range places {
		sorted[i] = columns[p.at]
	}
	return sorted
}

func compareColumns(a, b column) int { return bytes.Compare(a.key, b.key) }

// sharedPrefix returns the number of bytes that two keys begin with alike.
func sharedPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
