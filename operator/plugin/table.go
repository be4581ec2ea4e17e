package plugin

import (
	"fmt"
	"io"
	"strings"

	"github.com/tickmesh/tickmesh/api/display"
)

// writeTable writes a table with a dash where a cell is empty.
func writeTable(w io.Writer, heading string, rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = display.OrDash(cell)
		}
	}
	return display.Table(w, heading, rows)
}

const shownMax = 16

// shardList names shards for people: 1 5 9 …
func shardList(shards []uint32) string {
	words := make([]string, 0, shownMax+1)
	for _, shard := range shards[:min(len(shards), shownMax)] {
		words = append(words, fmt.Sprint(shard))
	}
	if len(shards) > shownMax {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}
