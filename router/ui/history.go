package ui

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// The history that a page which is opened begins with.
const (
	historyPeriod     = 5 * time.Second // between two samples
	historySamplesMax = 60              // kept: five minutes
)

// historySample is the counters at one time, of which the page makes rates.
type historySample struct {
	TimeMs      int64             `json:"timeMs"`
	Points      float64           `json:"points"` // of this process, as the next ones
	Refused     float64           `json:"refused"`
	CPUSeconds  float64           `json:"cpuSeconds"`
	Queries     float64           `json:"queries"`
	NodesTimeMs int64             `json:"nodesTimeMs"` // of what nodes tell
	Nodes       map[string]uint64 `json:"nodes"`       // samples that live nodes have applied; empty: nobody told
}

// historyView is the last minutes, the oldest sample first.
type historyView struct {
	Samples []historySample `json:"moments"`
}

// history keeps the samples of the last minutes. It is safe for concurrent use.
type history struct {
	mu      sync.Mutex
	samples []historySample // guarded by mu; what is in it does not change
}

func (h *history) add(m historySample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) == historySamplesMax {
		h.samples = append(h.samples[:0:0], h.samples[1:]...)
	}
	h.samples = append(h.samples, m)
}

func (h *history) view() *historyView {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &historyView{append([]historySample{}, h.samples...)}
}

// Watch notes what happens until the context ends, so that a page that is opened can draw
// the last minutes. It costs the cluster what one open page does, less than half as often.
func (p *Page) Watch(ctx context.Context) {
	ticker := time.NewTicker(historyPeriod)
	defer ticker.Stop()
	for {
		p.handler.note(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// note adds the present counters to the history. A cluster that does not answer leaves its
// nodes out of it.
func (h *handler) note(ctx context.Context) {
	live, err := h.snapshots.live.get(ctx)
	if err != nil {
		return
	}
	m := historySample{
		TimeMs: live.TimeMs, Refused: live.Refused, CPUSeconds: live.CPUSeconds, Queries: live.QueriesEnded, Nodes: map[string]uint64{},
	}
	for _, points := range live.Points {
		m.Points += points
	}
	if status, err := h.snapshots.status.get(ctx); err == nil {
		m.NodesTimeMs = status.TimeMs
		for i := range status.Nodes {
			if n := &status.Nodes[i]; n.Alive {
				m.Nodes[n.Node] = n.SamplesApplied
			}
		}
	}
	h.history.add(m)
}

// past serves the history, of nodes to whom may see them.
func (h *handler) past(r *http.Request) (any, error) {
	v := h.history.view()
	if !seesNodes(r) {
		for i := range v.Samples {
			v.Samples[i].Nodes = map[string]uint64{}
		}
	}
	return v, nil
}
