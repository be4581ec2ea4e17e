package token

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// closingMax bounds the upkeep at the end of a process.
const closingMax = 2 * time.Second

// Run writes down last uses and forgets tokens that have ended, until ctx ends.
func (r *Registry) Run(ctx context.Context) {
	ticker := time.NewTicker(upkeepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.Upkeep(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingMax)
			defer cancel()
			r.Upkeep(last)
			return
		}
	}
}

// Upkeep writes down the last uses of some tokens and forgets some that have ended for long.
// What fails is tried again by the next one; what others have changed is theirs.
func (r *Registry) Upkeep(ctx context.Context) {
	if r.options.Store.AwaySince() != 0 {
		return
	}
	now, v := r.options.Clock(), r.Current()
	var swaps []shardmap.TokenSwap
	for _, e := range v.tokens {
		next := e.text
		switch used := e.token().Used; {
		case now.Sub(v.end(e)) > endedKept:
			next = ""
		case used.After(e.Used):
			t := e.Token
			t.Used = used
			var err error
			if next, err = t.encode(); err != nil {
				continue
			}
		}
		if next == e.text {
			continue
		}
		if swaps = append(swaps, shardmap.TokenSwap{ID: e.ID, Old: e.text, Next: next}); len(swaps) == upkeepSwapsMax {
			break
		}
	}
	if len(swaps) == 0 {
		return
	}
	if err := r.options.Store.SwapAll(ctx, swaps); err != nil { // a watch tells of it
		r.options.Logger.Warn("the last use of tokens cannot be written down", "error", err)
		return
	}
	r.refresh()
}

type metrics struct{ tokens, away *prometheus.Desc }

func newMetrics() metrics {
	return metrics{
		tokens: prometheus.NewDesc("tickmesh_tokens", "Tokens that were made by `tickmesh tokens create` or the API, by whether they hold.", []string{"state"}, nil),
		away:   prometheus.NewDesc("tickmesh_tokens_stale_seconds", "For how long the placement store has not told of tokens; beyond a day none is taken.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (r *Registry) Describe(to chan<- *prometheus.Desc) {
	to <- r.metrics.tokens
	to <- r.metrics.away
}

// Collect implements prometheus.Collector.
func (r *Registry) Collect(to chan<- prometheus.Metric) {
	v, now := r.Current(), r.options.Clock()
	held := 0
	for _, e := range v.tokens {
		if r.refusal(v, e, now) == "" {
			held++
		}
	}
	for state, n := range map[string]int{"held": held, "ended": len(v.tokens) - held, "unreadable": len(v.unreadable)} {
		to <- prometheus.MustNewConstMetric(r.metrics.tokens, prometheus.GaugeValue, float64(n), state)
	}
	away := 0.0
	if since := r.options.Store.AwaySince(); since != 0 {
		away = max(0, now.Sub(time.UnixMilli(since)).Seconds())
	}
	to <- prometheus.MustNewConstMetric(r.metrics.away, prometheus.GaugeValue, away)
}
