package promql

import (
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/router/query/dryrun"
)

// How an expression is evaluated, as plans tell.
const (
	evaluatedDirectly = "direct" // from what nodes send, series by series or group by group
	evaluatedByEngine = "engine" // by Prometheus' engine
)

// explain answers with what an expression would read, and reads no samples.
func (h *handler) explain(x *exchange, expr parser.Expr, lookback time.Duration, s span, subquerySteps int64) error {
	source := x.reader.Source
	several, federated := source.(*tenants)
	if federated {
		source = several.Source
	}
	recorder := dryrun.NewRecorder(source)
	if x.reader.Source = recorder; federated {
		x.reader.Source = &tenants{recorder, several.databases}
	}
	q, err := h.newQuery(x, expr, x.form.Get("stats"), lookback, s, subquerySteps)
	if err != nil {
		return invalidParameter(err, "query")
	}
	defer q.Close()
	if result := q.Exec(x.ctx); result.Err != nil {
		return result.Err
	}
	about := dryrun.Query{Dialect: dialect, Text: x.form.Get("query"), Evaluation: evaluatedByEngine}
	for _, database := range x.databases {
		about.Databases = append(about.Databases, access.Display(database))
	}
	if _, direct := q.(*directQuery); direct {
		about.Evaluation = evaluatedDirectly
	}
	plan, err := recorder.Plan(x.ctx, about, x.entry.Limits())
	if err != nil {
		return fromSource(err)
	}
	return x.out.value(plan, h.tellMissing(x)...)
}
