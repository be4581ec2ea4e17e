package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/series"
)

// influxChunkRows is how many rows a piece of an answer has.
const influxChunkRows = 10_000

// influxDB reads InfluxDB 1.x, or what speaks its /query, by SELECT in chunks.
type influxDB struct{ *web }

// Metric implements Source.
func (influxDB) Metric(name string) string { return name }

// influxAnswer is one piece of an answer.
type influxAnswer struct {
	Results []struct {
		Series  []influxSeries `json:"series"`
		Error   string         `json:"error"`
		Partial bool           `json:"partial"` // another piece comes
	} `json:"results"`
	Error string `json:"error"`
}

type influxSeries struct {
	Name    string            `json:"name"`
	Tags    map[string]string `json:"tags"`
	Columns []string          `json:"columns"`
	Values  [][]any           `json:"values"`
}

// query visits the series of the pieces of an answer.
func (i influxDB) query(ctx context.Context, text string, visit func(*influxSeries) error) error {
	answer, err := i.ask(ctx, request{path: "/query", query: url.Values{
		"q": {text}, "db": {i.options.Database}, "epoch": {"ns"}, "chunked": {"true"}, "chunk_size": {strconv.Itoa(influxChunkRows)},
	}})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := &pieces{Reader: answer.Body, max: i.pieceBytesMax}
	decoder := json.NewDecoder(body)
	decoder.UseNumber()
	partial := false
	for {
		var piece influxAnswer
		body.next()
		err := decoder.Decode(&piece)
		switch syntax := (*json.SyntaxError)(nil); {
		case errors.Is(err, errTooMuch):
			return err
		case errors.Is(err, io.EOF) && partial: // it has a bound that it does not tell
			return &marked{errTooMuch, malformed("it ends where it announces more")}
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &syntax):
			return malformed("%w", err)
		case err != nil:
			return broken(err)
		}
		if err := influxError(piece.Error); err != nil {
			return err
		}
		for _, result := range piece.Results {
			partial = result.Partial
			if err := influxError(result.Error); err != nil {
				return err
			}
			for n := range result.Series {
				if err := visit(&result.Series[n]); err != nil {
					return err
				}
			}
		}
	}
}

// influxError marks an error that stands in an answer.
func influxError(text string) error {
	switch {
	case text == "":
		return nil
	case saysTooMuch(text):
		return &marked{errTooMuch, fmt.Errorf("InfluxDB: %s", text)}
	case strings.Contains(text, "timeout"), strings.Contains(text, "not available"):
		return temporary(fmt.Errorf("InfluxDB: %s", text))
	}
	return fmt.Errorf("InfluxDB: %s", text)
}

// column returns the texts of a column of an answer.
func (i influxDB) column(ctx context.Context, query, column string) (all []string, err error) {
	err = i.query(ctx, query, func(s *influxSeries) error {
		at := slices.Index(s.Columns, column)
		for _, row := range s.Values {
			if at >= 0 && at < len(row) {
				if text, ok := row[at].(string); ok {
					all = append(all, text)
				}
			}
		}
		return nil
	})
	return all, err
}

// Names implements Source: the measurements that have a row in the range.
func (i influxDB) Names(ctx context.Context, fromMs, toMs int64) (names []string, err error) {
	err = i.query(ctx, fmt.Sprintf("SELECT * FROM %s/.*/ WHERE time >= %dms AND time < %dms LIMIT 1", i.policy(), fromMs, toMs+1), func(s *influxSeries) error {
		names = append(names, s.Name)
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// checkPolicies refuses a database whose samples are in several retention policies, of which none is named: they may
// be the same ones in several resolutions.
func (i influxDB) checkPolicies(ctx context.Context) error {
	policies, err := i.column(ctx, "SHOW RETENTION POLICIES ON "+quoted(i.options.Database), "name")
	if err != nil || i.options.RetentionPolicy != "" || len(policies) < 2 {
		return err
	}
	return fmt.Errorf("%w: the database %q has the retention policies %s: name one by --source-retention-policy, and migrate one after the other",
		ErrOptions, i.options.Database, strings.Join(policies, ", "))
}

// quoted returns a name as InfluxQL writes it.
func quoted(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name) + `"`
}

// Begins implements Source.
func (i influxDB) Begins(ctx context.Context, beforeMs int64) (begins, ok bool, err error) {
	if err := i.checkPolicies(ctx); err != nil {
		return false, true, err
	}
	names, err := i.Names(ctx, influxTimeMsMin, beforeMs-1)
	return len(names) > 0, true, err
}

// influxTimeMsMin is the first time of InfluxDB.
const influxTimeMsMin = -9_223_372_036_854

// policy returns what stands before a measurement in a query.
func (i influxDB) policy() string {
	if i.options.RetentionPolicy == "" {
		return quoted(i.options.Database) + ".."
	}
	return quoted(i.options.Database) + "." + quoted(i.options.RetentionPolicy) + "."
}

// Read implements Source.
func (i influxDB) Read(ctx context.Context, name string, fromMs, toMs int64, visit Visitor) (LeftOut, error) {
	r := influxReading{visit: visit}
	query := fmt.Sprintf("SELECT * FROM %s%s WHERE time >= %dms AND time < %dms GROUP BY *", i.policy(), quoted(name), fromMs, toMs+1)
	if err := i.query(ctx, query, r.rows); err != nil {
		return r.leftOut, err
	}
	err := r.end()
	return r.leftOut, err
}

// influxReading reads the rows of one measurement. Fields are series of their own, so that pieces of several series
// come in turns: each has a last sample that is held back.
type influxReading struct {
	visit   Visitor
	leftOut LeftOut

	name   string // of the rows before
	tags   map[string]string
	fields []influxField
}

// influxField is a column.
type influxField struct {
	name   string
	series *client.Series // nil: it cannot be named
	once   once
	times  []int64
	values []float64
}

func (r *influxReading) rows(s *influxSeries) error {
	if r.fields == nil || s.Name != r.name || !maps.Equal(s.Tags, r.tags) || !r.sameColumns(s.Columns) {
		if err := r.end(); err != nil {
			return err
		}
		r.begin(s)
	}
	for _, row := range s.Values {
		if len(row) != len(s.Columns) || len(row) == 0 {
			return malformed("a row of %d columns has %d", len(s.Columns), len(row))
		}
		ns, ok := row[0].(json.Number)
		if !ok {
			return malformed("a row has the time %v", row[0])
		}
		at, err := ns.Int64()
		if err != nil {
			return malformed("a time: %w", err)
		}
		ms := floorDiv(at, int64(time.Millisecond))
		for n := range r.fields {
			if err := r.field(&r.fields[n], ms, row[n+1]); err != nil {
				return err
			}
		}
	}
	for n := range r.fields {
		f := &r.fields[n]
		if len(f.times) > 0 {
			if err := f.once.Visit(Run{f.series, f.times, f.values}); err != nil {
				return err
			}
		}
		f.times, f.values = f.times[:0], f.values[:0]
	}
	return nil
}

func floorDiv(a, b int64) int64 {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

// begin makes the fields of a series with other tags.
func (r *influxReading) begin(s *influxSeries) {
	r.name, r.tags = s.Name, s.Tags
	r.fields = make([]influxField, 0, len(s.Columns))
	for _, name := range s.Columns[min(1, len(s.Columns)):] { // the first is the time
		f := influxField{name: name, once: once{visit: r.visit}}
		var tags []client.Tag
		for tag, value := range s.Tags {
			if value != "" {
				tags = append(tags, client.Tag{Name: tag, Value: value})
			}
		}
		if name != valueField {
			tags = append(tags, client.Tag{Name: series.FieldTagName, Value: name})
		}
		f.series, _ = client.NewSeries(s.Name, tags...)
		r.fields = append(r.fields, f)
	}
}

// valueField is the field whose series has no tag for it.
const valueField = "value"

// field takes one cell of a row.
func (r *influxReading) field(f *influxField, ms int64, cell any) error {
	var v float64
	switch cell := cell.(type) {
	case nil:
		return nil
	case json.Number:
		number, err := cell.Float64()
		if err != nil {
			return malformed("a number: %w", err)
		}
		v = number
	case bool:
		if cell {
			v = 1
		}
	default:
		r.leftOut.Texts++
		return nil
	}
	if f.series == nil {
		r.leftOut.Series++
		return nil
	}
	f.times, f.values = append(f.times, ms), append(f.values, v)
	return nil
}

func (r *influxReading) sameColumns(columns []string) bool {
	if len(columns) != len(r.fields)+1 {
		return false
	}
	for n := range r.fields {
		if r.fields[n].name != columns[n+1] {
			return false
		}
	}
	return true
}

// end visits what is held back.
func (r *influxReading) end() error {
	for n := range r.fields {
		f := &r.fields[n]
		if err := f.once.End(); err != nil {
			return err
		}
		r.leftOut.Repeated += f.once.repeated
	}
	r.fields = nil
	return nil
}
