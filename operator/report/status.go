package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/hibernation"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/rollout"
	"github.com/tickmesh/tickmesh/operator/upgrade"
)

// Of returns the status of a cluster, and the types of conditions whose status or reason is
// another than before.
func Of(f *Facts) (status *v1alpha1.TickMeshClusterStatus, changed []string) {
	status = f.status()
	changed = setConditions(&status.Conditions, f.conditions(), f.Cluster.Generation, metav1.NewTime(f.Now))
	status.Phase = f.phase(status)
	return status, changed
}

// Event describes something that has become so.
type Event struct {
	Kind   string // corev1.EventTypeNormal or corev1.EventTypeWarning
	Reason string
	Note   string
}

// Events returns an event for each condition that has changed, but for Ready, which repeats others.
func Events(conditions []metav1.Condition, changed []string) (events []Event) {
	for _, kind := range changed {
		if kind == v1alpha1.ConditionReady {
			continue
		}
		condition := meta.FindStatusCondition(conditions, kind)
		event := corev1.EventTypeNormal
		if kind == v1alpha1.ConditionDegraded && condition.Status == metav1.ConditionTrue || asksForAPerson(condition.Reason) {
			event = corev1.EventTypeWarning
		}
		events = append(events, Event{event, condition.Reason, fmt.Sprintf("%s is %s: %s", kind, condition.Status, condition.Message)})
	}
	return events
}

// status returns the status but for conditions, which are those of before, and phase.
func (f *Facts) status() *v1alpha1.TickMeshClusterStatus {
	c, old := f.Cluster, &f.Cluster.Status
	s := &v1alpha1.TickMeshClusterStatus{
		Operator: old.Operator, StoreName: old.StoreName,
		ObservedGeneration: c.Generation, Conditions: slices.Clone(old.Conditions),
		Nodes: int32(len(f.Seen.NodePods())), ReadyNodes: int32(f.Seen.ReadyNodes()), WantedNodes: c.Spec.NodeCount(), NodeGroups: f.nodeGroupStatuses(),
		Selector: labels.SelectorFromSet(build.Selector(c, build.ComponentNode)).String(),
		Shards:   old.Shards, Version: old.Version, NewestVersion: upgrade.Known(old.NewestVersion, old.Version), Zones: old.Zones, NodeStatuses: old.NodeStatuses,
		ShardsMoving: old.ShardsMoving, UnderReplicated: old.UnderReplicated, BytesMoving: old.BytesMoving, ETA: old.ETA,
		VolumeSizes: f.Seen.VolumeSizes(), LeaderlessSince: f.leaderlessSince(), Etcd: f.Etcd.Status, Maintenance: f.maintenanceStatus(), Bootstrap: f.BootstrapStatus, Certificates: f.certificatesStatus(),
	}
	if m := f.Nodes.View.Map; m != nil && f.Nodes.ViewErr == nil {
		s.Shards = int32(len(m.Rows))
		s.ShardsMoving, s.UnderReplicated = int32(f.Nodes.Summary.Moving), int32(f.Nodes.Summary.UnderReplicated)
	}
	if f.Nodes.ViewErr == nil {
		s.NodeStatuses = f.nodeStatuses()
		versions := versionsOf(s.NodeStatuses)
		s.Zones, s.Version = zonesOf(s.NodeStatuses), strings.Join(versions, ",")
		s.NewestVersion = upgrade.Newest(s.NewestVersion, versions, c.Annotations[v1alpha1.AnnotationAllowVersion])
	}
	if f.Nodes.Status != nil {
		s.BytesMoving, s.ETA = f.moves()
	}
	if !f.WakingSince.IsZero() {
		s.WakingSince = &metav1.Time{Time: f.WakingSince}
	}
	if f.Hibernation.Stage == hibernation.Asleep {
		s.NodeStatuses = slices.Clone(s.NodeStatuses)
		for i := range s.NodeStatuses {
			s.NodeStatuses[i].Alive, s.NodeStatuses[i].Leads = false, 0
		}
	}
	return s
}

// moves returns the bytes that are still to be moved, and how long that takes.
func (f *Facts) moves() (bytes int64, eta v1alpha1.Duration) {
	longestMs := uint64(0)
	for i := range f.Nodes.Status.Moves {
		move := &f.Nodes.Status.Moves[i]
		if move.TotalBytes > move.DoneBytes {
			bytes += int64(move.TotalBytes - move.DoneBytes)
		}
		longestMs = max(longestMs, move.RemainingMs)
	}
	if longestMs == 0 {
		return bytes, ""
	}
	const hoursMax = 99_999 // five digits
	seconds := min((longestMs+999)/1000, hoursMax*3600)
	left := time.Duration(seconds) * time.Second
	return bytes, v1alpha1.Duration(fmt.Sprintf("%dh%dm%ds", int(left.Hours()), int(left.Minutes())%60, int(left.Seconds())%60))
}

// nodeStatuses returns the status of each node that is in Kubernetes or the store.
func (f *Facts) nodeStatuses() []v1alpha1.NodeStatus {
	view, ordinals := &f.Nodes.View, map[string]map[int]bool{} // by groups
	note := func(name string) {
		group, ordinal, ok := build.NodeOf(f.Cluster, name)
		if !ok {
			return
		}
		if ordinals[group] == nil {
			ordinals[group] = map[int]bool{}
		}
		ordinals[group][ordinal] = true
	}
	for _, pod := range f.Seen.NodePods() {
		note(pod.Name)
	}
	for name := range view.Nodes {
		note(name)
	}
	for name := range view.Desired {
		note(name)
	}
	groups := make([]string, 0, len(ordinals))
	for _, g := range f.Seen.NodeGroups {
		groups = append(groups, g.Name)
	}
	for _, group := range slices.Sorted(maps.Keys(ordinals)) {
		if !slices.Contains(groups, group) {
			groups = append(groups, group) // only the store knows of it
		}
	}
	var all []v1alpha1.NodeStatus
	for _, group := range groups {
		for _, ordinal := range slices.Sorted(maps.Keys(ordinals[group])) {
			name := build.NodeName(f.Cluster, group, ordinal)
			pod, _ := f.Seen.Node(name)
			s := f.nodeStatus(name, pod)
			s.Group = group
			all = append(all, s)
		}
	}
	return all
}

// nodeGroupStatuses returns the status of each group but that of spec.nodes.
func (f *Facts) nodeGroupStatuses() (all []v1alpha1.NodeGroupStatus) {
	for _, g := range f.Seen.NodeGroups[1:] {
		if g.Leaves && g.Set == nil && len(g.Pods) == 0 {
			continue // only volumes are left
		}
		asked, _ := f.Cluster.Spec.NodesOf(g.Name)
		s := v1alpha1.NodeGroupStatus{Name: g.Name, WantedNodes: asked.Count, Nodes: int32(len(g.Pods))}
		for _, pod := range g.Pods {
			if inventory.IsReady(pod) && pod.DeletionTimestamp == nil {
				s.ReadyNodes++
			}
		}
		all = append(all, s)
	}
	return all
}

func (f *Facts) nodeStatus(name string, pod *corev1.Pod) v1alpha1.NodeStatus {
	view := &f.Nodes.View
	info, alive := view.Nodes[name]
	s := v1alpha1.NodeStatus{
		Name: name, Alive: alive, Zone: info.Zone, Version: info.Version, UsedBytes: info.UsedBytes, Desired: string(view.Desired[name]),
	}
	if s.Desired == "" {
		s.Desired = string(shardmap.Active)
	}
	if pod != nil {
		s.Machine = pod.Spec.NodeName
		if s.Zone == "" {
			s.Zone = pod.Annotations[build.AnnotationZone]
		}
	}
	if view.Map != nil {
		s.Shards = int32(len(view.Map.MembersOn(name)))
	}
	if f.Nodes.Status != nil {
		for i := range f.Nodes.Status.Nodes {
			if n := &f.Nodes.Status.Nodes[i]; n.Node == name {
				s.Leads = int32(n.Leads)
			}
		}
	}
	return s
}

func zonesOf(nodes []v1alpha1.NodeStatus) []v1alpha1.ZoneStatus {
	count := map[string]int32{}
	for i := range nodes {
		if nodes[i].Zone != "" {
			count[nodes[i].Zone]++
		}
	}
	var zones []v1alpha1.ZoneStatus
	for _, name := range slices.Sorted(maps.Keys(count)) {
		zones = append(zones, v1alpha1.ZoneStatus{Name: name, Nodes: count[name]})
	}
	return zones
}

func versionsOf(nodes []v1alpha1.NodeStatus) []string {
	versions := map[string]bool{}
	for i := range nodes {
		if nodes[i].Version != "" {
			versions[nodes[i].Version] = true
		}
	}
	return slices.Sorted(maps.Keys(versions))
}

func (f *Facts) certificatesStatus() *v1alpha1.CertificatesStatus {
	if f.Certificates.NotAfter.IsZero() {
		return f.Cluster.Status.Certificates
	}
	s := &v1alpha1.CertificatesStatus{NotAfter: &metav1.Time{Time: f.Certificates.NotAfter}}
	if at := f.Certificates.AuthorityNotAfter; !at.IsZero() {
		s.AuthorityNotAfter = &metav1.Time{Time: at}
	}
	return s
}

// phase returns in one word how the cluster is.
func (f *Facts) phase(s *v1alpha1.TickMeshClusterStatus) v1alpha1.Phase {
	progressing := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing)
	degraded := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionDegraded)
	switch rollout.Reason(progressing.Reason) {
	case reasonPaused:
		return v1alpha1.PhasePaused
	case reasonHibernated, rollout.Reason(hibernation.FallingAsleep), rollout.Reason(hibernation.Waking):
		return v1alpha1.Phase(progressing.Reason)
	case rollout.ReasonScalingOut, rollout.ReasonScalingIn, rollout.ReasonDraining, rollout.ReasonReactivated, rollout.ReasonCleaning:
		return v1alpha1.PhaseScaling
	case rollout.ReasonUpdating, rollout.ReasonReplacingVolume:
		return v1alpha1.PhaseUpdating
	case rollout.ReasonMachineLost, rollout.ReasonVolumeLost:
		return v1alpha1.PhaseRepairing
	}
	switch {
	case s.Shards == 0:
		return v1alpha1.PhaseCreating
	case degraded && f.Nodes.Summary.Moving > 0:
		return v1alpha1.PhaseRepairing
	case degraded:
		return v1alpha1.PhaseDegraded
	case f.Nodes.Summary.Moving > 0:
		return v1alpha1.PhaseScaling
	}
	return v1alpha1.PhaseRunning
}

// Busy reports whether something is under way in a cluster, whose status says how it is now,
// that a look before long may bring on.
func Busy(c *v1alpha1.TickMeshCluster, nodes *Nodes) bool {
	progressing := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionProgressing)
	if progressing != nil && progressing.Reason == reasonHibernated {
		return false
	}
	return progressing == nil || progressing.Status == metav1.ConditionTrue && progressing.Reason != reasonMaintenance || nodes.ViewErr != nil ||
		// Nothing of Kubernetes tells when a router answers.
		!meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionAvailable) ||
		c.Status.LeaderlessSince != nil ||
		len(nodes.Plan.Actions) > 0 || len(nodes.Plan.Losses) > 0 || c.Status.ShardsMoving > 0
}
