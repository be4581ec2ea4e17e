package opentsdb

import (
	"bytes"
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/guard"
)

// queryBody is the JSON body of POST /api/query. Unknown fields are ignored and
// scalars are read leniently, as OpenTSDB's JSON library does.
type queryBody struct {
	Start        looseText `json:"start"`
	End          looseText `json:"end"`
	Timezone     looseText `json:"timezone"`
	UseCalendar  looseBool `json:"useCalendar"`
	MsResolution looseBool `json:"msResolution"`
	MS           looseBool `json:"ms"`
	Arrays       looseBool `json:"arrays"`
	ShowQuery    looseBool `json:"showQuery"`
	ShowSummary  looseBool `json:"showSummary"`
	ShowTSUIDs   looseBool `json:"showTSUIDs"`
	Delete       looseBool `json:"delete"`
	Explain      looseBool `json:"explain"`
	Queries      []subBody `json:"queries"`
}

type subBody struct {
	Aggregator       looseText            `json:"aggregator"`
	Metric           looseText            `json:"metric"`
	TSUIDs           []string             `json:"tsuids"`
	Downsample       looseText            `json:"downsample"`
	Rate             looseBool            `json:"rate"`
	RateOptions      *rateBody            `json:"rateOptions"`
	Tags             map[string]looseText `json:"tags"`
	Filters          []filterBody         `json:"filters"`
	ExplicitTags     looseBool            `json:"explicitTags"`
	Percentiles      []looseNumber        `json:"percentiles"`
	HistogramBuckets looseBool            `json:"showHistogramBuckets"`
}

type rateBody struct {
	Counter    looseBool    `json:"counter"`
	CounterMax *looseNumber `json:"counterMax"`
	ResetValue *looseNumber `json:"resetValue"`
	DropResets looseBool    `json:"dropResets"`
}

type filterBody struct {
	Type    looseText `json:"type"`
	Tagk    looseText `json:"tagk"`
	Filter  looseText `json:"filter"`
	GroupBy looseBool `json:"groupBy"`
	GroupB2 looseBool `json:"group_by"`
}

// looseText is a JSON string, number or boolean as text; null is empty.
type looseText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *looseText) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) > 0 && b[0] == '"':
		return json.Unmarshal(b, (*string)(t))
	case bytes.Equal(b, []byte("null")):
		*t = ""
	case len(b) > 0 && (b[0] == '{' || b[0] == '['):
		return invalid("a text is expected, not %s", b)
	default:
		*t = looseText(b)
	}
	return nil
}

// looseBool is a JSON boolean, or a string or number that stands for one.
type looseBool bool

// UnmarshalJSON implements json.Unmarshaler.
func (v *looseBool) UnmarshalJSON(b []byte) error {
	switch text := strings.ToLower(strings.Trim(string(b), `"`)); text {
	case "true", "1":
		*v = true
	case "false", "0", "null", "":
		*v = false
	default:
		return invalid("a boolean is expected, not %s", b)
	}
	return nil
}

// looseNumber is a JSON number, or a string that holds one.
type looseNumber float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *looseNumber) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil || math.IsNaN(v) {
		return invalid("a number is expected, not %s", b)
	}
	*n = looseNumber(v)
	return nil
}

// parseBody reads the body of POST /api/query.
func parseBody(body []byte, database string, now time.Time, subQueriesMax int64) (*dataQuery, error) {
	var b queryBody
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, badContent(err)
	}
	q := &dataQuery{
		msResolution: bool(b.MsResolution || b.MS), arrays: bool(b.Arrays), showQuery: bool(b.ShowQuery),
		showSummary: bool(b.ShowSummary), showTSUIDs: bool(b.ShowTSUIDs), delete: bool(b.Delete), explain: bool(b.Explain),
	}
	for i := range b.Queries {
		sub, err := b.Queries[i].parse()
		if err != nil {
			return nil, err
		}
		q.subs = append(q.subs, sub)
	}
	return q, q.normalize(string(b.Start), string(b.End), string(b.Timezone), bool(b.UseCalendar), database, now, subQueriesMax)
}

func badContent(err error) error {
	return &apiError{status: 400, message: "Unable to parse the given JSON", details: err.Error()}
}

func (b *subBody) parse() (subQuery, error) {
	q := subQuery{
		aggregatorName: string(b.Aggregator), metric: string(b.Metric), tsuids: b.TSUIDs, downsampleText: string(b.Downsample),
		rate: bool(b.Rate), explicitTags: bool(b.ExplicitTags),
	}
	if len(b.Percentiles) > 0 || b.HistogramBuckets {
		return q, errHistograms()
	}
	if r := b.RateOptions; r != nil {
		q.rateOptions = &rateOptions{counter: bool(r.Counter), dropResets: bool(r.DropResets), counterMax: counterMaxDefault}
		if r.CounterMax != nil {
			q.rateOptions.counterMax = float64(*r.CounterMax)
		}
		if r.ResetValue != nil {
			q.rateOptions.resetValue = float64(*r.ResetValue)
		}
	}
	for _, f := range b.Filters {
		q.filters = append(q.filters, filter{kind: strings.ToLower(string(f.Type)), tag: string(f.Tagk),
			text: string(f.Filter), groupBy: bool(f.GroupBy || f.GroupB2)})
	}
	var fromTags []filter
	for tag, value := range b.Tags {
		f, err := parseTagFilter(tag, string(value), true)
		if err != nil {
			return q, err
		}
		fromTags = append(fromTags, f)
	}
	slices.SortFunc(fromTags, compareFilters)
	q.filters = append(q.filters, fromTags...)
	return q, nil
}

// parseParameters reads GET /api/query.
func parseParameters(p url.Values, database string, now time.Time, subQueriesMax int64) (*dataQuery, error) {
	q, err := parseFlags(p)
	if err != nil {
		return nil, err
	}
	if q.subs, err = parseSubs(p); err != nil {
		return nil, err
	}
	if len(q.subs) == 0 {
		return nil, invalid("Missing sub queries")
	}
	return q, q.normalizeParameters(p, database, now, subQueriesMax)
}

// parseFlags reads what is said about a whole query. A flag is set when its parameter is
// there, whatever its value, but for the words false and 0.
func parseFlags(p url.Values) (*dataQuery, error) {
	if p.Get("start") == "" {
		return nil, missing("start")
	}
	return &dataQuery{
		msResolution: flag(p, "ms") || flag(p, "msResolution"), showQuery: flag(p, "show_query"), showSummary: flag(p, "show_summary"),
		showTSUIDs: flag(p, "show_tsuids"), arrays: flag(p, "arrays"),
	}, nil
}

// normalizeParameters is normalize with the times that the parameters hold.
func (q *dataQuery) normalizeParameters(p url.Values, database string, now time.Time, subQueriesMax int64) error {
	zone := p.Get("timezone")
	if zone == "" {
		zone = p.Get("tz")
	}
	return q.normalize(p.Get("start"), p.Get("end"), zone, flag(p, "use_calendar"), database, now, subQueriesMax)
}

// parseSubs reads the parameters tsuid and m.
func parseSubs(p url.Values) ([]subQuery, error) {
	var subs []subQuery
	for _, source := range []struct {
		name   string
		tsuids bool
	}{{"tsuid", true}, {"m", false}} {
		seen := map[string]bool{}
		for _, text := range p[source.name] {
			if seen[text] {
				continue
			}
			seen[text] = true
			sub, err := parseExpression(text, source.tsuids)
			if err != nil {
				return nil, err
			}
			subs = append(subs, sub)
		}
	}
	return subs, nil
}

func missing(parameter string) error {
	return &apiError{status: 400, message: "Missing parameter", details: "The \"" + parameter + "\" query parameter is missing"}
}

func flag(p url.Values, name string) bool {
	values, ok := p[name]
	return ok && !slices.Contains([]string{"false", "0"}, strings.ToLower(values[0]))
}

// normalize checks a query and fills in what follows from its text.
func (q *dataQuery) normalize(start, end, zone string, useCalendar bool, database string, now time.Time, subQueriesMax int64) error {
	location, err := findLocation(zone)
	if err != nil {
		return err
	}
	if start == "" {
		return invalid("Missing start time")
	}
	if q.fromMs, err = parseTime(start, now, location); err != nil {
		return err
	}
	q.toMs = now.UnixMilli()
	if end != "" {
		if q.toMs, err = parseTime(end, now, location); err != nil {
			return err
		}
	}
	if q.toMs < q.fromMs {
		return invalid("End time [%d] must be greater than or equal to the start time [%d]", q.toMs, q.fromMs)
	}
	if len(q.subs) == 0 {
		return invalid("Missing queries")
	}
	if subQueriesMax > 0 && int64(len(q.subs)) > subQueriesMax {
		return invalid("%d sub queries are more than %d", len(q.subs), subQueriesMax)
	}
	var meter guard.Meter
	for i := range q.subs {
		q.subs[i].index = i
		if err := q.subs[i].normalize(&meter, database, useCalendar, location, q.fromMs); err != nil {
			return err
		}
	}
	return nil
}
