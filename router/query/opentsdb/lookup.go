package opentsdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// lookupQuery is a request of /api/search/lookup (net.opentsdb.search.SearchQuery).
type lookupQuery struct {
	metric string      // "" or *: any
	tags   []lookupTag // nil: a body that does not name any
	limit  int
	start  int // results that are passed over
}

// lookupTag is a pair of which either part may be *, for any.
type lookupTag struct{ name, value string }

type lookupBody struct {
	Metric looseText `json:"metric"`
	Tags   []struct {
		Key   looseText `json:"key"`
		Value looseText `json:"value"`
	} `json:"tags"`
	Limit      *looseNumber `json:"limit"`
	StartIndex *looseNumber `json:"startIndex"`
}

// lookupLimitDefault is what SearchQuery starts with.
const lookupLimitDefault = 25

// lookup serves /api/search/lookup: the series that have the tags, by key.
func (h *handler) lookup(a *answer, c *call) error {
	started := time.Now()
	q, err := c.parseLookup()
	if err != nil {
		return err
	}
	x, err := h.reader(c)
	if err != nil {
		return err
	}
	selector, byValue := q.selector(c.database)
	found, total, err := h.lookupKeys(c.Context(), x, q, &selector, byValue)
	if err != nil {
		return err
	}
	if total == 0 {
		if err := x.checkNames(c.Context(), &selector, http.StatusNotFound); err != nil {
			return unresolved(err)
		}
	}
	x.TellMissing(a.w.Header())
	a.buf = q.appendHead(a.buf, total, time.Since(started))
	for i, key := range found {
		if i > 0 {
			a.buf = append(a.buf, ',')
		}
		_, metric, tags, err := key.Parts(nil)
		if err != nil {
			return err
		}
		a.buf = append(a.buf, `{"tsuid":"`...)
		a.buf = append(appendTSUID(a.buf, key), '"')
		a.buf = jsontext.AppendHTML(appendField(a.buf, "metric"), metric)
		a.buf = appendTags(appendField(a.buf, "tags"), tags)
		a.buf = append(a.buf, '}')
		if err := a.flushIfLong(); err != nil {
			return err
		}
	}
	a.buf = append(a.buf, ']', '}')
	return nil
}

// unresolved is how a lookup tells of a name that is not known.
func unresolved(err error) error {
	var api *apiError
	if !errors.As(err, &api) {
		return err
	}
	return &apiError{status: api.status, message: "Unable to resolve one or more UIDs", details: api.message}
}

// lookupKeys returns the keys to answer, the first ones in their order, and the number that
// match in all. Storage has no order, so all that match are looked at: the pages of an
// answer have to follow each other.
func (h *handler) lookupKeys(ctx context.Context, x *reader, q *lookupQuery, selector *scan.Selector, byValue []string) (found []series.Key, total int64, err error) {
	end := h.boundNames(q.start + q.limit)
	if q.limit <= 0 {
		end = h.boundNames(int(^uint(0) >> 1))
	}
	first := firstKeys{entry: admission.Of(ctx), max: end}
	var tags []series.Tag
	_, err = x.Series(ctx, selector, 0, func(key series.Key) error {
		if len(byValue) > 0 { // pairs with any name are no matchers of a selector
			if _, _, tags, err = key.Parts(tags[:0]); err != nil {
				return err
			}
		}
		for _, value := range byValue {
			if !slices.ContainsFunc(tags, func(t series.Tag) bool { return string(t.Value) == value }) {
				return nil
			}
		}
		total++
		return first.add(key)
	})
	if err != nil {
		return nil, 0, err
	}
	first.cut()
	return first.keys[min(q.start, len(first.keys)):], total, nil
}

// firstKeys keeps the first keys in their order of those that are added, charged to a
// query: twice as many at most, of which the rest is dropped now and then.
type firstKeys struct {
	entry *admission.Entry
	max   int
	keys  []series.Key
	last  series.Key // once there are max of them: keys from this one on are of no use
}

func (f *firstKeys) add(key series.Key) error {
	if f.last != nil && bytes.Compare(key, f.last) >= 0 {
		return nil
	}
	f.keys = append(f.keys, bytes.Clone(key))
	if err := f.entry.Take(int64(len(key)) + columnBytes); err != nil {
		return err
	}
	if len(f.keys)/2 >= f.max {
		f.cut()
	}
	return nil
}

// cut sorts what is kept and drops what is too much.
func (f *firstKeys) cut() {
	slices.SortFunc(f.keys, func(x, y series.Key) int { return bytes.Compare(x, y) })
	if len(f.keys) < f.max {
		return
	}
	for _, key := range f.keys[f.max:] {
		f.entry.Give(int64(len(key)) + columnBytes)
	}
	clear(f.keys[f.max:])
	f.keys = f.keys[:f.max]
	f.last = f.keys[f.max-1]
}

// selector returns what storage can match, and the values of pairs with any name.
func (q *lookupQuery) selector(database string) (s scan.Selector, byValue []string) {
	s = scan.Selector{Database: database, Metric: q.metric}
	if q.metric == "" || q.metric == "*" {
		s.Metric, s.MetricAny = "", true
	}
	for _, tag := range q.tags {
		switch {
		case tag.name != "*" && tag.value != "*":
			s.Matchers = append(s.Matchers, scan.Matcher{Name: tag.name, Kind: scan.MatchEqual, Values: []string{tag.value}})
		case tag.name != "*":
			s.Matchers = append(s.Matchers, scan.Matcher{Name: tag.name, Kind: scan.MatchPresent})
		case tag.value != "*":
			byValue = append(byValue, tag.value)
		}
	}
	return s, byValue
}

func (c *call) parseLookup() (*lookupQuery, error) {
	q := &lookupQuery{limit: lookupLimitDefault}
	p := c.parameters
	var err error
	if c.Method == http.MethodPost {
		var body []byte
		if body, err = c.content(); err != nil {
			return nil, err
		}
		err = q.parseBody(body)
	} else if p.Get("m") == "" {
		err = missing("m")
	} else {
		err = q.parseExpression(p.Get("m"))
	}
	if err != nil {
		return nil, err
	}
	for _, parameter := range []struct {
		name string
		to   *int
	}{{"limit", &q.limit}, {"start_index", &q.start}} {
		if text := p.Get(parameter.name); text != "" {
			if *parameter.to, err = strconv.Atoi(text); err != nil {
				return nil, invalid("Unable to convert '%s' to a valid number", parameter.name)
			}
		}
	}
	const most = 1 << 30
	if q.start < 0 || q.start > most || q.limit > most {
		return nil, invalid("'limit' or 'start_index' is out of range")
	}
	if q.metric == "" && len(q.tags) == 0 {
		return nil, invalid("Missing metric and tags. Please supply at least one value.")
	}
	return q, nil
}

// parseExpression reads metric{name=value,…}, where the metric may be left out.
func (q *lookupQuery) parseExpression(text string) error {
	metric := text
	q.tags = []lookupTag{}
	if open := slices.Index([]byte(text), '{'); open >= 0 {
		metric = text[:open]
		if closing(text[open:]) != len(text)-open-1 {
			return invalid("Unable to parse query: Missing '}' at the end of: %s", text)
		}
		filters, err := parseTagFilters(text[open+1:len(text)-1], false)
		if err != nil {
			return err
		}
		for _, f := range filters {
			q.tags = append(q.tags, lookupTag{f.tag, f.text})
		}
	}
	q.metric = metric
	return nil
}

func (q *lookupQuery) parseBody(body []byte) error {
	var b lookupBody
	if err := json.Unmarshal(body, &b); err != nil {
		return badContent(err)
	}
	q.metric = string(b.Metric)
	if b.Tags != nil {
		q.tags = []lookupTag{}
	}
	for _, tag := range b.Tags {
		t := lookupTag{string(tag.Key), string(tag.Value)}
		if t.name == "" {
			t.name = "*"
		}
		if t.value == "" {
			t.value = "*"
		}
		q.tags = append(q.tags, t)
	}
	if b.Limit != nil {
		q.limit = int(max(-1, min(*b.Limit, 1<<31)))
	}
	if b.StartIndex != nil {
		q.start = int(max(-1, min(*b.StartIndex, 1<<31)))
	}
	return nil
}

// appendHead appends the answer up to its results.
func (q *lookupQuery) appendHead(dst []byte, total int64, took time.Duration) []byte {
	dst = append(dst, '{')
	dst = jsontext.AppendHTML(appendField(dst, "type"), "LOOKUP")
	if q.metric != "" {
		dst = jsontext.AppendHTML(appendField(dst, "metric"), q.metric)
	}
	if q.tags != nil {
		dst = q.appendTags(dst)
	}
	dst = strconv.AppendInt(appendField(dst, "limit"), int64(q.limit), 10)
	dst = strconv.AppendInt(appendField(dst, "startIndex"), int64(q.start), 10)
	dst = appendDouble(appendField(dst, "time"), milliseconds(took), false)
	dst = strconv.AppendInt(appendField(dst, "totalResults"), total, 10)
	return append(appendField(dst, "results"), '[')
}

// appendTags appends the tags that were asked for.
func (q *lookupQuery) appendTags(dst []byte) []byte {
	dst = append(appendField(dst, "tags"), '[')
	for i, tag := range q.tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = jsontext.AppendHTML(appendField(dst, "key"), tag.name)
		dst = append(jsontext.AppendHTML(appendField(dst, "value"), tag.value), '}')
	}
	return append(dst, ']')
}
