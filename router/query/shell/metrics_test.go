package shell

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Times that have no labels are told of before the first request: alerts and rates look at them.
func TestTimesBeforeTheFirstRequest(t *testing.T) {
	registry := prometheus.NewRegistry()
	New(Options{Dialect: "influxql", Registerer: registry})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tickmesh_influxql_request_seconds" {
			return
		}
	}
	t.Error("they are not there")
}
