package opentsdb

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// fullSource waits after its first scan, when the request holds what it has read.
type fullSource struct {
	scan.Source
	inside, leave chan struct{}
	scans         *atomic.Int64
}

func (s fullSource) Scan(ctx context.Context, r *scan.Request, visit scan.Visitor) error {
	err := s.Source.Scan(ctx, r, visit)
	if s.scans.Add(1) == 1 {
		s.inside <- struct{}{}
		<-s.leave
	}
	return err
}

// TestMemoryOfAllQueries: a query that does not fit beside those that run is told
// to come again, and there is room when they have ended.
func TestMemoryOfAllQueries(t *testing.T) {
	inside, leave, registry := make(chan struct{}), make(chan struct{}), prometheus.NewRegistry()
	s := newServer(t, func(o *Options) {
		o.Source = fullSource{o.Source, inside, leave, new(atomic.Int64)}
		o.Admission = admission.New(admission.Options{BytesAllMax: 50_000, Registerer: registry})
	})
	s.putSamples(scantest.Key("", "m"), ramp(1000)) // 16 bytes each: as read, as kept, as merged
	const target = "/api/query?start=0&m=sum:m"
	done := make(chan struct{})
	go func() {
		defer close(done)
		if status, body := s.do("GET", target, ""); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	}()
	<-inside
	s.want("GET", target, "", 503, `{"error":{"code":503,"message":"the queries that are running hold all the memory that there is for queries: try again later"}}`)
	leave <- struct{}{}
	<-done
	if status, body := s.do("GET", target, ""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if held := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "tickmesh_query_memory_bytes" && held != 0 {
			t.Errorf("%v bytes are held by nobody", held)
		}
	}
}

// TestMemoryOfGroups: an answer of many small groups counts as large as it is.
func TestMemoryOfGroups(t *testing.T) {
	s := newServer(t, bounded(admission.Limits{BytesMax: 400_000}))
	for i := range 1000 {
		s.put(scantest.Key("", "m", "host", fmt.Sprint(i)), 1, 1)
	}
	if status, body := s.do("GET", "/api/query?start=0&m=sum:m", ""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	for _, m := range []string{"sum:m{host=*}", "none:m"} {
		if status, body := s.do("GET", "/api/query?start=0&m="+m, ""); status != 413 || !strings.Contains(body, "bytes") {
			t.Errorf("%d %.200s", status, body)
		}
	}
}

// TestFillIsCancelled: a fill that would take for ever ends with its request.
func TestFillIsCancelled(t *testing.T) {
	s := newServer(t, bounded(admission.Limits{Timeout: 20 * time.Millisecond}))
	s.put(scantest.Key("", "m"), 1, 1)
	for _, interval := range []string{"1ms", "1msc"} {
		if status, body := s.do("GET", "/api/query?start=0&end=4000000000000&m=sum:"+interval+"-sum-zero:m", ""); status != 504 {
			t.Errorf("%d %.200s", status, body)
		}
	}
}
