package migrate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// Bounds of an export. A line of so many samples is less than the longest one.
const (
	exportLineSamples  = 100_000
	exportLineBytesMax = 16 << 20
	victoriaNamesMax   = 100_000 // that it lists with its default settings, without a word of those beyond
)

// victoriaMetrics reads by /api/v1/export, of a single server or of vmselect.
type victoriaMetrics struct{ *web }

// Metric implements Source.
func (victoriaMetrics) Metric(name string) string { return name }

// Names implements Source.
func (v victoriaMetrics) Names(ctx context.Context, fromMs, toMs int64) ([]string, error) {
	names, err := v.metricNames(ctx, fromMs, toMs)
	if err == nil && len(names) == victoriaNamesMax {
		err = fmt.Errorf("the source lists %d metrics, which is all that it lists by itself: raise its -search.maxTagValues", len(names))
	}
	return names, err
}

// Begins implements Source. It asks for an export and reads its first byte: lists of names are of whole days, or of
// all days.
func (v victoriaMetrics) Begins(ctx context.Context, beforeMs int64) (begins, ok bool, err error) {
	answer, err := v.ask(ctx, exportRequest(`{__name__!=""}`, 0, beforeMs-1, 1))
	if err != nil {
		return false, true, err
	}
	defer answer.Body.Close()
	switch _, err := io.ReadFull(answer.Body, make([]byte, 1)); {
	case errors.Is(err, io.EOF):
		return false, true, nil
	case err != nil:
		return false, true, broken(err)
	}
	return true, true, nil
}

func exportRequest(selector string, fromMs, toMs int64, samples int) request {
	return request{path: "/api/v1/export", query: url.Values{
		"match[]": {selector}, "start": {seconds(fromMs)}, "end": {seconds(toMs)}, "max_rows_per_line": {strconv.Itoa(samples)},
	}}
}

// Read implements Source.
func (v victoriaMetrics) Read(ctx context.Context, name string, fromMs, toMs int64, visit Visitor) (leftOut LeftOut, err error) {
	answer, err := v.ask(ctx, exportRequest("{__name__="+strconv.Quote(name)+"}", fromMs, toMs, exportLineSamples))
	if err != nil {
		return leftOut, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 64<<10), exportLineBytesMax)
	reading := exportReading{visit: visit}
	for lines.Scan() {
		if err := reading.line(lines.Bytes()); err != nil {
			if ended := lines.Err(); ended != nil { // in the middle of this line
				err = broken(ended)
			}
			return reading.leftOut, err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return reading.leftOut, &marked{errTooMuch, malformed("a line of more than %d bytes", exportLineBytesMax)}
	case err != nil:
		return reading.leftOut, broken(err)
	}
	return reading.leftOut, nil
}

// exportReading reads lines of an export.
type exportReading struct {
	visit   Visitor
	leftOut LeftOut
	batch   parse.Batch
	keys    parse.KeyBuilder
	times   []int64
	values  []float64
}

func (e *exportReading) line(text []byte) error {
	limits := parse.Limits{LineBytesMax: exportLineBytesMax, TagsMax: series.TagsMax, KeyBytesMax: series.KeyBytesMax, ErrorsMax: 1}
	if _, err := parse.JSONLines(&e.batch, text, parse.LineOptions{Limits: limits}); err != nil {
		return malformed("%w", err)
	}
	if len(e.batch.Errors) > 0 {
		return malformed("%w: %.200q", &e.batch.Errors[0], text)
	}
	for i := range e.batch.Lines {
		l := &e.batch.Lines[i]
		e.times, e.values = e.times[:0], e.values[:0]
		for _, p := range e.batch.Points[l.First : l.First+l.Count] {
			e.times, e.values = append(e.times, p.TimeMs), append(e.values, series.Float64(p.Mantissa, p.Scale))
		}
		if err := e.keys.Start(&e.batch, l, nil, limits); err != nil {
			e.leftOut.Series++
			continue
		}
		key, err := e.keys.Key(nil, false)
		if err != nil {
			e.leftOut.Series++
			continue
		}
		_, metric, tags, err := key.Parts(nil)
		if err != nil {
			return err
		}
		list := make([]client.Tag, len(tags))
		for n, t := range tags {
			list[n] = client.Tag{Name: string(t.Name), Value: string(t.Value)}
		}
		if err := visitNamed(e.visit, &e.leftOut, string(metric), list, e.times, e.values); err != nil {
			return err
		}
	}
	return nil
}
