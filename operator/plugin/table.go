package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// writeJSON writes a value for programs.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeTable writes columns of one width below their headings.
func writeTable(w io.Writer, heading string, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.ReplaceAll(heading, " ", "\t"))
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// humanBytes gives a size for people: 1.5 GiB.
func humanBytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for v >= 1<<10 && unit < len(units)-1 {
		v, unit = v/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}

// humanTime gives a length of time for people: 2m5s.
func humanTime(ms uint64) string {
	const msMax = 1 << 43 // what time.Duration holds
	d := time.Duration(min(ms, msMax)) * time.Millisecond
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
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
