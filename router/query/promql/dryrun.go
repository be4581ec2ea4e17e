package promql

import (
	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/dryrun"
)

// How an expression is evaluated, as plans tell.
const (
	evaluatedDirectly    = "direct"    // from what nodes send, series by series or group by group
	evaluatedByEngine    = "engine"    // by Prometheus' engine
	evaluatedAsMetricsQL = "metricsql" // by functions that PromQL has not, and by the engine
)

// record puts a recorder in the place of the source that a request reads, so that no samples are read.
func (x *exchange) record() *dryrun.Recorder {
	several, federated := x.reader.Source.(*tenants)
	if !federated {
		recorder := dryrun.NewRecorder(x.reader.Source)
		x.reader.Source = recorder
		return recorder
	}
	recorder := dryrun.NewRecorder(several.Source)
	x.reader.Source = &tenants{recorder, several.databases}
	return recorder
}

// writePlan answers with what a query has asked a recorder for.
func (h *handler) writePlan(x *exchange, recorder *dryrun.Recorder, q query) error {
	about := dryrun.Query{Dialect: dialect, Text: x.form.Get("query"), Evaluation: evaluatedByEngine}
	for _, database := range x.databases {
		about.Databases = append(about.Databases, access.Display(database))
	}
	switch q.(type) {
	case *directQuery:
		about.Evaluation = evaluatedDirectly
	case *metricsQuery:
		about.Evaluation = evaluatedAsMetricsQL
	}
	plan, err := recorder.Plan(x.ctx, about, x.entry.Limits())
	if err != nil {
		return fromSource(err)
	}
	return x.out.value(plan, h.tellMissing(x)...)
}
