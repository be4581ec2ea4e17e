package rules

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	prom "github.com/prometheus/prometheus/promql"
	promrules "github.com/prometheus/prometheus/rules"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/router/query/promql"
)

// blocked is an Engine whose evaluations wait.
type blocked struct {
	*promql.API
	begun   atomic.Int64
	release chan struct{}
}

func (b *blocked) Evaluate(ctx context.Context, database, expr string, at time.Time) (prom.Vector, error) {
	b.begun.Add(1)
	select {
	case <-b.release:
		return b.API.Evaluate(ctx, database, expr, at)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Where another process evaluates, who asks for rules waits no longer than they want to, and an evaluation that takes
// longer than each of them waits is answered to the next; when the service ends it does, too.
func TestMirrorTakesLong(t *testing.T) {
	path := rulesFile(t, "groups:\n- {name: g, rules: [{alert: A, expr: vector(1)}]}\n")
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		o := l.options(Pattern{"", path})
		o.Campaign = func(ctx context.Context) (shardmap.Leadership, error) {
			<-ctx.Done() // another is elected
			return nil, ctx.Err()
		}
		s, engine := open(t, o), &blocked{API: l.api, release: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx, engine, labWriter{l, ""}) })
		synctest.Wait()
		for range 3 {
			short, end := context.WithTimeout(t.Context(), 2*time.Second)
			if _, err := s.Groups(short, ""); !errors.Is(err, context.DeadlineExceeded) {
				t.Error("while it is evaluated:", err)
			}
			end()
		}
		if n := engine.begun.Load(); n != 1 {
			t.Errorf("%d evaluations are begun", n)
		}
		close(engine.release)
		synctest.Wait()
		groups, err := s.Groups(t.Context(), "")
		if err != nil || len(groups) != 1 || groups[0].Rules()[0].Health() != promrules.HealthGood || len(groups[0].AlertingRules()[0].ActiveAlerts()) != 1 {
			t.Error(groups, err)
		}
		engine.release = make(chan struct{})
		time.Sleep(mirrorKept)
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := s.Groups(t.Context(), ""); !errors.Is(err, errIdle) {
				t.Error("while the service ends:", err)
			}
		})
		synctest.Wait()
		cancel()
		running.Wait()
		asking.Wait()
		if _, err := s.Groups(t.Context(), ""); !errors.Is(err, errIdle) {
			t.Error("after its end:", err)
		}
	})
}
