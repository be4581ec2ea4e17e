package opentsdb

import (
	"strconv"

	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// pointWriter writes the results of a query. A result without a point in the
// range is left out.
type pointWriter struct {
	*answer
	q         *dataQuery
	sub       *subQuery
	asString  bool // NaN and infinities
	results   int
	points    int64
	pointsMax int64 // ≤ 0: no bound

	number  func(dst []byte, v float64, asString bool) []byte // writes values of the result
	open    bool                                              // the result has its head
	timeMs  int64                                             // of the pending point, as it is written
	value   float64                                           // of the pending point
	written int                                               // points of the result
}

func (o *pointWriter) start(sub *subQuery) {
	o.sub = sub
	o.asString = o.q.nanAsText && (sub.downsample == nil || sub.downsample.fill != fillNull)
}

// begin starts a result.
func (o *pointWriter) begin(g *group) {
	o.open, o.number = false, appendDouble
	if g.integers(o.sub) {
		o.number = appendFloat
	}
}

// separate puts a comma between results.
func (o *pointWriter) separate() {
	if o.results > 0 {
		o.buf = append(o.buf, ',')
	}
	o.results++
}

// point takes one point of a group. In seconds, of the points of one second the
// last one is written: OpenTSDB writes a key for each, of which readers of JSON
// keep the last.
func (o *pointWriter) point(g *group, timeMs int64, value float64) error {
	if !o.q.msResolution {
		timeMs = floorTo(timeMs, secondMs) / secondMs
	}
	if !o.open {
		o.open, o.written = true, 0
		o.head(g)
	} else if timeMs != o.timeMs {
		if err := o.flushPoint(); err != nil {
			return err
		}
	}
	o.timeMs, o.value = timeMs, value
	return nil
}

// flushPoint writes the pending point.
func (o *pointWriter) flushPoint() error {
	if o.points++; o.points > o.pointsMax && o.pointsMax > 0 {
		return &scan.LimitError{What: "points", Limit: o.pointsMax}
	}
	if o.written++; o.written > 1 {
		o.buf = append(o.buf, ',')
	}
	if o.q.arrays {
		o.buf = append(o.buf, '[')
		o.buf = strconv.AppendInt(o.buf, o.timeMs, 10)
		o.buf = append(o.buf, ',')
		o.buf = o.number(o.buf, o.value, o.asString)
		o.buf = append(o.buf, ']')
	} else {
		o.buf = append(o.buf, '"')
		o.buf = strconv.AppendInt(o.buf, o.timeMs, 10)
		o.buf = append(o.buf, '"', ':')
		o.buf = o.number(o.buf, o.value, o.asString)
	}
	return o.flushIfLong()
}

// end closes the result, if it has begun.
func (o *pointWriter) end() error {
	if !o.open {
		return o.err
	}
	if err := o.flushPoint(); err != nil {
		return err
	}
	if o.q.arrays {
		o.buf = append(o.buf, ']', '}')
	} else {
		o.buf = append(o.buf, '}', '}')
	}
	return o.err
}

// head writes a result up to its points.
func (o *pointWriter) head(g *group) {
	o.separate()
	o.buf = append(o.buf, `{"metric":`...)
	o.buf = jsontext.AppendHTML(o.buf, g.name())
	o.buf = append(o.buf, `,"tags":`...)
	o.buf = appendTags(o.buf, g.tags)
	o.buf = append(o.buf, `,"aggregateTags":`...)
	o.buf = appendStrings(o.buf, g.aggregated)
	if o.q.showQuery {
		o.buf = append(o.buf, `,"query":`...)
		o.buf = appendSubQuery(o.buf, o.sub)
	}
	if o.q.showTSUIDs {
		o.buf = append(o.buf, `,"tsuids":[`...)
		for i := range g.members {
			if i > 0 {
				o.buf = append(o.buf, ',')
			}
			o.buf = append(o.buf, '"')
			o.buf = append(appendTSUID(o.buf, g.members[i].key), '"')
		}
		o.buf = append(o.buf, ']')
	}
	if o.q.arrays {
		o.buf = append(o.buf, `,"dps":[`...)
	} else {
		o.buf = append(o.buf, `,"dps":{`...)
	}
}

func metricOf(key series.Key) []byte {
	_, metric, _, err := key.Parts(nil)
	if err != nil { // groupColumns has read it before
		return nil
	}
	return metric
}

// appendTags appends tags as a JSON object.
func appendTags(dst []byte, tags []series.Tag) []byte {
	dst = append(dst, '{')
	for i := range tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendHTML(dst, tags[i].Name), ':')
		dst = jsontext.AppendHTML(dst, tags[i].Value)
	}
	return append(dst, '}')
}
