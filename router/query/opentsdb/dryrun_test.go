package opentsdb

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

func TestExplain(t *testing.T) {
	var watched *scantest.Watched
	s := newServer(t, func(o *Options) {
		watched = scantest.Watch(o.Source)
		o.Source = watched
	})
	s.put(scantest.Key("", "load", "host", "a"), 1699996400, 1, 1699996460, 2, 1699996520, 3)
	s.put(scantest.Key("", "load", "host", "b"), 1699996400, 1, 1699996460, 2, 1699996520, 3)
	const query = "/api/query?start=1699996400&end=1699999999&m=sum:1h-avg:load{host=*}&m=max:load{host=a}"
	if status, got := s.do("GET", query, ""); status != 200 {
		t.Fatal(status, got)
	}
	asked := watched.Take()
	want := `"reads":[` +
		`{"database":"default","selector":"load{host is there}","from":"2023-11-14T21:00:00Z","to":"2023-11-14T22:59:59.999Z","sends":"windows","windows":{"width":"1h0m0s","aggregates":["sum","count"],"rollup":"hour"},"series":2,"samples":6,"values":4,"bytes":96},` +
		`{"database":"default","selector":"load{host=\"a\"}","from":"2023-11-14T21:00:00Z","to":"2023-11-14T22:59:59.999Z","sends":"samples","series":1,"samples":3,"values":3,"bytes":48}],` +
		`"estimate":{"series":3,"samples":9,"values":7,"bytes":144},"admission":{"seriesMax":0,"samplesMax":0,"bytesMax":536870912,"exceeds":[]}}`
	status, got := s.do("GET", query+"&explain=true", "")
	if status != 200 || !strings.HasSuffix(got, want) || !strings.HasPrefix(got, `{"dialect":"opentsdb","databases":["default"],"query":"/api/query?`) {
		t.Errorf("\n got %d %s\nwant %s\nasked %+v", status, got, want, asked)
	}
	for _, r := range watched.Take() {
		if r.Windows == nil || r.Windows.Aggregates != scan.AggregateCount || !r.Exact {
			t.Errorf("planning reads %+v", r)
		}
	}
	var plan struct{ Reads []struct{ Series int } }
	status, got = s.do("POST", "/api/query", `{"start":1699996400,"explain":true,"queries":[{"metric":"load","aggregator":"sum"}]}`)
	if err := json.Unmarshal([]byte(got), &plan); status != 200 || err != nil || len(plan.Reads) != 1 || plan.Reads[0].Series != 2 {
		t.Error(status, got)
	}
	if status, got := s.do("DELETE", query+"&explain", ""); status != 400 {
		t.Error(status, got)
	}
	if status, got := s.do("POST", "/api/query", `{"start":1699996400,"explain":true,"delete":true,"queries":[{"metric":"load","aggregator":"sum"}]}`); status != 400 {
		t.Error(status, got)
	}
}
