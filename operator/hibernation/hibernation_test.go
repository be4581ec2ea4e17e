package hibernation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// awake returns the facts of a cluster that serves.
func awake() Facts {
	var f Facts
	for _, name := range []string{"etcd", "node", "router", "envoy"} {
		f.Components = append(f.Components, Component{Name: name, Exists: true, Pods: 2, Serving: true})
	}
	return f
}

func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(f *Facts)
		stage   Stage
		stopped string
		waiting string
	}{
		"awake":                     {func(*Facts) {}, Awake, "", ""},
		"a router is away":          {func(f *Facts) { f.Components[2].Serving = false }, Awake, "", ""},
		"it is to sleep":            {func(f *Facts) { f.Wanted = true }, FallingAsleep, "envoy", "envoy ends, 2 pods are left"},
		"a backup runs":             {func(f *Facts) { f.Wanted, f.Busy = true, "backup a runs" }, FallingAsleep, "", "backup a runs"},
		"one begins too late":       {func(f *Facts) { f.Wanted, f.Busy = true, "backup a runs"; stop(f, 3, 1) }, FallingAsleep, "envoy", "envoy ends, 1 pods"},
		"Envoy has gone":            {func(f *Facts) { f.Wanted = true; stop(f, 3, 0) }, FallingAsleep, "envoy router", "router ends"},
		"nodes end":                 {func(f *Facts) { f.Wanted = true; stop(f, 3, 0); stop(f, 2, 0); stop(f, 1, 1) }, FallingAsleep, "envoy node router", "node ends, 1 pods"},
		"etcd has gone":             {func(f *Facts) { f.Wanted = true; stopAll(f) }, Asleep, "envoy etcd node router", ""},
		"it was never there":        {func(f *Facts) { f.Wanted = true; absent(f) }, Asleep, "envoy etcd node router", ""},
		"somebody starts one":       {func(f *Facts) { f.Wanted = true; stopAll(f); f.Components[2].Pods = 1 }, FallingAsleep, "envoy etcd node router", "router ends"},
		"it is to wake":             {func(f *Facts) { stopAll(f) }, Waking, "envoy node router", "etcd is starting"},
		"etcd serves":               {func(f *Facts) { stopAll(f); start(f, 0, true) }, Waking, "envoy router", "node is starting"},
		"nodes are not ready":       {func(f *Facts) { stopAll(f); start(f, 0, true); start(f, 1, false) }, Waking, "envoy router", "node is starting"},
		"nodes serve":               {func(f *Facts) { stopAll(f); start(f, 0, true); start(f, 1, true) }, Waking, "envoy", "router is starting"},
		"routers serve":             {func(f *Facts) { stop(f, 3, 0) }, Waking, "", "envoy is starting"},
		"etcd does not come":        {func(f *Facts) { stopAll(f); start(f, 0, false); f.WakingFor = StepWaitMax }, Waking, "envoy router", "etcd is starting"},
		"nothing comes":             {func(f *Facts) { stopAll(f); start(f, 0, false); f.WakingFor = time.Hour }, Waking, "", "etcd is starting"},
		"it wakes while it goes":    {func(f *Facts) { stop(f, 3, 1); stop(f, 2, 1) }, Waking, "envoy", "router is starting"},
		"it sleeps while it wakes":  {func(f *Facts) { f.Wanted = true; stop(f, 3, 0); f.Components[2].Serving = false }, FallingAsleep, "envoy router", "router ends"},
		"no components but routers": {func(f *Facts) { f.Wanted, f.Components = true, f.Components[2:3] }, FallingAsleep, "router", "router ends"},
	} {
		f := awake()
		test.change(&f)
		plan := Decide(f)
		stopped := strings.Join(slices.Sorted(maps.Keys(plan.Stopped)), " ")
		if plan.Stage != test.stage || stopped != test.stopped || !strings.HasPrefix(plan.Waiting, test.waiting) || (plan.Waiting == "") != (test.waiting == "") {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}

func stop(f *Facts, i, pods int) {
	f.Components[i].Stopped, f.Components[i].Pods, f.Components[i].Serving = true, pods, false
}

func start(f *Facts, i int, serving bool) {
	f.Components[i] = Component{Name: f.Components[i].Name, Exists: true, Pods: 2, Serving: serving}
}

func stopAll(f *Facts) {
	for i := range f.Components {
		stop(f, i, 0)
	}
}

func absent(f *Facts) {
	for i := range f.Components {
		f.Components[i] = Component{Name: f.Components[i].Name}
	}
}

// A cluster that serves, as a backup runs or as Envoy cannot be stopped, is repaired like any other.
func TestRests(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *Facts)
		rests  bool
	}{
		"awake":              {func(*Facts) {}, false},
		"a restore runs":     {func(f *Facts) { f.Wanted, f.Busy = true, "restore a runs" }, false},
		"nothing is stopped": {func(f *Facts) { f.Wanted = true }, false},
		"Envoy is stopped":   {func(f *Facts) { f.Wanted = true; stop(f, 3, 1) }, true},
		"it sleeps":          {func(f *Facts) { f.Wanted = true; stopAll(f) }, true},
		"it was never there": {func(f *Facts) { f.Wanted = true; absent(f) }, true},
		"it wakes":           {func(f *Facts) { stopAll(f) }, false},
	} {
		f := awake()
		test.change(&f)
		if plan := Decide(f); plan.Rests() != test.rests {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}

// However often a person changes their mind, no component is stopped while a later one has pods,
// none starts before the earlier ones serve, and in the end all is as it was asked for last.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := awake()
		step := func() {
			plan := Decide(f)
			for i := range f.Components {
				c := &f.Components[i]
				was, is := c.Stopped, plan.Stopped[c.Name]
				for _, later := range f.Components[i+1:] {
					if !was && is && (later.Pods > 0 || !later.Stopped) {
						t.Fatalf("%s stops before %s: %+v", c.Name, later.Name, f)
					}
				}
				for _, earlier := range f.Components[:i] {
					if was && !is && !earlier.Serving {
						t.Fatalf("%s starts before %s serves: %+v", c.Name, earlier.Name, f)
					}
				}
			}
			for i := range f.Components {
				c := &f.Components[i]
				c.Stopped = plan.Stopped[c.Name]
				switch {
				case c.Stopped:
					c.Pods, c.Serving = max(c.Pods-1, 0), false
				case c.Pods < 2:
					c.Pods++
				default:
					c.Serving = true
				}
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			f.Wanted = rapid.Bool().Draw(t, "wanted")
			for range rapid.IntRange(1, 4).Draw(t, "passes") {
				step()
			}
		}
		for range 40 {
			step()
		}
		want := Awake
		if f.Wanted {
			want = Asleep
		}
		if plan := Decide(f); plan.Stage != want {
			t.Fatal(fmt.Sprintf("%+v", plan), f)
		}
	})
}
