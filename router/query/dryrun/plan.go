package dryrun

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// Plan is what a query would read. Its JSON is what clients get.
type Plan struct {
	Query
	Reads []Read `json:"reads"`
	// ReadsOmitted is how many more reads there are, which neither Reads nor Estimate has.
	ReadsOmitted int       `json:"readsOmitted,omitempty"`
	Estimate     Cost      `json:"estimate"`
	Admission    Admission `json:"admission"`
}

// Query is what was asked.
type Query struct {
	Dialect   string   `json:"dialect"`
	Databases []string `json:"databases"` // as they are shown
	Text      string   `json:"query"`
	// Evaluation tells who makes the answer of what is read.
	Evaluation string `json:"evaluation,omitempty"`
}

// Read is one request for samples, or for what nodes make of them.
type Read struct {
	Database string `json:"database"`
	Selector string `json:"selector"`
	From     *Time  `json:"from,omitempty"` // nil: from the first sample on
	To       *Time  `json:"to,omitempty"`   // nil: up to the last one
	// Sends is what comes back: "samples", "newest samples", "values at steps", "groups at steps", "windows".
	Sends   string   `json:"sends"`
	Steps   *Steps   `json:"steps,omitempty"`
	Windows *Windows `json:"windows,omitempty"`
	Cost
}

// Steps are times at which a function of the samples before each is wanted.
type Steps struct {
	Function string `json:"function"`
	Range    string `json:"range"`
	Every    string `json:"every,omitempty"` // without a count of more than one there is none
	Count    int    `json:"count"`
	Fold     string `json:"fold,omitempty"` // of groups of series
}

// Windows are stretches of time of which aggregates are wanted.
type Windows struct {
	Width      string   `json:"width"`
	Aggregates []string `json:"aggregates"`
	// Rollup is which rollups may answer instead of samples: "day", "hour" or "none".
	Rollup string `json:"rollup"`
}

// Cost is what reading takes. All but Series is estimated.
type Cost struct {
	Series int64 `json:"series"`
	// Samples is how many there are in the time that is read; rollups may stand for most of them.
	Samples int64 `json:"samples"`
	// Values is how many samples, windows or steps come to the router at most, and Bytes what they take there.
	Values int64 `json:"values"`
	Bytes  int64 `json:"bytes"`
}

// Admission is what is left of the limits of the query; 0: there is none.
type Admission struct {
	SeriesMax  int64 `json:"seriesMax"`
	SamplesMax int64 `json:"samplesMax"`
	BytesMax   int64 `json:"bytesMax"`
	// Exceeds names the limits that the estimate is beyond, at which the query would be refused.
	Exceeds []string `json:"exceeds"`
}

// Time is in milliseconds since 1970; its JSON is RFC 3339.
type Time int64

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func (t Time) String() string {
	return time.UnixMilli(int64(t)).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// timeOf returns a time unless it is an end of all time.
func timeOf(ms int64) *Time {
	if at := time.UnixMilli(ms).UTC().Year(); ms <= scan.TimeMsMin || ms >= scan.TimeMsMax || at < 0 || at > 9999 { // RFC 3339 has no others
		return nil
	}
	t := Time(ms)
	return &t
}

// admissionOf compares an estimate with what is left of the limits.
func admissionOf(c Cost, left scan.Limits) Admission {
	a := Admission{SeriesMax: left.SeriesMax, SamplesMax: left.SamplesMax, BytesMax: left.BytesMax, Exceeds: []string{}}
	for _, limit := range []struct {
		name      string
		cost, max int64
	}{{"series", c.Series, a.SeriesMax}, {"samples", c.Samples, a.SamplesMax}, {"bytes", c.Bytes, a.BytesMax}} {
		if limit.max > 0 && limit.cost > limit.max {
			a.Exceeds = append(a.Exceeds, limit.name)
		}
	}
	return a
}

// describe returns what a request reads, without its cost.
func describe(r *scan.Request) Read {
	read := Read{Database: r.Database, Selector: selectorText(&r.Selector), From: timeOf(r.FromMs), To: timeOf(r.ToMs), Sends: "samples"}
	switch s, w := r.Steps, r.Windows; {
	case s != nil:
		read.Steps = &Steps{Function: functionNames[s.Function], Range: durationText(s.RangeMs), Count: s.Count()}
		if read.Steps.Count > 1 {
			read.Steps.Every = durationText(s.StepMs)
		}
		read.Sends = "values at steps"
		if s.Function == scan.StepNewest {
			read.Sends = "newest samples"
		}
		if s.Fold != nil {
			read.Sends, read.Steps.Fold = "groups at steps", foldText(s.Fold)
		}
	case w != nil:
		read.Windows = &Windows{Width: durationText(w.WidthMs), Rollup: rollupOf(w), Aggregates: aggregatesOf(w.Aggregates)}
		read.Sends = "windows"
	}
	return read
}

// rollupOf returns which rollups windows may be made of. Storage knows better for the edges of windows and of the time that is read.
func rollupOf(w *scan.Windows) string {
	ends := w.Aggregates&(scan.AggregateFirst|scan.AggregateLast) != 0
	switch {
	case w.WidthMs%scan.DayMs == 0 && w.OriginMs%scan.DayMs == 0, ends && w.WidthMs >= 2*scan.DayMs:
		return "day"
	case w.WidthMs%scan.HourMs == 0 && w.OriginMs%scan.HourMs == 0, w.WidthMs >= 2*scan.HourMs:
		return "hour"
	}
	return "none"
}

func durationText(ms int64) string {
	return (time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond).String()
}

//nolint:gochecknoglobals // constant tables
var (
	functionNames = map[scan.StepFunction]string{
		scan.StepNewest: "newest", scan.StepRate: "rate", scan.StepIncrease: "increase", scan.StepDelta: "delta", scan.StepIrate: "irate",
		scan.StepIdelta: "idelta", scan.StepDeriv: "deriv", scan.StepChanges: "changes", scan.StepResets: "resets", scan.StepAvg: "avg_over_time",
		scan.StepSum: "sum_over_time", scan.StepMin: "min_over_time", scan.StepMax: "max_over_time", scan.StepCount: "count_over_time",
		scan.StepStddev: "stddev_over_time", scan.StepStdvar: "stdvar_over_time", scan.StepPresent: "present_over_time", scan.StepLast: "last_over_time",
	}
	foldNames      = map[scan.FoldKind]string{scan.FoldCount: "count", scan.FoldGroup: "group", scan.FoldMin: "min", scan.FoldMax: "max", scan.FoldSum: "sum"}
	aggregateNames = []string{"sum", "count", "min", "max", "first", "last", "digest"} // by bit
)

func aggregatesOf(set scan.Aggregate) (names []string) {
	for i, name := range aggregateNames {
		if set&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func foldText(f *scan.Fold) string {
	by := " by ("
	if f.Without {
		by = " without ("
	}
	return foldNames[f.Kind] + by + strings.Join(f.Names, ", ") + ")"
}

// selectorText returns a selector as PromQL would write it, as far as that has words for it.
func selectorText(s *scan.Selector) string {
	text := s.Metric
	if s.MetricAny {
		text = ""
	}
	parts := make([]string, 0, len(s.Matchers)+1)
	for i := range s.Matchers {
		parts = append(parts, matcherText(&s.Matchers[i]))
	}
	if s.Exact {
		parts = append(parts, "no other tags")
	}
	if len(parts) == 0 && text != "" {
		return text
	}
	return text + "{" + strings.Join(parts, ", ") + "}"
}

// valuesShown bounds the values of one matcher that are told.
const valuesShown = 8

func matcherText(m *scan.Matcher) string {
	operator := map[scan.MatchKind]string{
		scan.MatchEqual: "=", scan.MatchNotEqual: "!=", scan.MatchIn: " in ", scan.MatchNotIn: " not in ", scan.MatchEqualFold: " in (any case) ",
		scan.MatchNotEqualFold: " not in (any case) ", scan.MatchRegexp: "=~", scan.MatchNotRegexp: "!~", scan.MatchPresent: " is there", scan.MatchAbsent: " is not there",
	}[m.Kind]
	switch {
	case m.Kind == scan.MatchIn && len(m.Values) == 1:
		return matcherText(&scan.Matcher{Name: m.Name, Kind: scan.MatchEqual, Values: m.Values})
	case m.Kind == scan.MatchNotIn && len(m.Values) == 1:
		return matcherText(&scan.Matcher{Name: m.Name, Kind: scan.MatchNotEqual, Values: m.Values})
	}
	switch m.Kind {
	case scan.MatchPresent, scan.MatchAbsent:
		return m.Name + operator
	case scan.MatchEqual, scan.MatchNotEqual, scan.MatchRegexp, scan.MatchNotRegexp:
		return m.Name + operator + strconv.Quote(strings.Join(m.Values, ""))
	}
	quoted := slices.Clone(m.Values[:min(len(m.Values), valuesShown)])
	for i := range quoted {
		quoted[i] = strconv.Quote(quoted[i])
	}
	if more := len(m.Values) - valuesShown; more > 0 {
		quoted = append(quoted, strconv.Itoa(more)+" more")
	}
	return m.Name + operator + "(" + strings.Join(quoted, ", ") + ")"
}

// Lines returns a plan as text for people.
func (p *Plan) Lines() []string {
	lines := []string{}
	say := func(format string, values ...any) { lines = append(lines, fmt.Sprintf(format, values...)) }
	for i := range p.Reads {
		r := &p.Reads[i]
		say("READ: %s", r.Selector)
		say("DATABASE: %s", r.Database)
		say("TIME: %s TO %s", endText(r.From, "the first sample"), endText(r.To, "the last sample"))
		switch {
		case r.Windows != nil:
			say("SENDS: %s of %s, %s (rollups: %s)", r.Sends, r.Windows.Width, strings.Join(r.Windows.Aggregates, ", "), r.Windows.Rollup)
		default:
			say("SENDS: %s", r.Sends)
		}
		say("NUMBER OF SERIES: %d", r.Series)
		say("SAMPLES: %d", r.Samples)
		say("VALUES: %d", r.Values)
		say("BYTES: %d", r.Bytes)
		say("")
	}
	if p.ReadsOmitted > 0 {
		say("READS THAT ARE NOT SHOWN: %d", p.ReadsOmitted)
	}
	say("ALL SERIES: %d of %s", p.Estimate.Series, limitText(p.Admission.SeriesMax))
	say("ALL SAMPLES: %d of %s", p.Estimate.Samples, limitText(p.Admission.SamplesMax))
	say("ALL BYTES: %d of %s", p.Estimate.Bytes, limitText(p.Admission.BytesMax))
	if len(p.Admission.Exceeds) > 0 {
		say("BEYOND THE LIMIT OF: %s", strings.Join(p.Admission.Exceeds, ", "))
	}
	return lines
}

func endText(t *Time, missing string) string {
	if t == nil {
		return missing
	}
	return t.String()
}

func limitText(limit int64) string {
	if limit == 0 {
		return "any number"
	}
	return strconv.FormatInt(limit, 10)
}
