package interchange

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// Format is a form of text.
type Format string

// The formats.
const (
	Line Format = "line" // InfluxDB line protocol
	CSV  Format = "csv"
	JSON Format = "json" // OpenTSDB
)

// ErrFormat marks text that is not of its format.
var ErrFormat = errors.New("cannot be read")

// PlaceError describes where text cannot be read. It is an ErrFormat.
type PlaceError struct {
	What   string // "line" or "datapoint"
	Number int64  // from 1
	Err    error
}

// Error returns the text for people.
func (e *PlaceError) Error() string { return fmt.Sprintf("%s %d: %v", e.What, e.Number, e.Err) }

// Unwrap returns the cause.
func (e *PlaceError) Unwrap() error { return e.Err }

// Is reports whether the error is ErrFormat.
func (e *PlaceError) Is(target error) bool { return target == ErrFormat }

// identity is a series' names.
type identity struct {
	metric []byte
	tags   []series.Tag
	key    series.Key // without database
}

// identityOf returns the names of a key. Errors: series.ErrKey.
func identityOf(k series.Key) (identity, error) {
	_, metric, tags, err := k.Parts(nil)
	if err != nil {
		return identity{}, err
	}
	return identity{metric: metric, tags: tags, key: series.AppendKey(nil, nil, metric, tags)}, nil
}

// inDatabase returns a key without database as one of a database. Errors: ErrFormat.
func inDatabase(k series.Key, database string) (series.Key, error) {
	_, metric, tags, err := k.Parts(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return keyOf(database, metric, tags)
}

// keyOf returns the key of names. Errors: ErrFormat.
func keyOf(database string, metric []byte, tags []series.Tag) (series.Key, error) {
	if len(metric) == 0 {
		return nil, fmt.Errorf("%w: there is no metric", ErrFormat)
	}
	if len(tags) > series.TagsMax {
		return nil, fmt.Errorf("%w: %d tags, more than %d", ErrFormat, len(tags), series.TagsMax)
	}
	key := series.AppendKey(nil, []byte(database), metric, tags) // sorts the tags
	for i := range tags {
		if i > 0 && string(tags[i-1].Name) == string(tags[i].Name) {
			return nil, fmt.Errorf("%w: tag %q comes twice", ErrFormat, tags[i].Name)
		}
		if len(tags[i].Name) == 0 || len(tags[i].Value) == 0 {
			return nil, fmt.Errorf("%w: tag %q=%q has no name or no value", ErrFormat, tags[i].Name, tags[i].Value)
		}
	}
	if len(key) > series.KeyBytesMax {
		return nil, fmt.Errorf("%w: the series' key has %d bytes, more than %d", ErrFormat, len(key), series.KeyBytesMax)
	}
	return key, nil
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// appendFloat appends the shortest decimal that has the bits of a finite v.
func appendFloat(dst []byte, v float64) []byte { return strconv.AppendFloat(dst, v, 'g', -1, 64) }

func appendBits(dst []byte, v float64) []byte { return fmt.Appendf(dst, "%016x", math.Float64bits(v)) }

func parseBits(text string) (float64, error) {
	bits, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 {
		return 0, fmt.Errorf("%w: %q is not a float64 in 16 hexadecimal digits", ErrFormat, text)
	}
	return math.Float64frombits(bits), nil
}

func parseKey(text, database string) (series.Key, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: key: %w", ErrFormat, err)
	}
	return inDatabase(key, database)
}

func checkTime(timeMs int64) error {
	if timeMs < scan.TimeMsMin || timeMs > scan.TimeMsMax {
		return fmt.Errorf("%w: the time is out of range", ErrFormat)
	}
	return nil
}

func parseTimeMs(text string) (int64, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no time in milliseconds", ErrFormat, text)
	}
	return ms, checkTime(ms)
}
