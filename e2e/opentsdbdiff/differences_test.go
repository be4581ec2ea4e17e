package opentsdbdiff

import (
	"regexp"
	"strings"
)

// aDifference is one that is meant.
type aDifference struct {
	name, reason string
	kinds        string // of questions; empty: all
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
		{"fault of the request", "OpenTSDB answers 500 to some faulty requests, which clients take for a fault of the server and repeat", "", statuses(500, 400)},
		{"integers", "all values are doubles, so that integers are not divided as such, and all points of a result are of one type", "query post empty", integers},
		{"first rate", "OpenTSDB lets a rate of the first point of a series, against zero at the epoch, count where others have a point", "query post",
			func(q *question, _, _ *answer, reason string) bool {
				return strings.Contains(q.String(), "rate") && tiny.MatchString(reason)
			}},
		{"calendar", "windows of a calendar do not depend on where data begins", "post",
			func(q *question, _, _ *answer, _ string) bool {
				return strings.Contains(q.Body, `"useCalendar":true`) && strings.Contains(q.Body, `"7m-`)
			}},
		{"not_key", "OpenTSDB's manual has this filter, its code does not", "wrong", asks("not_key()")},
		{"metric with colons", "names of Prometheus' recording rules have colons, so a part that is no modifier belongs to the metric; OpenTSDB passes over it", "wrong",
			asks("m=sum:-avg:dbl", "m=sum:m-avg:dbl", "m=sum:nosuch:dbl", "m=sum:rate{counter:dbl")},
		{"interval all", "0all may be written all", "wrong", asks("sum:all-avg:dbl")},
		{"filters of one tag", "two filters on one tag have both to match, as OpenTSDB's manual says; of two literals its code takes either", "wrong", asks("host=a,host=b", "{host=a}{host=b}")},
		{"unknown names beside known ones", "a name that is not known is an error only where nothing is found", "wrong", asks("{host=a|zz}", "{host=|a}")},
		{"empty range", "a range may be of one moment", "wrong", asks("start=1700000000&end=1700000000", "start=now")},
		{"no such date, no such zone", "OpenTSDB takes month 13 for January, and a zone that it does not know for its own", "wrong",
			asks("2023/13/14", "Nosuch")},
		{"zone of a GET", "OpenTSDB knows a time zone in bodies only", "wrong", asks("tz=America/New_York")},
		{"no such endpoint", "404, as elsewhere", "wrong", statuses(400, 404)},
		{"page of a wrong path", "a path outside of /api is answered as one of it", "wrong", asks("/nosuch")},
		{"methods", "PUT of a lookup is 405 like other methods that are not served; a PUT of points is read like a POST", "wrong", asks("PUT /api/search/lookup", "PUT /api/put")},
		{"search", "no meta data is stored, and 501 says so", "names", asks("/api/search/nosuch", "GET /api/search")},
		{"total of a lookup", "counts all that match, not those that are answered, so that clients can page", "names",
			func(_ *question, _, _ *answer, reason string) bool {
				return strings.HasPrefix(reason, ".totalResults: ")
			}},
		{"lookup of everything", "a lookup names a metric or a tag", "names", asks("POST /api/search/lookup {}")},
		{"last value of long ago", "OpenTSDB finds last values of the last hours only, TickMesh those of all time where back_scan does not bound it", "names",
			func(q *question, want, got *answer, _ string) bool {
				return strings.HasPrefix(q.Target, "/api/query/last") && want.Status == 200 && want.Body == "[]" && got.Status == 200
			}},
		{"aggregators", "those of TickTock are there, too", "", asks("/api/aggregators")},
		{"details of a point", "a point that is refused is shown as it was sent; OpenTSDB shows what it read of it", "put",
			func(_ *question, _, _ *answer, reason string) bool {
				return strings.HasPrefix(reason, ".errors[0].datapoint.")
			}},
		{"body null", "what is no JSON of points is read as put lines, as TickTock does: 400 as well", "put",
			func(q *question, want, got *answer, _ string) bool {
				return q.Body == "null" && want.Status == got.Status
			}},
		{"text of errors", "details of bodies that are no JSON are for people", "put",
			func(_ *question, _, _ *answer, reason string) bool {
				return strings.HasPrefix(reason, ".error.details: ")
			}},
		{"no tags", "a series may have no tags, as in TickTock, InfluxDB and Prometheus", "put line", asks(`"value":1}`, `"tags":{}`, "put tel.a 1700000000 1")},
		{"vast integers", "integers beyond 64 bits are rounded as floats are", "put", asks("9223372036854775808")},
		{"spaces", "several count as one", "line", asks("put  tel.a")},
		{"PUT as a command", "what begins like a request of HTTP is answered as one, with the ports of the protocols", "line", asks("PUT tel.a")},
	}
}

// integers returns whether OpenTSDB's integers are all that differs, and are ours without their fraction.
func integers(q *question, want, got *answer, _ string) bool {
	if want.Status != 200 || got.Status != 200 || !asks("whole", "counter", "mixed")(q, want, got, "") {
		return false
	}
	a, errA := parse(want.Body)
	b, errB := parse(got.Body)
	return errA == nil && errB == nil && difference("", normalize(a), normalize(b), differentIntegers) == ""
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
