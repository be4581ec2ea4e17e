package promql

import (
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/tickmesh/tickmesh/api/access"
	api "github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/router/query/shell"
)

// API is the HTTP API, and what rules of this process ask without HTTP.
type API struct {
	*handler
	rulePlaces chan struct{} // one for each query of rules that runs or waits for a place among all
}

var _ http.Handler = (*API)(nil)

// New returns the handler of every path below /api/v1 that reads, and of
// admin/tsdb/delete_series. Any other path gets 404 in Prometheus' error shape.
func New(options Options) *API {
	h := newHandler(options)
	return &API{h, make(chan struct{}, h.options.RulesRunningMax)}
}

func newHandler(o Options) *handler {
	o.setDefaults()
	h := &handler{options: o, cardinalities: cardinalities{kept: map[string]*cardinality{}}, zips: newZips(), encoders: newEncoders()}
	h.shell = shell.New(shell.Options{Dialect: dialect, ByEndpoint: true, Source: o.Source, WithConsistency: o.WithConsistency, Admission: o.Admission,
		Clock: o.Clock, Logger: o.Logger, Registerer: o.Registerer})
	h.started = h.shell.Clock()
	h.parser = parser.NewParser(ParserOptions(o.Experimental))
	h.prepared = &prepared{Parser: h.parser}
	h.engine = promql.NewEngine(promql.EngineOpts{
		Logger: h.shell.Log, MaxSamples: o.SamplesMax, LookbackDelta: o.LookbackDelta, Parser: h.prepared,
		Timeout:                  100 * 365 * 24 * time.Hour, // admission control has the time limit
		NoStepSubqueryIntervalFn: func(int64) int64 { return defaultStepMs },
		EnableAtModifier:         true, EnableNegativeOffset: true, EnablePerStepStats: true,
	})
	get := []string{http.MethodGet, http.MethodHead}
	both := []string{http.MethodGet, http.MethodHead, http.MethodPost}
	query := func(serve func(*exchange) error) endpoint { return endpoint{both, access.Read, true, serve, true} }
	told := func(serve func(*exchange) error) endpoint { return endpoint{get, access.Read, false, serve, false} }
	h.endpoints = map[string]endpoint{
		"query": query(h.query), "query_range": query(h.queryRange),
		"series": query(h.series), "labels": query(h.labelNames), "status/tsdb": {get, access.Read, true, h.cardinality, false},
		"read":            {[]string{http.MethodPost}, access.Read, true, h.remoteRead, true},
		"query_exemplars": query(h.exemplars), "export": query(h.export), "export/csv": query(h.exportCSV), "export/parquet": query(h.exportParquet),
		"format_query": query(h.formatQuery), "parse_query": query(h.parseQuery),
		"metadata": {get, access.Read, false, h.metadata, true}, "targets/metadata": told(h.targetMetadata), "targets": told(h.targets),
		"rules": told(h.rules), "alerts": told(h.alerts), "alertmanagers": told(h.alertmanagers),
		"status/buildinfo": {get, 0, false, h.buildInfo, false}, "status/runtimeinfo": {get, 0, false, h.runtimeInfo, false},
		"status/config": {get, 0, false, h.showConfig, false}, "status/flags": {get, 0, false, h.showFlags, false},
		"admin/tsdb/delete_series":    {[]string{http.MethodPost, http.MethodPut}, access.Admin, true, h.deleteSeries, false},
		"admin/tsdb/clean_tombstones": {[]string{http.MethodPost, http.MethodPut}, access.Admin, false, h.cleanTombstones, false},
	}
	h.values = endpoint{get, access.Read, true, h.labelValues, true}
	h.federated = endpoint{get, access.Read, true, h.federate, true}
	return h
}

// Endpoints implements endpoint.Lister: the table by which ServeHTTP routes.
func (h *handler) Endpoints() []string {
	all := append(api.Patterns(h.values.methods, pathPrefix+"label/{name}/values"), api.Patterns(h.federated.methods, pathFederate)...)
	for path, e := range h.endpoints {
		all = append(all, api.Patterns(e.methods, pathPrefix+path)...)
	}
	return api.Sorted(all)
}
