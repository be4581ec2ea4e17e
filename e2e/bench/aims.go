package bench

import (
	"fmt"
	"strings"

	"github.com/tickmesh/tickmesh/e2e/bench/target"
)

// aim is what a figure is to be, beside the best peer or by itself.
type aim struct {
	name                   string // of its row
	workload, which, named string // of the measure: workload, case and figure
	factor                 float64
	most, least            float64 // that the figure may be, where factor is 0; 0: any
}

// aims are the project's aims for speed, in the order of the first table. Ratios are of medians, to the best of the peers
// that were measured.
var aims = [...]aim{
	{name: "HTTP line", workload: "ingest", which: "HTTP line", named: "server CPU", factor: 4},
	{name: "TCP put", workload: "ingest", which: "TCP put", named: "server CPU", factor: 4},
	{name: "TCP line", workload: "ingest", which: "TCP line", named: "server CPU", factor: 4},
	{name: "TCP put, P99.9 of write(2)", workload: "ingest", which: "TCP put", named: "write P99.9", most: 200},
	{name: "TCP line, P99.9 of write(2)", workload: "ingest", which: "TCP line", named: "write P99.9", most: 200},
	{name: "HTTP line, `always`", workload: "always", which: "HTTP line", named: alwaysShare, least: 0.9},
	{name: "rounds over 2 M series, HTTP", workload: "cardinality", which: "HTTP line, 2000 k series", named: "server CPU, later rounds", factor: 5},
	{name: "a new series at 2 M", workload: "cardinality", which: "HTTP line, 2000 k series", named: "server CPU, creation", factor: 10},
	{name: "1 h by minute over 2,000 series", workload: "query", which: minutesOverAll, named: "P50", factor: 4},
	{name: "each of 2,000 series by minute", workload: "query", which: minutesOfEach, named: "P50", factor: 4},
	{name: "10 series by minute, 8 clients", workload: "query", which: "1 h by minute over 10 series", named: "rate, 8 clients", factor: 4},
	{name: "1 h mean of one series", workload: "query", which: "1 h mean of 1 series", named: "P50", factor: 2},
	{name: "10 live series among 10 M dead", workload: "dead", which: "10 live series among 10 M", named: "of that alone", most: 2},
	{name: "the same, beside peers", workload: "dead", which: "10 live series among 10 M", named: "the same among the dead, P50", factor: 1},
	{name: "start with 10 M series after SIGTERM", workload: "dead", which: "10 live series among 10 M", named: "SIGTERM: until answered", most: 1},
	{name: "start with 10 M series after SIGKILL", workload: "dead", which: "10 live series among 10 M", named: "SIGKILL: until answered", most: 3},
	{name: "a silent series", workload: "dead", which: "10 live series among 10 M", named: "RssAnon after the last start, beyond that of the ten alone", most: 4},
	{name: "a year that is filled in", workload: "backfill", which: "a year by hour, 2,000 series", named: backfillShare, least: 0.33},
}

// String writes the aim as a table does.
func (a aim) String() string {
	switch {
	case a.factor > 0:
		return fmt.Sprintf("≥ %g ×", a.factor)
	case a.least > 0:
		return fmt.Sprintf("≥ %g", a.least)
	}
	return fmt.Sprintf("≤ %g", a.most)
}

// find returns the row of an aim's measure.
func (a aim) find(results *Results) (row, bool) {
	for _, r := range results.rows(a.workload) {
		if r.Case == a.which && r.Name == a.named && r.ByTarget[measured] != nil {
			return r, true
		}
	}
	return row{}, false
}

// measured is the target whose aims they are.
const measured = "tickmesh"

// writeAims writes the table of aims: those whose figures were measured.
func (r *Report) writeAims(page *strings.Builder) {
	var peers []string
	for _, t := range r.Config.Targets {
		if name := t.Name(); name != measured && name != target.SinkName {
			peers = append(peers, name)
		}
	}
	var lines []string
	for _, a := range aims {
		figure, ok := a.find(r.Results)
		if !ok {
			continue
		}
		line := fmt.Sprintf("| %s | %s | %s |", a.name, unitOf(figure), figure.ByTarget[measured].text())
		best, any := 0.0, false
		for _, peer := range peers {
			line += fmt.Sprintf(" %s |", figure.ByTarget[peer].text())
			if ratio, ok := figure.ratio(measured, peer); ok && (!any || ratio < best) {
				best, any = ratio, true
			}
		}
		lines = append(lines, line+a.verdict(figure, best, any))
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(page, "\n## Aims\n\n| figure | unit | %s |", measured)
	rule := "|---|---|---|"
	for _, peer := range peers {
		fmt.Fprintf(page, " %s |", peer)
		rule += "---|"
	}
	fmt.Fprintf(page, " to the best peer | aim | met |\n%s---|---|---|\n%s\n", rule, strings.Join(lines, "\n"))
}

// verdict writes the last three columns: the ratio to the best peer, the aim, and whether it is met.
func (a aim) verdict(figure row, best float64, any bool) string {
	ratio := "–"
	if any {
		ratio = short(best) + " ×"
	}
	met := "no"
	switch {
	case a.factor > 0 && !any:
		met = "no peer"
	case a.factor > 0 && best >= a.factor, a.factor == 0 && a.takes(median(figure.ByTarget[measured].Values)):
		met = "yes"
	}
	return fmt.Sprintf(" %s | %s | %s |", ratio, a, met)
}

// takes reports whether a figure is within the aim.
func (a aim) takes(value float64) bool { return value >= a.least && (a.most == 0 || value <= a.most) }

// unitOf names what is measured.
func unitOf(figure row) string { return figure.Name + ", " + figure.Unit }
