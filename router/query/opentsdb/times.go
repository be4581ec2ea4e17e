package opentsdb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

const (
	secondMs = int64(1000)
	hourMs   = 3600 * secondMs
	dayMs    = 24 * hourMs
)

// durationMsMax bounds durations, so that sums of times and widths stay far
// from overflow: 30,000 years.
const durationMsMax = 30_000 * 365 * dayMs

// parseTime reads a time of a query, in milliseconds since the Unix epoch: now,
// 1h-ago, seconds (up to ten digits), milliseconds, seconds.milliseconds, a
// number with suffix ms, yyyy/MM/dd and yyyy/MM/dd-HH:mm[:ss] in location
// (net.opentsdb.utils.DateTime.parseDateTimeString).
func parseTime(text string, now time.Time, location *time.Location) (int64, error) {
	lower := strings.ToLower(text)
	switch {
	case text == "":
		return 0, invalid("Invalid time: the text is empty")
	case lower == "now":
		return now.UnixMilli(), nil
	case strings.HasSuffix(lower, "-ago"):
		duration, err := parseDuration(text[:len(text)-len("-ago")])
		if err != nil {
			return 0, err
		}
		return now.UnixMilli() - duration, nil
	case strings.ContainsAny(text, "/:"):
		return parseDate(text, location)
	}
	return parseEpoch(text)
}

func parseDate(text string, location *time.Location) (int64, error) {
	const layout = "2006/01/02 15:04:05"
	if n := len(text); n != 10 && n != 16 && n != 19 {
		return 0, invalid("Invalid absolute date: %s", text)
	}
	spaced := text
	if len(text) > 10 && text[10] == '-' {
		spaced = text[:10] + " " + text[11:]
	}
	t, err := time.ParseInLocation(layout[:len(text)], spaced, location)
	if err != nil {
		return 0, invalid("Invalid date: %s. Dates are yyyy/MM/dd, yyyy/MM/dd-HH:mm or yyyy/MM/dd-HH:mm:ss", text)
	}
	return t.UnixMilli(), nil
}

func parseEpoch(text string) (int64, error) {
	digits, isMs := strings.CutSuffix(text, "ms")
	whole, fraction, dotted := strings.Cut(digits, ".")
	if dotted {
		if isMs || len(whole) != 10 || len(fraction) < 1 || len(fraction) > 3 {
			return 0, invalid("Invalid time: %s. Millisecond timestamps must be in the format <seconds>.<ms> "+
				"where the milliseconds are limited to 3 digits", text)
		}
		digits = whole + (fraction + "00")[:3]
		isMs = true
	}
	if strings.HasPrefix(digits, "-") {
		return 0, invalid("Invalid time: %s. Negative timestamps are not supported.", text)
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > scan.TimeMsMax/2 {
		return 0, invalid("Invalid time: %s", text)
	}
	if !isMs && len(digits) <= 10 {
		return int64(n) * secondMs, nil
	}
	return int64(n), nil
}

// parseDuration reads a number and a unit, in milliseconds: ms, s, m, h, d, w,
// n (30 days), y (365 days).
func parseDuration(text string) (int64, error) {
	n, unit, err := splitDuration(text)
	if err != nil {
		return 0, err
	}
	unitMs := map[string]int64{"ms": 1, "s": secondMs, "m": 60 * secondMs, "h": hourMs, "d": dayMs, "w": 7 * dayMs, "n": 30 * dayMs, "y": 365 * dayMs}[unit]
	if n > durationMsMax/unitMs {
		return 0, invalid("Invalid duration: %s is longer than 30,000 years", text)
	}
	return n * unitMs, nil
}

// splitDuration returns the number and the unit, in lower case, of a duration.
func splitDuration(text string) (n int64, unit string, err error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if digits == 0 || digits == len(text) {
		return 0, "", invalid("Invalid duration, must have an integer and unit: %s", text)
	}
	n, err = strconv.ParseInt(text[:digits], 10, 64)
	if err != nil {
		return 0, "", invalid("Invalid duration (number): %s", text)
	}
	if n <= 0 {
		return 0, "", invalid("Zero or negative duration: %s", text)
	}
	unit = strings.ToLower(text[digits:])
	switch unit {
	case "ms", "s", "m", "h", "d", "w", "n", "y":
		return n, unit, nil
	}
	return 0, "", invalid("Invalid duration (suffix): %s", text)
}

// zoneBytesMax is more than the name of any zone has.
const zoneBytesMax = 255

// findLocation returns the location of a time zone's name; empty means UTC.
func findLocation(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	// Local is the server's zone, which the client cannot mean.
	if strings.EqualFold(name, "local") || len(name) > zoneBytesMax {
		return nil, invalid("Invalid timezone name: %.100s", name)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, &apiError{status: 400, message: fmt.Sprintf("Invalid timezone name: %s", name)}
	}
	return location, nil
}

// floorTo returns the largest multiple of widthMs that is not above timeMs.
func floorTo(timeMs, widthMs int64) int64 {
	offset := timeMs % widthMs
	if offset < 0 {
		offset += widthMs
	}
	return timeMs - offset
}
