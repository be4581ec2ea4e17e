package display

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// JSON writes a value for programs.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Table writes columns of one width below their headings, which have spaces between.
func Table(w io.Writer, heading string, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.ReplaceAll(heading, " ", "\t"))
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// OrDash returns the text of a table's cell: - for an empty one.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// MovesAhead returns in a line what moves and what is left of it: 4 of 57 under way, 1.2 GiB
// to copy, about 3m10s. Where nobody knows how many moves there are, it is how many are under way.
func MovesAhead(underWay, moves int, doneBytes, totalBytes, remainingMs uint64) string {
	if moves == 0 {
		return strconv.Itoa(underWay)
	}
	text := fmt.Sprintf("%d of %d under way", underWay, max(moves, underWay))
	if totalBytes > 0 {
		text += fmt.Sprintf(", %s to copy", Bytes(totalBytes-min(doneBytes, totalBytes)))
	}
	if remainingMs > 0 {
		text += ", about " + Time(remainingMs)
	}
	return text
}

// Bytes returns a size for people: 1.5 GiB.
func Bytes(n uint64) string {
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

// Time returns a length of time in milliseconds for people: 2m5s.
func Time(ms uint64) string {
	const msMax = 1 << 43 // what time.Duration holds
	d := time.Duration(min(ms, msMax)) * time.Millisecond
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
