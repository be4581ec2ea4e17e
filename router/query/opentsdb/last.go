package opentsdb

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/api/guard"
	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// lastQuery is a request of /api/query/last (QueryRpc.LastPointQuery).
type lastQuery struct {
	resolve   bool  // answer names, not only tsuids
	backHours int64 // how far to look back; 0: all of time
	selectors []scan.Selector
	meter     guard.Meter // of the filters
}

type lastBody struct {
	ResolveNames looseBool   `json:"resolveNames"`
	BackScan     looseNumber `json:"backScan"`
	Queries      []struct {
		Metric looseText            `json:"metric"`
		Tags   map[string]looseText `json:"tags"`
		TSUIDs []string             `json:"tsuids"`
	} `json:"queries"`
}

// last serves /api/query/last: the newest sample of each series that matches.
func (h *handler) last(a *answer, c *call) error {
	q, err := c.parseLast()
	if err != nil {
		return err
	}
	if len(q.selectors) == 0 {
		return invalid("Missing sub queries")
	}
	x, err := h.reader(c)
	if err != nil {
		return err
	}
	fromMs := int64(scan.TimeMsMin)
	if q.backHours > 0 {
		fromMs = floorTo(h.shell.Clock().UnixMilli(), hourMs) - q.backHours*hourMs
	}
	var points []scan.Point
	for i := range q.selectors {
		found := 0
		err := x.Last(c.Context(), &q.selectors[i], fromMs, scan.Limits{}, func(p scan.Point) error {
			found++
			p.Key = bytes.Clone(p.Key)
			points = append(points, p)
			const pointBytes = 64
			return c.entry.Take(pointBytes + int64(len(p.Key)))
		})
		if err != nil {
			return err
		}
		if found > 0 {
			continue
		}
		if err := x.checkNames(c.Context(), &q.selectors[i], http.StatusBadRequest); err != nil {
			return err
		}
	}
	slices.SortFunc(points, func(x, y scan.Point) int { return bytes.Compare(x.Key, y.Key) })
	points = slices.CompactFunc(points, func(x, y scan.Point) bool { return bytes.Equal(x.Key, y.Key) })
	x.TellMissing(a.w.Header())
	return writeLast(a, points, q.resolve)
}

func writeLast(a *answer, points []scan.Point, resolve bool) error {
	var tags []series.Tag
	a.buf = append(a.buf, '[')
	for i, p := range points {
		if i > 0 {
			a.buf = append(a.buf, ',')
		}
		a.buf = append(a.buf, '{')
		var metric []byte
		var err error
		if _, metric, tags, err = p.Key.Parts(tags[:0]); err != nil {
			return err
		}
		if resolve {
			a.buf = jsontext.AppendHTML(appendField(a.buf, "metric"), metric)
		}
		a.buf = strconv.AppendInt(appendField(a.buf, "timestamp"), p.TimeMs, 10)
		a.buf = appendValueText(appendField(a.buf, "value"), p.Value)
		if resolve {
			a.buf = appendTags(appendField(a.buf, "tags"), tags)
		}
		a.buf = append(appendField(a.buf, "tsuid"), '"')
		a.buf = append(appendTSUID(a.buf, p.Key), '"', '}')
		if err := a.flushIfLong(); err != nil {
			return err
		}
	}
	a.buf = append(a.buf, ']')
	return nil
}

// backHoursMax is a hundred years.
const backHoursMax = 100 * 366 * 24

func (c *call) parseLast() (*lastQuery, error) {
	q, database, p := &lastQuery{}, c.database, c.parameters
	if c.Method == http.MethodPost {
		body, err := c.content()
		if err != nil {
			return nil, err
		}
		return q, q.parseBody(body, database)
	}
	q.resolve = flag(p, "resolve")
	if text := p.Get("back_scan"); text != "" {
		hours, err := strconv.ParseInt(text, 10, 64)
		if err != nil || hours < 0 || hours > backHoursMax {
			return nil, invalid("Unable to parse back_scan parameter")
		}
		q.backHours = hours
	}
	for _, text := range p["timeseries"] {
		metric, filters, err := parseMetricAndFilters(text)
		if err != nil {
			return nil, err
		}
		if err := q.add(database, metric, filters); err != nil {
			return nil, err
		}
	}
	for _, list := range p["tsuids"] {
		if err := q.addTSUIDs(database, strings.Split(list, ",")); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func (q *lastQuery) parseBody(body []byte, database string) error {
	var b lastBody
	if err := json.Unmarshal(body, &b); err != nil {
		return badContent(err)
	}
	q.resolve, q.backHours = bool(b.ResolveNames), int64(b.BackScan)
	if q.backHours < 0 || q.backHours > backHoursMax {
		return invalid("Unable to parse backScan")
	}
	for _, sub := range b.Queries {
		if len(sub.TSUIDs) > 0 {
			if err := q.addTSUIDs(database, sub.TSUIDs); err != nil {
				return err
			}
			continue
		}
		var filters []filter
		for name, value := range sub.Tags {
			f, err := parseTagFilter(name, string(value), false)
			if err != nil {
				return err
			}
			filters = append(filters, f)
		}
		slices.SortFunc(filters, compareFilters)
		if err := q.add(database, string(sub.Metric), filters); err != nil {
			return err
		}
	}
	return nil
}

func (q *lastQuery) add(database, metric string, filters []filter) error {
	if metric == "" {
		return invalid("Metric cannot be null or empty")
	}
	selector := scan.Selector{Database: database, Metric: metric}
	for i := range filters {
		if err := q.meter.Token(); err != nil {
			return invalid("%v", err)
		}
		matchers, err := filters[i].matchers(&q.meter)
		if err != nil {
			return err
		}
		selector.Matchers = append(selector.Matchers, matchers...)
	}
	q.selectors = append(q.selectors, selector)
	return nil
}

func (q *lastQuery) addTSUIDs(database string, tsuids []string) error {
	for _, tsuid := range tsuids {
		selector, err := selectorOfTSUID(tsuid, database)
		if err != nil {
			return err
		}
		q.selectors = append(q.selectors, selector)
	}
	return nil
}
