package upgrade_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/operator/upgrade"
)

// Whatever is seen, the rules hold: no later component changes before an earlier one is
// settled, one that does not serve is never kept from its cure, and a plan always lets
// somebody go on unless a person or another cluster is waited for.
func TestDecideKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := upgrade.Facts{Turn: rapid.SampledFrom([]string{"", "another cluster"}).Draw(t, "turn"), Closed: rapid.Bool().Draw(t, "closed")}
		if rapid.Bool().Draw(t, "refused") {
			f.Refused = errors.New("too old")
		}
		for _, name := range []string{"etcd", "node", "router", "envoy"} {
			f.Components = append(f.Components, upgrade.Component{
				Name: name, Exists: rapid.Bool().Draw(t, "exists"), Current: rapid.Bool().Draw(t, "current"),
				NewImage: rapid.Bool().Draw(t, "image"), Rolling: rapid.Bool().Draw(t, "rolling"),
				Ready: rapid.Bool().Draw(t, "ready"), Serving: rapid.Bool().Draw(t, "serving"),
				Asked: rapid.Bool().Draw(t, "asked"), Pressing: rapid.Bool().Draw(t, "pressing"),
			})
		}
		plan := upgrade.Decide(f)
		for i, c := range f.Components {
			waits := func(c upgrade.Component) bool {
				return f.Refused == nil && f.Closed && c.Exists && !c.Current && c.Serving && !c.Pressing
			}
			unsettled := false
			for _, earlier := range f.Components[:i] {
				changes := earlier.Asked || !earlier.Current && !waits(earlier)
				unsettled = unsettled || earlier.Exists && (changes || earlier.Rolling || c.NewImage && !waits(c) && !earlier.Ready)
			}
			changes := c.Exists && (c.Asked || !c.Current && !waits(c))
			want := changes && (f.Refused != nil || c.Serving && (f.Turn != "" || unsettled))
			if plan.Holds(c.Name) != want || (slices.Contains(plan.Changed, c.Name) || plan.Restarts(c.Name)) != (changes && !want) {
				t.Fatalf("%s of %+v: %+v", c.Name, f, plan)
			}
			if slices.Contains(plan.Deferred, c.Name) != waits(c) || plan.Restarts(c.Name) && !waits(c) || slices.Contains(plan.Changed, c.Name) && waits(c) {
				t.Fatalf("%s waits for a window: %v, of %+v: %+v", c.Name, waits(c), f, plan)
			}
		}
	})
}

// Components that settle once they have changed all change in the end, in order, and one at
// a time.
func TestUpgradeEnds(t *testing.T) {
	components := []upgrade.Component{{Name: "etcd"}, {Name: "node"}, {Name: "router"}, {Name: "envoy"}}
	for i := range components {
		components[i].Exists, components[i].Serving, components[i].NewImage, components[i].Ready = true, true, true, true
	}
	var order []string
	for range 3 * len(components) {
		plan := upgrade.Decide(upgrade.Facts{Components: components})
		for i := range components {
			switch c := &components[i]; {
			case c.Rolling:
				c.Rolling, c.Ready = false, false
			case !c.Ready:
				c.Ready = true
			case !c.Current && !plan.Holds(c.Name):
				c.Current, c.NewImage, c.Rolling = true, false, true
				order = append(order, c.Name)
			}
		}
	}
	if got := strings.Join(order, " "); got != "etcd node router envoy" {
		t.Fatal(got)
	}
}

// What takes another template while no maintenance window is open.
func TestClosedWindow(t *testing.T) {
	etcd := upgrade.Component{Name: "etcd", Exists: true, Current: true, Ready: true, Serving: true}
	node := etcd
	node.Name = "node"
	for name, test := range map[string]struct {
		change                             func(f *upgrade.Facts, etcd, node *upgrade.Component)
		deferred, changed, restarted, held string
	}{
		"nothing":         {change: func(*upgrade.Facts, *upgrade.Component, *upgrade.Component) {}},
		"other templates": {func(_ *upgrade.Facts, e, n *upgrade.Component) { e.Current, n.Current = false, false }, "etcd node", "", "", ""},
		"the window opens": {func(f *upgrade.Facts, e, n *upgrade.Component) {
			f.Closed, e.Current, n.Current = false, false, false
		}, "", "etcd", "", "node"},
		"nodes do not serve": {func(_ *upgrade.Facts, e, n *upgrade.Component) {
			e.Current, n.Current, n.Serving = false, false, false
		}, "etcd", "node", "", ""},
		"it presses": {func(_ *upgrade.Facts, e, n *upgrade.Component) {
			e.Current, n.Current, e.Pressing = false, false, true
		}, "node", "etcd", "", ""},
		"a person asks for a restart, and nothing else waits": {func(_ *upgrade.Facts, _, n *upgrade.Component) { n.Asked = true }, "", "node", "", ""},
		"a person asks for a restart, and an upgrade waits": {func(_ *upgrade.Facts, e, n *upgrade.Component) {
			e.Current, n.Current, n.Asked, n.NewImage = false, false, true, true
		}, "etcd node", "", "node", ""},
		"a person asks for both": {func(_ *upgrade.Facts, e, n *upgrade.Component) {
			e.Asked, n.Asked, n.Current = true, true, false
		}, "node", "etcd", "", "node"},
		"the version is refused": {func(f *upgrade.Facts, _, n *upgrade.Component) {
			f.Refused, n.Current = errors.New("too old"), false
		}, "", "", "", "node"},
	} {
		f := upgrade.Facts{Components: []upgrade.Component{etcd, node}, Closed: true}
		test.change(&f, &f.Components[0], &f.Components[1])
		plan := upgrade.Decide(f)
		var held []string
		for _, hold := range plan.Held {
			held = append(held, hold.Component)
		}
		for what, got := range map[string][2]string{
			"waits":    {strings.Join(plan.Deferred, " "), test.deferred},
			"changes":  {strings.Join(plan.Changed, " "), test.changed},
			"restarts": {strings.Join(plan.Restarted, " "), test.restarted},
			"is held":  {strings.Join(held, " "), test.held},
		} {
			if got[0] != got[1] {
				t.Errorf("%s: %q %s, expected %q", name, got[0], what, got[1])
			}
		}
	}
}

func TestCheckVersions(t *testing.T) {
	for _, test := range []struct {
		running, image, allowed string
		want                    string // in the error; empty: none
	}{
		{"0.1.0", "tickmesh:0.1.1", "", ""},
		{"0.1.1", "tickmesh:0.1.0", "", ""}, // formats stay within a minor version
		{"0.1.0", "registry:5000/tickmesh:v0.2.0", "", ""},
		{"0.1.0", "tickmesh:0.2.0-rc.1", "", ""},
		{"0.1.0", "tickmesh:0.3.0", "", "upgrade to 0.2 first"},
		{"0.1.0,0.2.0", "tickmesh:0.3.0", "", "upgrade to 0.2 first"},
		{"0.2.0", "tickmesh:0.1.9", "", "older programs may not read"},
		{"0.1.0,0.2.0", "tickmesh:0.1.0", "", "version 0.1.0 is not put in the place of 0.2.0"},
		{"0.1.0,0.2.0", "tickmesh:0.1.0", "0.1.0", ""},
		{"0.2.0", "tickmesh:0.1.9", "0.1.8", "older programs"},
		{"0.9.0", "tickmesh:1.0.0", "", ""},
		{"0.9.0", "tickmesh:1.1.0", "", "upgrade to 1.0 first"},
		{"1.0.0", "tickmesh:3.0.0", "", "upgrade to 2.0 first"},
		{"1.0.0", "tickmesh:0.9.0", "", "older programs"},
		{"1.0.0", "tickmesh:latest", "", ""},
		{"1.0.0", "tickmesh@sha256:0123", "", ""},
		{"1.0.0", "registry:5000/tickmesh", "", ""},
		{"unknown", "tickmesh:3.0.0", "", ""},
		{"", "tickmesh:3.0.0", "", ""},
		{"0.3.0", "tickmesh:0.1.0@sha256:0123", "", "older programs"},
		{"0.2.0", "tickmesh:0.2.0-mirror1", "", ""},
		{"0.2.0", "tickmesh:0.1.0-mirror1", "", "older programs"},
		{"0.2.0", "tickmesh:0.1.0-mirror1", "0.1.0", ""},
		{"0.2.0", "tickmesh:0.1.0", "0.1.0-mirror1", ""},
		{"0.2.0", "tickmesh:0.1.0-mirror1", "0.1.1", "older programs"},
	} {
		err := upgrade.CheckVersions(strings.Split(test.running, ","), test.image, test.allowed)
		refused := new(upgrade.VersionError)
		if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s to %s, %q allowed: %v", test.running, test.image, test.allowed, err)
		}
	}
}

func TestNewest(t *testing.T) {
	for _, test := range []struct{ was, running, allowed, want string }{
		{"", "0.1.0", "", "0.1.0"},
		{"", "dev,0.1.0", "", "0.1.0"},
		{"0.2.0", "0.1.0", "", "0.2.0"},
		{"0.2.0", "0.10.0,0.9.0", "", "0.10.0"},
		{"0.2.0", "", "", "0.2.0"},
		{"0.2.0", "dev", "", "0.2.0"},
		{"0.2.0", "0.1.0,0.2.0", "0.1.0", "0.2.0"},
		{"0.2.0", "0.1.0,0.1.0", "0.1.0", "0.1.0"},
		{"", "", "0.1.0", ""},
		{"0.2.0", "0.1.0,0.1.0", "0.1.0-mirror1", "0.1.0"},
		{"0.2.0", "0.1.1,0.1.1", "0.1.0-mirror1", "0.2.0"},
		{"0.2.0", "dev,dev", "dev", "dev"},
	} {
		var running []string
		if test.running != "" {
			running = strings.Split(test.running, ",")
		}
		if got := upgrade.Newest(test.was, running, test.allowed); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// A status that an older operator has written names no newest version, but what ran.
func TestKnown(t *testing.T) {
	for _, test := range []struct{ newest, running, want string }{
		{"0.2.0", "0.3.0", "0.2.0"}, {"", "0.1.0,0.2.0", "0.2.0"}, {"", "dev", ""}, {"", "", ""},
	} {
		if got := upgrade.Known(test.newest, test.running); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func FuzzImageVersion(f *testing.F) {
	for _, image := range []string{"tickmesh:0.1.0", "r:5000/a/b:v1.2.3-x+y@sha256:00", "", ":", "@", "a:1.2.3.4", "a:99999999999999999999.0.0"} {
		f.Add(image)
	}
	f.Fuzz(func(t *testing.T, image string) {
		if is, known := upgrade.ImageVersion(image); known && !strings.Contains(image, is) {
			t.Fatalf("%q in %q", is, image)
		}
		_ = upgrade.CheckVersions([]string{"0.1.0", image}, image, "")
	})
}

// Clusters take turns, also when an operator is killed while one is halfway.
func TestTurns(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	turns := upgrade.NewTurns(time.Minute, now)
	take := func(cluster string, begun, mayGo bool) {
		t.Helper()
		if wait := turns.Take(cluster, begun, now); (wait == "") != mayGo {
			t.Fatalf("%s: %q", cluster, wait)
		}
	}
	take("a", false, false) // the operator has just begun
	take("b", true, true)   // an earlier one has begun with it
	now = now.Add(2 * time.Minute)
	take("a", false, false)
	take("c", true, true) // so it has with this one, which is not kept waiting
	turns.Done("c", now)
	take("a", false, false)
	turns.Done("b", now)
	take("a", false, false)
	now = now.Add(time.Minute)
	take("a", false, true)
	take("b", false, false)
	take("a", true, true)
	turns.Done("a", now)
	now = now.Add(time.Minute)
	take("b", false, true)
	now = now.Add(59 * time.Minute)
	take("c", false, false)
	now = now.Add(time.Minute)
	take("c", false, true) // b stands still, and goes on beside it
	take("b", true, true)
	turns.Done("b", now)
	take("d", false, false)
}
