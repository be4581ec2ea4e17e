package settings

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Time is a flag's point in time: now, 1h-ago, 2026-01-31, 2026-01-31T12:00:00Z, or
// seconds or, with more than ten digits, milliseconds since 1970.
type Time struct {
	text string
	at   func(now time.Time) int64 // milliseconds
}

var errTime = errors.New("expected now, a time ago such as 1h-ago, a date, a time in RFC 3339, or seconds or milliseconds since 1970")

// Set implements pflag.Value.
func (m *Time) Set(text string) error {
	at, err := parseTime(text)
	if err != nil {
		return err
	}
	m.text, m.at = text, at
	return nil
}

// Type implements pflag.Value.
func (m *Time) Type() string { return "time" }

// String implements pflag.Value.
func (m *Time) String() string { return m.text }

// UnixMilli returns the flag's time in Unix milliseconds at now, or def if the flag is unset.
func (m *Time) UnixMilli(now time.Time, def int64) int64 {
	if m.at == nil {
		return def
	}
	return m.at(now)
}

func parseTime(text string) (at func(time.Time) int64, err error) {
	if text == "now" {
		return time.Time.UnixMilli, nil
	}
	if ago, ok := strings.CutSuffix(text, "-ago"); ok {
		var s Duration
		if err := s.Set(ago); err != nil {
			return nil, errTime
		}
		return func(now time.Time) int64 { return now.Add(-time.Duration(s)).UnixMilli() }, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 1e10 && n > -1e10 {
			n *= 1000
		}
		if n < scan.TimeMsMin || n > scan.TimeMsMax {
			return nil, errTime
		}
		return func(time.Time) int64 { return n }, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil { // without a zone: UTC
			return func(time.Time) int64 { return t.UnixMilli() }, nil
		}
	}
	return nil, errTime
}
