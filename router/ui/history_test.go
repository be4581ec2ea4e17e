package ui

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// A page that is opened gets the last minutes, of live nodes and of this process, and no more.
func TestHistory(t *testing.T) {
	p := newPage(t)
	points := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPoints}, []string{"protocol", "outcome"})
	p.registry.MustRegister(points)
	p.status = &tickmeshv1.GetStatusResponse{Nodes: []*tickmeshv1.NodeStatus{{Node: "n1", Alive: true, SamplesApplied: 7}, {Node: "n2", SamplesApplied: 5}}}
	var got historyView
	if p.get("/ui/api/history", nil, &got); got.Samples == nil || len(got.Samples) != 0 {
		t.Fatalf("before anything was noted: %+v", got)
	}
	const more = 3
	for i := range historySamplesMax + more {
		p.now = p.now.Add(historyPeriod)
		points.WithLabelValues("put", "accepted").Add(2)
		points.WithLabelValues("line", "accepted").Add(1)
		p.page.handler.note(t.Context())
		if i == 0 {
			p.status.Nodes[0].SamplesApplied = 9
		}
	}
	p.get("/ui/api/history", nil, &got)
	if len(got.Samples) != historySamplesMax {
		t.Fatalf("%d moments are kept", len(got.Samples))
	}
	for i, m := range got.Samples {
		at := p.now.Add(time.Duration(i-historySamplesMax+1) * historyPeriod).UnixMilli()
		if m.TimeMs != at || m.NodesTimeMs != at || m.Points != float64(3*(i+1+more)) || len(m.Nodes) != 1 || m.Nodes["n1"] != 9 {
			t.Fatalf("moment %d: %+v", i, m)
		}
	}
}

// A cluster that does not answer is left out; what this process does is still noted.
func TestHistoryWithoutCluster(t *testing.T) {
	p := newPage(t)
	p.failing = errors.New("nobody is there")
	p.page.handler.note(t.Context())
	var got historyView
	p.get("/ui/api/history", nil, &got)
	if len(got.Samples) != 1 || got.Samples[0].TimeMs != p.now.UnixMilli() || len(got.Samples[0].Nodes) != 0 {
		t.Fatalf("%+v", got)
	}
}

// Watch notes a moment at once and then regularly, until its context ends.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.page.Watch(ctx)
		}()
		time.Sleep(2*historyPeriod + time.Millisecond)
		synctest.Wait()
		if n := len(p.page.handler.history.view().Samples); n != 3 {
			t.Errorf("%d moments after two periods", n)
		}
		cancel()
		<-done
	})
}
