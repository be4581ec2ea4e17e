package promql

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
)

// order describes how series come.
type order uint8

const (
	// orderNone: as they were read, which may differ from time to time.
	orderNone order = iota
	// orderFixed: by a hash of their labels, the same wherever they are stored, so that
	// the engine's sums of floats have the same bits each time. It costs much less than orderLabels.
	orderFixed
	// orderLabels: by their labels.
	orderLabels
)

// ranked is a column with what it is ordered by.
type ranked struct {
	hash   uint64 // 0 in the order of labels
	column *column
}

func compareRanked(a, b ranked) int {
	if c := cmp.Compare(a.hash, b.hash); c != 0 {
		return c
	}
	return labels.Compare(a.column.labels, b.column.labels)
}

// rank puts the columns of some runs into an order. It sorts and merges with all processors.
func rank(runs [][]column, by order, parallel int) []ranked {
	total := 0
	for _, run := range runs {
		total += len(run)
	}
	all := make([]ranked, 0, total)
	for _, run := range runs {
		for i := range run {
			all = append(all, ranked{column: &run[i]})
		}
	}
	if by == orderNone {
		return all
	}
	const inPartMin = 1 << 10 // fewer are not worth a goroutine
	inPart := max(inPartMin, (total+parallel-1)/max(1, parallel))
	var parts [][]ranked
	for part := range slices.Chunk(all, inPart) {
		parts = append(parts, part)
	}
	var group sync.WaitGroup
	for _, part := range parts {
		group.Go(func() {
			if by == orderFixed {
				for i := range part {
					part[i].hash = part[i].column.labels.Hash()
				}
			}
			slices.SortFunc(part, compareRanked)
		})
	}
	group.Wait()
	for len(parts) > 1 {
		half := (len(parts) + 1) / 2
		for i := 0; i+half < len(parts); i++ {
			group.Go(func() { parts[i] = mergeRanked(parts[i], parts[i+half]) })
		}
		group.Wait()
		parts = parts[:half]
	}
	return slices.Concat(parts...)
}

// mergeRanked merges two lists that are in order.
func mergeRanked(a, b []ranked) []ranked {
	merged := make([]ranked, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareRanked(a[0], b[0]) <= 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}
