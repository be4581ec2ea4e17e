package opentsdbdiff

import (
	"encoding/json"
	"regexp"
	"strings"
)

// aDifference is one that is meant.
type aDifference struct {
	name, reason string
	kinds        string // of questions; empty: all
	rare         bool   // not among the recorded answers
	of           func(q *question, want, got *answer, reason string) bool
}

// asks returns whether a question holds one of these texts.
func asks(texts ...string) func(*question, *answer, *answer, string) bool {
	return func(q *question, _, _ *answer, _ string) bool {
		text := q.String()
		for _, t := range texts {
			if strings.Contains(text, t) {
				return true
			}
		}
		return false
	}
}

// statuses returns whether OpenTSDB answers with the first status and TickMesh with the second.
func statuses(theirs, ours int) func(*question, *answer, *answer, string) bool {
	return func(_ *question, want, got *answer, _ string) bool {
		return want.Status == theirs && got.Status == ours
	}
}

// tiny matches where a number is to be one below a millionth.
var tiny = regexp.MustCompile(`not -?[0-9.]+E-([7-9]|[1-9][0-9])$`)

// differences lists what differs and is to. Two more stand where answers are prepared: results without a point are left out
// (withoutPoint), and the percentiles epNNr3 and epNNr7, which OpenTSDB 2.4.1 computes as pNN (asked).
func differences() []aDifference {
	return []aDifference{
		{name: "fault of the request", reason: "OpenTSDB answers 500 to some faulty requests, which clients take for a fault of the server and repeat", kinds: "", of: statuses(500, 400)},
		{name: "integers", reason: "all values are doubles, so that integers are not divided as such, and all points of a result are of one type", kinds: "query post empty", of: integers},
		{name: "whole doubles", reason: "which samples were written as integers is not known: where all that is read is whole, it is taken for such", kinds: "query post", rare: true, of: wholeDoubles},
		{name: "tags of a group", reason: "are those of the series that have a point in the range, or at its ends where lines matter", kinds: "query post", rare: true, of: sameButTags},
		{name: "first rate", reason: "OpenTSDB lets a rate of the first point of a series, against zero at the epoch, count where others have a point", kinds: "query post", of: func(q *question, _, _ *answer, reason string) bool {
			return strings.Contains(q.String(), "rate") && tiny.MatchString(reason)
		}},
		{name: "calendar", reason: "windows of a calendar do not depend on where data begins", kinds: "post", of: func(q *question, _, _ *answer, _ string) bool {
			return strings.Contains(q.Body, `"useCalendar":true`) && (strings.Contains(q.Body, `"7m-`) || strings.Contains(q.Body, `"2h-`))
		}},
		{name: "not_key", reason: "OpenTSDB's manual has this filter, its code does not", kinds: "wrong", of: asks("not_key()")},
		{name: "metric with colons", reason: "names of Prometheus' recording rules have colons, so a part that is no modifier belongs to the metric; OpenTSDB passes over it", kinds: "wrong", of: asks("m=sum:-avg:dbl", "m=sum:m-avg:dbl", "m=sum:nosuch:dbl", "m=sum:rate{counter:dbl")},
		{name: "interval all", reason: "0all may be written all", kinds: "wrong", of: asks("sum:all-avg:dbl")},
		{name: "filters of one tag", reason: "two filters on one tag have both to match, as OpenTSDB's manual says; of two literals its code takes either", kinds: "wrong", of: asks("host=a,host=b", "{host=a}{host=b}")},
		{name: "unknown names beside known ones", reason: "a name that is not known is an error only where nothing is found", kinds: "wrong", of: asks("{host=a|zz}", "{host=|a}")},
		{name: "empty range", reason: "a range may be of one moment", kinds: "wrong", of: asks("start=1700000000&end=1700000000", "start=now")},
		{name: "no such date, no such zone", reason: "OpenTSDB takes month 13 for January, and a zone that it does not know for its own", kinds: "wrong", of: asks("2023/13/14", "Nosuch")},
		{name: "zone of a GET", reason: "OpenTSDB knows a time zone in bodies only", kinds: "wrong", of: asks("tz=America/New_York")},
		{name: "no such endpoint", reason: "404, as elsewhere", kinds: "wrong", of: statuses(400, 404)},
		{name: "page of a wrong path", reason: "a path outside of /api is answered as one of it", kinds: "wrong", of: asks("/nosuch")},
		{name: "methods", reason: "PUT of a lookup is 405 like other methods that are not served; a PUT of points is read like a POST", kinds: "wrong", of: asks("PUT /api/search/lookup", "PUT /api/put")},
		{name: "search", reason: "no meta data is stored, and 501 says so", kinds: "names", of: asks("/api/search/nosuch", "GET /api/search")},
		{name: "total of a lookup", reason: "counts all that match, not those that are answered, so that clients can page", kinds: "names", of: func(_ *question, _, _ *answer, reason string) bool {
			return strings.HasPrefix(reason, ".totalResults: ")
		}},
		{name: "lookup of everything", reason: "a lookup names a metric or a tag", kinds: "names", of: asks("POST /api/search/lookup {}")},
		{name: "last value of long ago", reason: "OpenTSDB finds last values of the last hours only, TickMesh those of all time where back_scan does not bound it", kinds: "names", of: func(q *question, want, got *answer, _ string) bool {
			return strings.HasPrefix(q.Target, "/api/query/last") && want.Status == 200 && want.Body == "[]" && got.Status == 200
		}},
		{name: "aggregators", reason: "those of TickTock are there, too", kinds: "", of: asks("/api/aggregators")},
		{name: "details of a point", reason: "a point that is refused is shown as it was sent; OpenTSDB shows what it read of it", kinds: "put", of: func(_ *question, _, _ *answer, reason string) bool {
			return strings.HasPrefix(reason, ".errors[0].datapoint.")
		}},
		{name: "body null", reason: "what is no JSON of points is read as put lines, as TickTock does: 400 as well", kinds: "put", of: func(q *question, want, got *answer, _ string) bool {
			return q.Body == "null" && want.Status == got.Status
		}},
		{name: "text of errors", reason: "details of bodies that are no JSON are for people", kinds: "put", of: func(_ *question, _, _ *answer, reason string) bool {
			return strings.HasPrefix(reason, ".error.details: ")
		}},
		{name: "no tags", reason: "a series may have no tags, as in TickTock, InfluxDB and Prometheus", kinds: "put line", of: asks(`"value":1}`, `"tags":{}`, "put tel.a 1700000000 1")},
		{name: "vast integers", reason: "integers beyond 64 bits are rounded as floats are", kinds: "put", of: asks("9223372036854775808")},
		{name: "spaces", reason: "several count as one", kinds: "line", of: asks("put  tel.a")},
		{name: "PUT as a command", reason: "what begins like a request of HTTP is answered as one, with the ports of the protocols", kinds: "line", of: asks("PUT tel.a")},
	}
}

// windows matches a request for windows or rates, of which all numbers are doubles.
var windows = regexp.MustCompile(`downsample|rate|:[0-9]+(m|h|dc|hc|all)-`)

// wholeDoubles returns whether all that differs is that whole doubles are integers here, all of the result.
func wholeDoubles(q *question, want, got *answer, _ string) bool {
	if windows.MatchString(q.String()) {
		return false
	}
	return same(want, got, func(v any) any { return v }, func(path string, x json.Number, b any) string {
		if y, ok := b.(json.Number); ok && integer(y) && strings.HasSuffix(string(x), ".0") && strings.TrimSuffix(string(x), ".0") == string(y) {
			return ""
		}
		return differentNumbers(path, x, b)
	})
}

// sameButTags returns whether all that differs is the tags of results.
func sameButTags(_ *question, want, got *answer, _ string) bool {
	return same(want, got, func(v any) any {
		list, _ := v.([]any)
		for _, r := range list {
			if m, ok := r.(map[string]any); ok {
				delete(m, "tags")
				delete(m, "aggregateTags")
			}
		}
		return v
	}, differentNumbers)
}

// same returns whether two answers are the same after something is done to both.
func same(want, got *answer, prepare func(any) any, numbers numbers) bool {
	if want.Status != 200 || got.Status != 200 {
		return false
	}
	a, errA := parse(want.Body)
	b, errB := parse(got.Body)
	return errA == nil && errB == nil && difference("", prepare(normalize(a)), prepare(normalize(b)), numbers) == ""
}

// integers returns whether OpenTSDB's integers are all that differs, and are ours without their fraction.
func integers(q *question, want, got *answer, _ string) bool {
	return asks("whole", "counter", "mixed")(q, want, got, "") && same(want, got, func(v any) any { return v }, differentIntegers)
}

// onPurpose returns the name of the difference that is meant and that two answers show; empty: none.
func onPurpose(q *question, want, got *answer, reason string) string {
	for _, d := range differences() {
		if (d.kinds == "" || strings.Contains(d.kinds, q.Kind)) && d.of(q, want, got, reason) {
			return d.name
		}
	}
	return ""
}
