package interchange

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/api/series"
)

// datapoint is one element of OpenTSDB's JSON, or of our own form.
type datapoint struct {
	Metric    string            `json:"metric"`
	Timestamp scalar            `json:"timestamp"`
	Value     scalar            `json:"value"`
	Tags      map[string]scalar `json:"tags"`
	Key       string            `json:"key"`
	TimeMs    *int64            `json:"timestamp_ms"`
	Bits      string            `json:"bits"`
}

// scalar is the text of a string, number or boolean.
type scalar string

var errScalar = errors.New("expected a string, a number or a boolean")

// UnmarshalJSON keeps a number's digits.
func (s *scalar) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '{', '[', 'n':
		return errScalar
	case '"':
		return json.Unmarshal(b, (*string)(s))
	}
	*s = scalar(b)
	return nil
}

// readJSON reads one array of datapoints, or datapoints one behind the other.
func readJSON(in io.Reader, o ReadOptions, visit Visitor) error {
	buffered := bufio.NewReaderSize(in, 64<<10)
	first, err := firstByte(buffered)
	if err != nil {
		return err
	}
	r := &jsonReader{decoder: json.NewDecoder(buffered), options: o}
	if first != '[' {
		return r.points(visit, func() bool { return true })
	}
	if _, err := r.decoder.Token(); err != nil {
		return r.place(err)
	}
	if err := r.points(visit, r.decoder.More); err != nil {
		return err
	}
	r.number++
	if _, err := r.decoder.Token(); err != nil {
		return r.place(err)
	}
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return r.place(errors.New("text behind the array"))
	}
	return nil
}

// firstByte returns the first byte that is no white space, without taking it; 0 for an
// empty text.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.Peek(1)
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if strings.IndexByte(" \t\r\n", b[0]) < 0 {
			return b[0], nil
		}
		if _, err := in.Discard(1); err != nil {
			return 0, err
		}
	}
}

type jsonReader struct {
	decoder *json.Decoder
	options ReadOptions
	number  int64 // of the datapoint
}

func (r *jsonReader) place(err error) error {
	return &PlaceError{"datapoint", r.number, fmt.Errorf("%w: %w", ErrFormat, err)}
}

// points visits datapoints while there are more.
func (r *jsonReader) points(visit Visitor, more func() bool) error {
	for more() {
		r.number++
		var d datapoint
		err := r.decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.place(err)
		}
		key, timeMs, value, err := d.sample(r.options.Database)
		if err != nil {
			return r.place(err)
		}
		if err := visit(key, timeMs, value); err != nil {
			return err
		}
	}
	return nil
}

// sample returns what a datapoint says.
func (d *datapoint) sample(database string) (key series.Key, timeMs int64, value float64, err error) {
	if d.Key != "" {
		if d.TimeMs == nil {
			return nil, 0, 0, errors.New("timestamp_ms is missing")
		}
		if key, err = parseKey(d.Key, database); err != nil {
			return nil, 0, 0, err
		}
		value, err = parseBits(d.Bits)
		return key, *d.TimeMs, value, errors.Join(err, checkTime(*d.TimeMs))
	}
	var tags []series.Tag
	for name, tag := range d.Tags {
		tags = append(tags, series.Tag{Name: []byte(name), Value: []byte(tag)})
	}
	if key, err = keyOf(database, []byte(d.Metric), tags); err != nil {
		return nil, 0, 0, err
	}
	if timeMs, err = putTimeMs(string(d.Timestamp)); err != nil {
		return nil, 0, 0, err
	}
	if value, err = strconv.ParseFloat(string(d.Value), 64); err != nil {
		return nil, 0, 0, fmt.Errorf("value %q: %w", d.Value, err)
	}
	return key, timeMs, value, nil
}

// putTimeMs reads a time as /api/put does: seconds, with or without a fraction, or,
// with more than ten digits, milliseconds.
func putTimeMs(text string) (int64, error) {
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		if whole >= putTimeMsMin || whole <= -putTimeMsMin {
			return whole, checkTime(whole)
		}
		return whole * 1000, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !isFinite(v) || math.Abs(v) >= putTimeMsMax {
		return 0, fmt.Errorf("timestamp %q is no time", text)
	}
	if math.Abs(v) < putTimeMsMin {
		v *= 1000
	}
	return int64(math.Round(v)), nil
}
