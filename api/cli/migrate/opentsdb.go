package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"

	"github.com/tickmesh/tickmesh/api/client"
)

// Bounds of OpenTSDB's answers.
const (
	suggestionsMax   = 1 << 20 // metrics that a source is asked for
	seriesSamplesMax = 1 << 24 // of one series in a step, as its names may stand behind them
)

// openTSDB reads by /api/suggest and /api/query, of OpenTSDB and of TickTock.
type openTSDB struct{ *web }

// Metric implements Source.
func (openTSDB) Metric(name string) string { return name }

// Names implements Source.
func (o openTSDB) Names(ctx context.Context, _, _ int64) (names []string, err error) {
	err = o.list(ctx, request{path: "/api/suggest", query: url.Values{"type": {"metrics"}, "q": {""}, "max": {strconv.Itoa(suggestionsMax)}}}, &names)
	if err == nil && len(names) >= suggestionsMax {
		return nil, fmt.Errorf("the source has %d metrics or more, of which it lists no more", suggestionsMax)
	}
	slices.Sort(names)
	return names, err
}

// Begins implements Source: OpenTSDB would have to read all of its samples.
func (openTSDB) Begins(context.Context, int64) (begins, ok bool, err error) { return false, false, nil }

// Read implements Source. The aggregator none answers with each series by itself.
func (o openTSDB) Read(ctx context.Context, name string, fromMs, toMs int64, visit Visitor) (LeftOut, error) {
	// OpenTSDB refuses a range whose end is its start. What it answers beyond the range is passed over.
	endMs := max(toMs, fromMs+1)
	answer, err := o.ask(ctx, request{path: "/api/query", query: url.Values{
		"start": {strconv.FormatInt(fromMs, 10)}, "end": {strconv.FormatInt(endMs, 10)}, "m": {"none:" + name}, "msResolution": {"true"}, "ms": {"true"},
	}})
	if err != nil {
		return LeftOut{}, err
	}
	defer answer.Body.Close()
	body := &pieces{Reader: answer.Body, max: o.pieceBytesMax}
	body.next()
	r := openTSDBReading{name: name, fromMs: fromMs, toMs: toMs, visit: visit, body: body, text: json.NewDecoder(body)}
	r.text.UseNumber()
	err = r.answer()
	switch syntax := (*json.SyntaxError)(nil); {
	case errors.As(err, &syntax):
		err = malformed("%w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = broken(err)
	}
	return r.leftOut, err
}

// openTSDBReading reads an answer of /api/query as it arrives.
type openTSDBReading struct {
	name         string // that was asked for
	fromMs, toMs int64
	visit        Visitor
	leftOut      LeftOut
	body         *pieces // of text
	text         *json.Decoder

	metric string
	tags   map[string]string
	times  []int64
	values []float64
}

// delimiter reads a bracket.
func (r *openTSDBReading) delimiter(want json.Delim) error {
	token, err := r.text.Token()
	if err != nil {
		return err
	}
	if token != want {
		return malformed("%v where %v is expected", token, want)
	}
	return nil
}

// answer reads the array of series.
func (r *openTSDBReading) answer() error {
	if err := r.delimiter('['); err != nil {
		return err
	}
	for r.text.More() {
		if err := r.series(); err != nil {
			return err
		}
	}
	return r.delimiter(']')
}

func (r *openTSDBReading) series() error {
	if err := r.delimiter('{'); err != nil {
		return err
	}
	r.metric, r.tags, r.times, r.values = "", nil, r.times[:0], r.values[:0]
	for r.text.More() {
		r.body.next()
		name, err := r.text.Token()
		if err != nil {
			return err
		}
		switch name {
		case "metric":
			err = r.text.Decode(&r.metric)
		case "tags":
			err = r.text.Decode(&r.tags)
		case "dps":
			err = r.points()
		default:
			var ignored json.RawMessage
			err = r.text.Decode(&ignored)
		}
		if err != nil {
			return err
		}
	}
	if err := r.delimiter('}'); err != nil {
		return err
	}
	switch {
	case len(r.times) == 0:
		return nil
	case r.metric != r.name: // which the question cannot say, as with a colon
		return malformed("the metric %q was asked for, and %q comes", r.name, r.metric)
	}
	tags := make([]client.Tag, 0, len(r.tags))
	for name, value := range r.tags {
		tags = append(tags, client.Tag{Name: name, Value: value})
	}
	return visitNamed(r.visit, &r.leftOut, r.metric, tags, r.times, r.values)
}

// points reads an object of values by their times, in their order.
func (r *openTSDBReading) points() error {
	if err := r.delimiter('{'); err != nil {
		return err
	}
	for r.text.More() {
		r.body.next()
		stamp, err := r.text.Token()
		if err != nil {
			return err
		}
		value, err := r.text.Token()
		if err != nil {
			return err
		}
		text, _ := stamp.(string) // a name of an object
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return malformed("a time: %w", err)
		}
		v, err := openTSDBValue(value)
		if err != nil {
			return err
		}
		if ms < r.fromMs || ms > r.toMs { // TickTock answers some samples around the range
			continue
		}
		if len(r.times) >= seriesSamplesMax {
			return &marked{errTooMuch, fmt.Errorf("more than %d samples of one series", seriesSamplesMax)}
		}
		r.times, r.values = append(r.times, ms), append(r.values, v)
	}
	return r.delimiter('}')
}

func openTSDBValue(token json.Token) (float64, error) {
	switch value := token.(type) {
	case json.Number:
		v, err := value.Float64()
		if err != nil {
			return 0, malformed("a value: %w", err)
		}
		return v, nil
	case string:
		switch value {
		case "NaN":
			return math.NaN(), nil
		case "Infinity":
			return math.Inf(1), nil
		case "-Infinity":
			return math.Inf(-1), nil
		}
	}
	return 0, malformed("the value %v", token)
}
