package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/settings"
)

// aggregate is a function that `tickmesh query` knows.
type aggregate struct {
	name   string
	bit    scan.Aggregate
	column func(*client.Chunk) []float64
}

func aggregates() []aggregate {
	return []aggregate{
		{"count", scan.AggregateCount, func(c *client.Chunk) []float64 {
			counts := make([]float64, len(c.Count))
			for i, n := range c.Count {
				counts[i] = float64(n)
			}
			return counts
		}},
		{"sum", scan.AggregateSum, func(c *client.Chunk) []float64 { return c.Sum }},
		{"avg", scan.AggregateSum | scan.AggregateCount, func(c *client.Chunk) []float64 {
			averages := slices.Clone(c.Sum)
			for i := range averages {
				averages[i] /= float64(c.Count[i])
			}
			return averages
		}},
		{"min", scan.AggregateMin, func(c *client.Chunk) []float64 { return c.Min }},
		{"max", scan.AggregateMax, func(c *client.Chunk) []float64 { return c.Max }},
		{"first", scan.AggregateFirst, func(c *client.Chunk) []float64 { return c.First }},
		{"last", scan.AggregateLast, func(c *client.Chunk) []float64 { return c.Last }},
	}
}

func aggregateNames() (names []string) {
	for _, a := range aggregates() {
		names = append(names, a.name)
	}
	return names
}

func newQueryCommand() *cobra.Command {
	q := &queryCommand{}
	s := &clientCommand{check: q.check, run: q.run}
	cmd := s.prepare(&cobra.Command{
		Use: "query SELECTOR", Short: "Show samples", Args: cobra.ExactArgs(1),
		Example: `  tickmesh query 'cpu{host=a}' --start 15m-ago
  tickmesh query 'cpu{host=~"web-.*",!test}' --start 7d-ago --window 1h --aggregate max`,
	})
	q.times.Define(cmd, "1h-ago")
	cmd.Flags().Var(&q.window, "window", "one row for each window of this length, from 1970 on (default: the samples)")
	cmd.Flags().StringSliceVar(&q.functions, "aggregate", []string{"avg"}, "`functions` of a window: "+strings.Join(aggregateNames(), ", "))
	cmd.Flags().Var(&q.staleness, "staleness", "let copies answer that are at most so far behind (default: none)")
	q.output.Define(cmd.Flags())
	return cmd
}

// queryCommand has the flags of `tickmesh query`.
type queryCommand struct {
	output    settings.Output
	times     rangeSettings
	window    settings.Duration // 0: samples
	functions []string          // of a window
	staleness settings.Duration
}

// check refuses flags that mean nothing.
func (q *queryCommand) check(v *settings.Validation) {
	for _, name := range q.functions {
		if !slices.Contains(aggregateNames(), name) {
			v.Refuse("aggregate", name, "expected some of "+strings.Join(aggregateNames(), ", "))
		}
	}
	if q.window != 0 && time.Duration(q.window) < time.Millisecond {
		v.Refuse("window", q.window.String(), "expected at least 1ms")
	}
}

// run asks for the samples and writes them as they come.
func (q *queryCommand) run(cmd *cobra.Command, c *client.Client) error {
	selector, err := parseSelector(cmd.Flags().Arg(0), q.times.database)
	if err != nil {
		return settings.WithHelp(cmd, err)
	}
	now := time.Now()
	asked := client.Query{
		Selector: selector, FromMs: q.times.start.UnixMilli(now, now.Add(-time.Hour).UnixMilli()), ToMs: q.times.end.UnixMilli(now, scan.TimeMsMax),
		Read: client.Read{StalenessMax: time.Duration(q.staleness)},
	}
	columns := []aggregate{{"value", 0, func(c *client.Chunk) []float64 { return c.Values }}}
	if q.window > 0 {
		asked.Windows = &scan.Windows{WidthMs: time.Duration(q.window).Milliseconds()}
		columns = slices.DeleteFunc(aggregates(), func(a aggregate) bool { return !slices.Contains(q.functions, a.name) })
		for _, a := range columns {
			asked.Windows.Aggregates |= a.bit
		}
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	w := seriesWriter(&tableSeries{out: out, columns: columns})
	if q.output.IsJSON() {
		w = &jsonSeries{out: out, columns: columns}
	}
	found := false
	for chunk, err := range c.Query(cmd.Context(), asked) {
		if err == nil {
			found = true
			err = w.chunk(chunk)
		}
		if err != nil {
			return err
		}
	}
	if !found {
		fmt.Fprintf(cmd.ErrOrStderr(), "no series that %s picks have samples in this time\n", strconv.Quote(cmd.Flags().Arg(0)))
	}
	if err := w.end(); err != nil {
		return err
	}
	return out.Flush()
}

// seriesWriter writes the chunks of an answer.
type seriesWriter interface {
	chunk(*client.Chunk) error
	end() error
}

// tableSeries writes for people: a line for each series, its rows below.
type tableSeries struct {
	out     io.Writer
	columns []aggregate
	series  *client.Series
}

func (t *tableSeries) chunk(c *client.Chunk) error {
	if t.series != c.Series {
		if t.series != nil {
			fmt.Fprintln(t.out)
		}
		t.series = c.Series
		fmt.Fprintf(t.out, "%v\n%-24s", c.Series, "TIME")
		for _, a := range t.columns {
			fmt.Fprintf(t.out, "  %22s", strings.ToUpper(a.name))
		}
		fmt.Fprintln(t.out)
	}
	columns := columnsOf(c, t.columns)
	for i, ms := range c.TimesMs {
		fmt.Fprintf(t.out, "%-24s", time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z"))
		for _, column := range columns {
			fmt.Fprintf(t.out, "  %22s", strconv.FormatFloat(column[i], 'g', -1, 64))
		}
		if _, err := fmt.Fprintln(t.out); err != nil {
			return err
		}
	}
	return nil
}

func (t *tableSeries) end() error { return nil }

func columnsOf(c *client.Chunk, list []aggregate) (columns [][]float64) {
	for _, a := range list {
		columns = append(columns, a.column(c))
	}
	return columns
}

// jsonSeries writes for programs: an array with an object for each chunk of a series.
type jsonSeries struct {
	out     io.Writer
	columns []aggregate
	began   bool
}

// jsonFloat is a number, or a string where JSON has no number: "NaN", "+Inf", "-Inf".
type jsonFloat float64

// MarshalJSON returns the shortest decimal.
func (f jsonFloat) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(f), 'g', -1, 64)
	if v := float64(f); math.IsNaN(v) || math.IsInf(v, 0) {
		text = strconv.Quote(text)
	}
	return []byte(text), nil
}

func (j *jsonSeries) chunk(c *client.Chunk) error {
	separator := ",\n"
	if !j.began {
		j.began, separator = true, "[\n"
	}
	if _, err := io.WriteString(j.out, separator); err != nil {
		return err
	}
	object := map[string]any{"database": c.Series.Database(), "metric": c.Series.Metric(), "times_ms": c.TimesMs}
	tags := map[string]string{}
	for _, t := range c.Series.Tags() {
		tags[t.Name] = t.Value
	}
	object["tags"] = tags
	for i, column := range columnsOf(c, j.columns) {
		values := make([]jsonFloat, len(column))
		for n, v := range column {
			values[n] = jsonFloat(v)
		}
		name := j.columns[i].name
		if name == "value" {
			name = "values"
		}
		object[name] = values
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = j.out.Write(text)
	return err
}

func (j *jsonSeries) end() error {
	text := "\n]\n"
	if !j.began {
		text = "[]\n"
	}
	_, err := io.WriteString(j.out, text)
	return err
}
