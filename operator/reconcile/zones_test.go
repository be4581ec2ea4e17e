package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

func machineNamed(name, zone string) *corev1.Node {
	m := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if zone != "" {
		m.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	}
	return m
}

func TestZoneOf(t *testing.T) {
	for _, c := range []struct{ name, zone, want string }{
		{"pi-1", "", "pi-1"},
		{"pi-1", "rack-2", "rack-2"},
		{"pi.local", "", "pi-local-2e1cb8a3"},
		{"pi-local", "", "pi-local"},
	} {
		got := ZoneOf(machineNamed(c.name, c.zone), corev1.LabelTopologyZone)
		if c.name == "pi.local" {
			if got == "pi-local" || got[:9] != "pi-local-" {
				t.Errorf("%q", got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.name, c.zone, got, c.want)
		}
	}
}

// Whatever a label says, the placement store takes the zone, and other names get other
// zones.
func FuzzZoneOf(f *testing.F) {
	for _, name := range []string{"a", "A", "eu-west-1a", "rack 7", "-", "ä", "a.b", "a-b"} {
		f.Add(name, name+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		zone := ZoneOf(machineNamed("m", a), corev1.LabelTopologyZone)
		if !shardmap.ValidName(zone) {
			t.Fatalf("%q becomes %q", a, zone)
		}
		if a != b && shardmap.ValidName(a) && shardmap.ValidName(b) && zone == ZoneOf(machineNamed("m", b), corev1.LabelTopologyZone) {
			t.Fatalf("%q and %q become %q", a, b, zone)
		}
	})
}
