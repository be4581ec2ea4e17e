package opentsdb

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tickmesh/tickmesh/api/jsontext"
)

// appendSummary appends the object that show_summary adds. Times are in
// milliseconds.
func appendSummary(dst []byte, samples, points int64, storage, rest time.Duration) []byte {
	dst = append(dst, `{"statsSummary":{`...)
	dst = strconv.AppendInt(appendField(dst, "datapoints"), points, 10)
	dst = strconv.AppendInt(appendField(dst, "rawDatapoints"), samples, 10)
	for _, field := range []struct {
		name  string
		value float64
	}{
		{"aggregationTime", 0},
		{"serializationTime", milliseconds(rest)}, {"storageTime", milliseconds(storage)}, {"timeTotal", milliseconds(storage + rest)},
	} {
		dst = appendDouble(appendField(dst, field.name), field.value, false)
	}
	return append(dst, '}', '}')
}

func milliseconds(d time.Duration) float64 {
	return math.Round(d.Seconds()*1e6) / 1e3
}

// appendSubQuery appends a sub-query as show_query shows it.
func appendSubQuery(dst []byte, q *subQuery) []byte {
	dst = append(dst, '{')
	dst = jsontext.AppendHTML(appendField(dst, "aggregator"), q.aggregatorName)
	dst = appendStringOrNull(appendField(dst, "metric"), q.metric)
	dst = appendField(dst, "tsuids")
	if q.tsuids == nil {
		dst = append(dst, "null"...)
	} else {
		dst = appendStrings(dst, q.tsuids)
	}
	dst = appendStringOrNull(appendField(dst, "downsample"), q.downsampleText)
	dst = strconv.AppendBool(appendField(dst, "rate"), q.rate)
	dst = append(appendField(dst, "filters"), '[')
	for i, f := range q.filters {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = jsontext.AppendHTML(appendField(dst, "tagk"), f.tag)
		dst = jsontext.AppendHTML(appendField(dst, "filter"), f.text)
		dst = strconv.AppendBool(appendField(dst, "group_by"), f.groupBy)
		dst = jsontext.AppendHTML(appendField(dst, "type"), f.kind)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	dst = append(appendField(dst, "percentiles"), "null"...)
	dst = strconv.AppendBool(appendField(dst, "explicitTags"), q.explicitTags)
	dst = appendRateOptions(appendField(dst, "rateOptions"), q.rateOptions)
	dst = strconv.AppendInt(appendField(dst, "index"), int64(q.index), 10)
	dst = append(appendField(dst, "tags"), '{')
	for i, f := range q.filters {
		shown := slices.ContainsFunc(q.filters[:i], func(x filter) bool { return x.groupBy && x.tag == f.tag })
		if f.groupBy && !shown {
			dst = jsontext.AppendHTML(appendField(dst, f.tag), f.kind+"("+f.text+")")
		}
	}
	return append(dst, '}', '}')
}

func appendRateOptions(dst []byte, o *rateOptions) []byte {
	if o == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	dst = strconv.AppendBool(appendField(dst, "counter"), o.counter)
	dst = appendFloat(appendField(dst, "counterMax"), o.counterMax, false)
	dst = appendFloat(appendField(dst, "resetValue"), o.resetValue, false)
	dst = strconv.AppendBool(appendField(dst, "dropResets"), o.dropResets)
	return append(dst, '}')
}

func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsontext.AppendHTML(dst, s)
}
