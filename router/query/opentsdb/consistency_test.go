package opentsdb

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// TestConsistency: the consistency of a request reaches the source, once for all its scans;
// what is missing is in the answer's header.
func TestConsistency(t *testing.T) {
	var asked []scan.Consistency
	var missing []uint16
	s := newServer(t, func(o *Options) {
		o.WithConsistency = func(r scan.Consistency) (scan.Source, func() []uint16) {
			asked = append(asked, r)
			return o.Source, func() []uint16 { return missing }
		}
	})
	s.put(scantest.Key("", "m", "host", "a"), 1, 1)
	get := func(target string, headers ...string) *httptest.ResponseRecorder {
		asked = nil
		r := httptest.NewRequest(http.MethodGet, target, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.serve(w, r)
		return w
	}
	const query = "/api/query?start=1&m=sum:m&m=max:m"
	partial, stale := scan.Consistency{Partial: true}, scan.Consistency{StalenessMax: 1500 * time.Millisecond}
	for _, test := range []struct {
		target  string
		headers []string
		want    scan.Consistency
	}{
		{query, nil, scan.Consistency{}},
		{query + "&partial=false&stale_ms=0", nil, scan.Consistency{}},
		{query + "&partial=true", nil, partial},
		{query + "&partial", nil, partial},
		{query, []string{"X-Tickmesh-Partial", "true"}, partial},
		{query, []string{"X-Tickmesh-Partial", "False"}, scan.Consistency{}},
		{query + "&partial=0", []string{"X-Tickmesh-Partial", "1"}, scan.Consistency{}},
		{query + "&stale_ms=1500", []string{"X-Tickmesh-Stale-Ms", "7"}, stale},
		{query, []string{"X-Tickmesh-Stale-Ms", "1500"}, stale},
		{query + "&stale_ms=1500", []string{"X-Tickmesh-Partial", "1"}, scan.Consistency{Partial: true, StalenessMax: 1500 * time.Millisecond}},
		{"/api/query/last?timeseries=m&partial=true", nil, partial},
		{"/api/search/lookup?m=m&partial=true", nil, partial},
		{"/api/suggest?type=metrics&partial=true", nil, partial},
		{"/api/suggest?type=tagk&stale_ms=1500", nil, stale},
	} {
		for _, missing = range [][]uint16{nil, {3, 17, 65535}} {
			w := get(test.target, test.headers...)
			want, asks := "", test.want != (scan.Consistency{})
			if asks && missing != nil {
				want = "3,17,65535"
			}
			if got := w.Header().Get("X-Tickmesh-Missing-Shards"); w.Code != http.StatusOK || got != want {
				t.Errorf("%s %v: %d, missing %q, want %q: %s", test.target, test.headers, w.Code, got, want, w.Body)
			}
			if asks != (len(asked) == 1) || asks && asked[0] != test.want {
				t.Errorf("%s %v: asked for %+v, want %+v", test.target, test.headers, asked, test.want)
			}
		}
	}
	missing = nil
	for _, target := range []string{query + "&stale_ms=x", query + "&stale_ms=-1", query + "&stale_ms=86400001"} {
		if w := get(target); w.Code != http.StatusBadRequest || asked != nil {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if n, _ := s.do(http.MethodGet, query, ""); n != http.StatusOK {
		t.Error("the delete was made")
	}
}

// TestUnknownMetricOfPartial: a metric that nobody knows may be one of a shard that is
// missing.
func TestUnknownMetricOfPartial(t *testing.T) {
	var missing []uint16
	s := newServer(t, func(o *Options) {
		o.WithConsistency = func(scan.Consistency) (scan.Source, func() []uint16) {
			return o.Source, func() []uint16 { return missing }
		}
	})
	s.want(http.MethodGet, "/api/query?start=1&partial=true&m=sum:m", "", http.StatusBadRequest, `{"error":{"code":400,"message":"No such name for 'metrics': 'm'"}}`)
	missing = []uint16{0}
	s.want(http.MethodGet, "/api/query?start=1&partial=true&m=sum:m", "", http.StatusOK, "[]")
	s.want(http.MethodGet, "/api/query/last?timeseries=m&partial=true", "", http.StatusOK, "[]")
	s.want(http.MethodGet, "/api/query?start=1&m=sum:m", "", http.StatusBadRequest, `{"error":{"code":400,"message":"No such name for 'metrics': 'm'"}}`)
}
