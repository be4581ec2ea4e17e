package reconcile

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/operator/build"
)

// zones writes on each node's pod what zone its machine is in: the node waits for it.
func (p *pass) zones(ctx context.Context) error {
	for _, pod := range p.seen.nodePods {
		machine := p.seen.machines[pod.Spec.NodeName]
		if pod.Annotations[build.AnnotationZone] != "" || machine == nil || pod.DeletionTimestamp != nil {
			continue // a process does not change its zone
		}
		changed := pod.DeepCopy()
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[build.AnnotationZone] = ZoneOf(machine, p.cluster.Spec.Nodes.Zones.TopologyKey)
		if err := p.Client.Patch(ctx, changed, client.MergeFrom(pod)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("tell pod %s its zone: %w", pod.Name, err)
		}
	}
	return nil
}

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
