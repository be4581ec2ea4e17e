package opentsdb

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// refusals are the reasons, by the first part of a path, that OpenTSDB's other endpoints are not here.
//
//nolint:gochecknoglobals // a constant table
var refusals = map[string]string{
	"annotation":  "Annotations are not stored: keep them in Grafana, or as series of events",
	"annotations": "Annotations are not stored: keep them in Grafana, or as series of events",
	"histogram":   "Histograms are not stored: store their buckets or quantiles as series",
	"rollup":      "Rollups are made by the server itself: put the samples",
	"search":      "Names have no meta data of their own: use /api/search/lookup or /api/suggest",
	"tree":        "There are no trees: group series by their tags",
	"uid":         "Names have no ids and need no assignment: a name is there with its first sample",
}

// remedies name, for endpoints of OpenTSDB that one of this server serves as well, that one.
//
//nolint:gochecknoglobals // a constant table
var remedies = map[string]string{
	"query/exp":            "Expressions are not served here: write them in PromQL, at /api/v1/query_range, over the same series",
	"query/gexp":           "Functions over series are not served here: write them in PromQL, at /api/v1/query_range, over the same series",
	"stats/jvm":            "There is no JVM: /metrics tells of memory and garbage collection",
	"stats/threads":        "There is no JVM: /metrics tells of goroutines and threads",
	"stats/region_clients": "There is no HBase: tickmesh status tells of nodes and shards",
}

// refuse answers for the parts of OpenTSDB's API that are about what TickMesh does not
// have; nil for paths that OpenTSDB does not know either.
func refuse(path string) error {
	first, _, _ := strings.Cut(path, "/")
	if why := refusals[first]; why != "" {
		return &apiError{status: http.StatusNotImplemented, message: "Not implemented", details: why}
	}
	return nil
}

// showSerializers serves /api/serializers: JSON is the one form.
func (h *handler) showSerializers(a *answer, _ *call) error {
	a.buf = append(a.buf, `[{"serializer":"json","class":"json","request_content_type":"application/json",`+
		`"response_content_type":"application/json; charset=UTF-8","formatters":["QueryV1","SuggestV1","SearchV1","LastPointQueryV1",`+
		`"AggregatorsV1","ConfigV1","FilterConfigV1","SerializersV1","StatsV1","VersionV1"],"parsers":["PutV1","QueryV1","SuggestV1","SearchV1","LastPointQueryV1"]}]`...)
	return nil
}

// showQueries serves /api/stats/query: the queries that run, and of those that have ended
// the slow ones, in databases that the caller may read.
func (h *handler) showQueries(a *answer, c *call) error {
	caller := access.Of(c.Context())
	hidden := func(r admission.Report) bool {
		return !r.All(func(database string) bool { return caller.May(database, access.Read) })
	}
	a.buf = append(a.buf, '{')
	for _, list := range []struct {
		name    string
		reports []admission.Report
	}{{"completed", h.shell.Admission.Slow()}, {"running", h.shell.Admission.Running()}} {
		a.buf = append(appendField(a.buf, list.name), '[')
		for i, r := range slices.DeleteFunc(list.reports, hidden) {
			if i > 0 {
				a.buf = append(a.buf, ',')
			}
			a.buf = jsontext.AppendHTML(append(a.buf, `{"query":`...), r.Text)
			a.buf = jsontext.AppendHTML(appendField(a.buf, "dialect"), r.Dialect)
			a.buf = jsontext.AppendHTML(appendField(a.buf, "database"), access.Display(r.Database))
			a.buf = jsontext.AppendHTML(appendField(a.buf, "user"), r.User)
			a.buf = strconv.AppendInt(appendField(a.buf, "queryStart"), r.Began.UnixMilli(), 10)
			a.buf = appendFloat(appendField(a.buf, "elapsed"), milliseconds(r.Took), false)
			a.buf = appendStringOrNull(appendField(a.buf, "exception"), r.Err)
			a.buf = append(a.buf, '}')
		}
		a.buf = append(a.buf, ']')
	}
	a.buf = append(a.buf, '}')
	return nil
}
