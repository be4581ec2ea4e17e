package opentsdb

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// fillPolicy describes the value of a window without a sample (net.opentsdb.core.FillPolicy).
type fillPolicy uint8

const (
	fillNone   fillPolicy = iota // no point
	fillNaN                      // NaN
	fillNull                     // NaN, written as null
	fillZero                     // 0
	fillScalar                   // a number that the request names
)

// downsample is a parsed downsampling specification.
type downsample struct {
	function aggregator
	whole    bool      // one window: the query's range without its end
	widthMs  int64     // of fixed windows, which start at multiples of it
	calendar *calendar // windows of a calendar instead
	fill     fillPolicy
	value    float64 // of windows without a sample
}

// parseDownsample reads interval-function[-fill]: an interval like 5m, with the
// suffix c for the calendar of location, or all; a fill policy none, nan, null,
// zero or scalar(number). UseCalendar makes every interval one of the calendar. OriginMs
// is the query's start.
func parseDownsample(text string, useCalendar bool, location *time.Location, originMs int64) (*downsample, error) {
	parts := strings.SplitN(text, "-", 3)
	if len(parts) < 2 {
		return nil, invalid("Invalid downsampling specifier '%s': must provide at least interval and function", text)
	}
	d := &downsample{}
	if err := d.parseInterval(parts[0], useCalendar, location, originMs); err != nil {
		return nil, err
	}
	function, ok := findAggregator(parts[1])
	if !ok {
		return nil, invalid("No such downsampling function: %s", parts[1])
	}
	if function.selection != selectMerged {
		return nil, invalid("cannot use the %s aggregator for downsampling", strings.ToUpper(function.name))
	}
	d.function = function
	if len(parts) == 3 {
		if err := d.parseFill(parts[2]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *downsample) parseInterval(text string, useCalendar bool, location *time.Location, originMs int64) error {
	if before, ok := strings.CutSuffix(text, "all"); ok && strings.Trim(before, "0123456789") == "" {
		d.whole = true
		return nil
	}
	duration, ofCalendar := strings.CutSuffix(text, "c")
	n, unit, err := splitDuration(duration)
	if err != nil {
		return err
	}
	width, err := parseDuration(duration)
	if err != nil {
		return err
	}
	if ofCalendar || useCalendar {
		d.calendar = &calendar{n: n, unit: unit, location: location, originMs: originMs}
	}
	d.widthMs = width
	return nil
}

func (d *downsample) parseFill(text string) error {
	switch lower := strings.ToLower(text); {
	case lower == "none", lower == "": // Grafana's backend writes 1m-avg- where a panel says nothing
		d.fill = fillNone
	case lower == "nan":
		d.fill, d.value = fillNaN, math.NaN()
	case lower == "null":
		d.fill, d.value = fillNull, math.NaN()
	case lower == "zero":
		d.fill = fillZero
	case strings.HasPrefix(lower, "scalar(") && strings.HasSuffix(lower, ")"):
		number := text[len("scalar(") : len(text)-1]
		value, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsInf(value, 0) {
			return invalid("Invalid scalar of a fill policy: '%s'", number)
		}
		d.fill, d.value = fillScalar, value
	case lower == "scalar":
		return invalid("The fill policy scalar needs a number: scalar(5)")
	default:
		return invalid("No such fill policy: '%s': must be one of: none nan null zero scalar(number)", text)
	}
	return nil
}

// start returns the start of the window that holds timeMs; for fixed windows and
// those of a calendar.
func (d *downsample) start(timeMs int64) int64 {
	if d.calendar != nil {
		return d.calendar.start(timeMs)
	}
	return floorTo(timeMs, d.widthMs)
}

// next returns the start of the window after the one that starts at startMs.
func (d *downsample) next(startMs int64) int64 {
	if d.calendar != nil {
		return d.calendar.next(startMs)
	}
	return startMs + d.widthMs
}

// pushedWindows returns the request of a scan by windows, nil where samples are
// needed. A window over all is pushed too when its function is carried.
func (d *downsample) pushedWindows(s span) *scan.Windows {
	if d.function.pushed == 0 || d.calendar != nil {
		return nil
	}
	if d.whole {
		return &scan.Windows{OriginMs: s.scanFrom, WidthMs: s.scanTo - s.scanFrom + 1, Aggregates: d.function.pushed}
	}
	return &scan.Windows{WidthMs: d.widthMs, Aggregates: d.function.pushed}
}

// span is the time that a sub-query has to look at, in milliseconds, all ends
// inclusive.
type span struct {
	outFrom, outTo   int64 // points of the answer
	scanFrom, scanTo int64 // samples that matter
	gridFrom         int64 // first window that is filled
	empty            bool  // no window starts in the range asked for
}

// planSpan computes the span of a sub-query. OpenTSDB reads whole rows of one
// hour, so a line across the border of the range comes from points up to the
// hour's ends, and the first rate from the sample before the range when it is
// of the same hour. Windows are always complete and count for the query when
// they start in its range (TsdbQuery.getScanStartTimeSeconds,
// HttpJsonSerializer.formatQueryAsyncV1).
func planSpan(fromMs, toMs int64, d *downsample, before, after bool) span {
	s := span{outFrom: fromMs, outTo: toMs, scanFrom: fromMs, scanTo: toMs}
	if d != nil && d.whole {
		s.scanTo = toMs - 1
		s.empty = s.scanTo < s.scanFrom
		return s
	}
	if d == nil {
		if before {
			s.scanFrom = floorTo(fromMs, hourMs)
		}
		if after {
			s.scanTo = floorTo(toMs, hourMs) + hourMs - 1
		}
		return s
	}
	firstOut := d.ceil(fromMs)
	s.empty = firstOut > toMs
	s.scanFrom, s.gridFrom = firstOut, firstOut
	if before {
		s.scanFrom = d.ceil(floorTo(d.start(fromMs), hourMs))
		s.gridFrom = s.scanFrom
	}
	end := d.next(d.start(toMs))
	switch hours := floorTo(end-1, hourMs) + hourMs; {
	case d.fill != fillNone: // a series that has a sample in these hours is filled
		s.scanFrom, end = floorTo(d.start(fromMs), hourMs), hours
	case after:
		end = d.ceil(hours)
	}
	s.scanTo = end - 1
	return s
}

// ceil returns the start of the first window that starts at timeMs or later.
func (d *downsample) ceil(timeMs int64) int64 {
	start := d.start(timeMs)
	if start < timeMs {
		start = d.next(start)
	}
	return start
}
