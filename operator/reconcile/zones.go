package reconcile

import (
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// zoneBytesMax is the length of a zone's name in the placement store.
const zoneBytesMax = 63

// ZoneOf returns the zone of a machine: what its label says, or without one its own name,
// in the letters that the placement store takes. Names that it does not take get a hash
// at their end, so that different ones stay different.
func ZoneOf(machine *corev1.Node, topologyKey string) string {
	name := machine.Labels[topologyKey]
	if name == "" {
		name = machine.Name
	}
	zone := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	zone = strings.Trim(zone, "-")
	if zone == name && len(zone) <= zoneBytesMax {
		return zone
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	suffix := fmt.Sprintf("%08x", h.Sum32())
	zone = strings.TrimRight(zone[:min(len(zone), zoneBytesMax-len(suffix)-1)], "-")
	return strings.TrimLeft(zone+"-"+suffix, "-")
}
