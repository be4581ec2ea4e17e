package fanout

import (
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/deadline"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// Only answers teach that a node is slow, and they are not believed for long: one that is
// dead is noticed as fast as ever.
func TestPresence(t *testing.T) {
	var o Options
	o.setDefaults()
	l := &o.Limits
	p := presence{limit: deadline.New(l.ProbeTimeout, presenceFactorMax*l.ProbeTimeout)}
	now := time.Unix(1_000_000, 0)
	check := func(what string, allowed, probeAfter time.Duration) {
		t.Helper()
		if got := p.allowed(now); got != allowed {
			t.Errorf("%s: a probe is allowed %v, want %v", what, got, allowed)
		}
		if got := p.probeAfter(l, now); got != probeAfter {
			t.Errorf("%s: a silent node is probed after %v, want %v", what, got, probeAfter)
		}
	}
	check("nothing is known", l.ProbeTimeout, l.ProbeAfter)
	p.took(10*time.Millisecond, now)
	check("a quick answer", l.ProbeTimeout, l.ProbeAfter)
	p.took(500*time.Millisecond, now)
	check("a slow answer", 2*l.ProbeTimeout, 2*l.ProbeAfter)
	p.took(time.Hour, now)
	check("a very late answer", presenceFactorMax*l.ProbeTimeout, presenceFactorMax*l.ProbeAfter)
	now = now.Add(presenceKept + 1)
	check("no answer for a while", l.ProbeTimeout, l.ProbeAfter)
}

// An attempt that a node did not answer in time makes the next one longer, and never
// longer than the write; writes that succeed make it short again.
func TestAttemptTimeAdapts(t *testing.T) {
	w := newWorld(t, 1, testShards)
	c := w.open(Limits{AttemptTimeout: 5 * time.Millisecond, WriteTimeout: waitBound, BackoffMin: time.Microsecond, BackoffMax: time.Millisecond})
	n := c.current.Load().nodes[w.nodes[0].id]
	w.nodes[0].hung.Store(true)
	wrote := make(chan error, 1)
	go func() { wrote <- w.put(c, scantest.Key("", "m", "n", "1"), series.Sample{TimeMs: 1, Value: 1}) }()
	for n.attempts.Allowed() < 40*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	w.nodes[0].hung.Store(false)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
}
