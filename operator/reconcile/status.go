package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/rollout"
)

// writeStatus writes what was seen, if it is news and nobody has changed the cluster meanwhile:
// what the status says of etcd is the only thing that is known of one that does not answer,
// and must not be put back to what it was.
func (p *pass) writeStatus(ctx context.Context) error {
	before := p.cluster.DeepCopy()
	summary := shardmap.Summarize(p.nodes.facts.State)
	status := p.status(summary)
	changed := setConditions(&status.Conditions, p.conditions(summary), p.cluster.Generation, metav1.NewTime(p.now))
	status.Phase = p.phase(status, summary)
	if !equality.Semantic.DeepEqual(before.Status, *status) {
		p.cluster.Status = *status
		if err := p.patchStatus(ctx, p.cluster, before); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("write the status: %w", err)
		}
		p.tell(changed)
	}
	p.Metrics.observe(p.cluster, p.nodes.plan, p.failures)
	return nil
}

// tell makes an event of each condition that has changed.
func (p *pass) tell(changed []string) {
	for _, kind := range changed {
		condition := meta.FindStatusCondition(p.cluster.Status.Conditions, kind)
		worse := kind == v1alpha1.ConditionDegraded && condition.Status == metav1.ConditionTrue ||
			condition.Reason == reasonScaleRefused || condition.Reason == reasonDrainRefused || condition.Reason == reasonUnknownNode || condition.Reason == reasonNoMonitors || condition.Reason == reasonVolumesRefused || condition.Reason == reasonVersionRefused || condition.Reason == reasonNames
		event := corev1.EventTypeNormal
		if worse {
			event = corev1.EventTypeWarning
		}
		p.event(event, condition.Reason, "%s is %s: %s", kind, condition.Status, condition.Message)
	}
}

// status returns the status but for conditions, which are those of before, and phase.
func (p *pass) status(summary shardmap.Summary) *v1alpha1.TickMeshClusterStatus {
	c, old := p.cluster, &p.cluster.Status
	s := &v1alpha1.TickMeshClusterStatus{
		Operator: old.Operator, StoreName: old.StoreName,
		ObservedGeneration: c.Generation, Conditions: slices.Clone(old.Conditions),
		Nodes: int32(len(p.seen.nodePods)), ReadyNodes: int32(p.readyNodes()),
		Selector: labels.SelectorFromSet(build.Selector(c, build.ComponentNode)).String(),
		Shards:   old.Shards, Version: old.Version, Zones: old.Zones, NodeStatuses: old.NodeStatuses,
		ShardsMoving: old.ShardsMoving, UnderReplicated: old.UnderReplicated, BytesMoving: old.BytesMoving, ETA: old.ETA,
		VolumeSizes: p.volumeSizes(), LeaderlessSince: p.leaderlessSince(), Etcd: p.etcdStatus(), Certificates: p.certificatesStatus(),
	}
	if m := p.nodes.view.Map; m != nil && p.nodes.viewErr == nil {
		s.Shards = int32(len(m.Rows))
		s.ShardsMoving, s.UnderReplicated = int32(summary.Moving), int32(summary.UnderReplicated)
	}
	if p.nodes.viewErr == nil {
		s.NodeStatuses = p.nodeStatuses()
		s.Zones, s.Version = zonesOf(s.NodeStatuses), versionsOf(s.NodeStatuses)
	}
	if p.nodes.status != nil {
		s.BytesMoving, s.ETA = p.moves()
	}
	return s
}

// volumeSizes returns the largest size of the claims of each component; nil: there are none.
func (p *pass) volumeSizes() *v1alpha1.VolumeSizes {
	largest := func(claims map[int]*corev1.PersistentVolumeClaim) (size *resource.Quantity) {
		for _, claim := range claims {
			if is := sizeOf(claim); size == nil || is.Cmp(*size) > 0 {
				size = &is
			}
		}
		return size
	}
	sizes := v1alpha1.VolumeSizes{Node: largest(p.seen.nodeClaims), Etcd: largest(p.seen.etcdClaims)}
	if sizes == (v1alpha1.VolumeSizes{}) {
		return nil
	}
	return &sizes
}

func (p *pass) readyNodes() int {
	ready := 0
	for _, pod := range p.seen.nodePods {
		if isReady(pod) && pod.DeletionTimestamp == nil {
			ready++
		}
	}
	return ready
}

// moves returns the bytes that are still to be moved, and how long that takes.
func (p *pass) moves() (bytes int64, eta v1alpha1.Duration) {
	longestMs := uint64(0)
	for i := range p.nodes.status.Moves {
		move := &p.nodes.status.Moves[i]
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

// nodeStatuses tells of each node that Kubernetes or the store knows.
func (p *pass) nodeStatuses() []v1alpha1.NodeStatus {
	prefix, view := build.Name(p.cluster, build.ComponentNode), &p.nodes.view
	ordinals := map[int]bool{}
	for ordinal := range p.seen.nodePods {
		ordinals[ordinal] = true
	}
	for name := range view.Nodes {
		if ordinal, ok := ordinalOf(name, prefix); ok {
			ordinals[ordinal] = true
		}
	}
	for name := range view.Desired {
		if ordinal, ok := ordinalOf(name, prefix); ok {
			ordinals[ordinal] = true
		}
	}
	var all []v1alpha1.NodeStatus
	for _, ordinal := range slices.Sorted(maps.Keys(ordinals)) {
		all = append(all, p.nodeStatus(prefix+"-"+strconv.Itoa(ordinal), p.seen.nodePods[ordinal]))
	}
	return all
}

func (p *pass) nodeStatus(name string, pod *corev1.Pod) v1alpha1.NodeStatus {
	view := &p.nodes.view
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
	if p.nodes.status != nil {
		for i := range p.nodes.status.Nodes {
			if n := &p.nodes.status.Nodes[i]; n.Node == name {
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

func versionsOf(nodes []v1alpha1.NodeStatus) string {
	versions := map[string]bool{}
	for i := range nodes {
		if nodes[i].Version != "" {
			versions[nodes[i].Version] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(versions)), ",")
}

func (p *pass) etcdStatus() *v1alpha1.EtcdStatus {
	if !managedEtcd(p.cluster) {
		return nil
	}
	s := &v1alpha1.EtcdStatus{}
	if old := p.cluster.Status.Etcd; old != nil {
		s = old.DeepCopy()
	}
	s.Generation = p.etcdGeneration()
	if len(p.etcd.view.Members) == 0 {
		p.etcdSilent(s)
		return s
	}
	s.ClusterID, s.UnavailableSince, s.Members, s.ReadyMembers = p.etcd.view.ClusterID, nil, nil, 0
	if s.Rebuild == v1alpha1.EtcdRebuildMaking {
		s.Rebuild = "" // it is there
	}
	for i := range p.etcd.view.Members {
		m := &p.etcd.view.Members[i]
		if m.Name == "" {
			continue // it has never started
		}
		s.Members = append(s.Members, v1alpha1.EtcdMemberStatus{
			Name: m.Name, ID: strconv.FormatUint(m.ID, 16), Healthy: m.Healthy, Learner: m.Learner, ClaimUID: p.etcdClaimUID(m),
		})
		if m.Healthy && !m.Learner {
			s.ReadyMembers++
		}
	}
	slices.SortFunc(s.Members, func(a, b v1alpha1.EtcdMemberStatus) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// etcdSilent notes that no member is known to be healthy, and since when.
func (p *pass) etcdSilent(s *v1alpha1.EtcdStatus) {
	s.ReadyMembers = 0
	for i := range s.Members {
		s.Members[i].Healthy = false
	}
	if s.UnavailableSince == nil && (s.ClusterID != "" || p.etcdNoted()) {
		s.UnavailableSince = &metav1.Time{Time: p.now}
	}
}

// etcdClaimUID returns the claim that has the data of a member: what is known of it stays
// until it is known otherwise.
func (p *pass) etcdClaimUID(m *etcd.Member) string {
	ordinal, ok := ordinalOf(m.Name, build.Name(p.cluster, build.ComponentEtcd))
	if !ok {
		return ""
	}
	if claim := p.seen.etcdClaims[ordinal]; claim != nil && claim.Annotations[annotationEtcdMember] == strconv.FormatUint(m.ID, 16) {
		return string(claim.UID)
	}
	if old := p.cluster.Status.Etcd; old != nil {
		for i := range old.Members {
			if old.Members[i].ID == strconv.FormatUint(m.ID, 16) {
				return old.Members[i].ClaimUID
			}
		}
	}
	return ""
}

func (p *pass) certificatesStatus() *v1alpha1.CertificatesStatus {
	if p.secrets.notAfter.IsZero() {
		return p.cluster.Status.Certificates
	}
	s := &v1alpha1.CertificatesStatus{NotAfter: &metav1.Time{Time: p.secrets.notAfter}}
	if at := p.secrets.authorityNotAfter; !at.IsZero() {
		s.AuthorityNotAfter = &metav1.Time{Time: at}
	}
	return s
}

// phase says in one word how the cluster is.
func (p *pass) phase(s *v1alpha1.TickMeshClusterStatus, summary shardmap.Summary) v1alpha1.Phase {
	progressing := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing)
	degraded := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionDegraded)
	switch rollout.Reason(progressing.Reason) {
	case reasonPaused:
		return v1alpha1.PhasePaused
	case rollout.ReasonScalingOut, rollout.ReasonScalingIn, rollout.ReasonDraining, rollout.ReasonReactivated, rollout.ReasonCleaning:
		return v1alpha1.PhaseScaling
	case rollout.ReasonUpdating:
		return v1alpha1.PhaseUpdating
	case rollout.ReasonMachineLost, rollout.ReasonVolumeLost:
		return v1alpha1.PhaseRepairing
	}
	switch {
	case s.Shards == 0:
		return v1alpha1.PhaseCreating
	case degraded && summary.Moving > 0:
		return v1alpha1.PhaseRepairing
	case degraded:
		return v1alpha1.PhaseDegraded
	case summary.Moving > 0:
		return v1alpha1.PhaseScaling
	}
	return v1alpha1.PhaseRunning
}

// busy reports whether something is under way that a look before long may bring on.
func (p *pass) busy() bool {
	progressing := meta.FindStatusCondition(p.cluster.Status.Conditions, v1alpha1.ConditionProgressing)
	return progressing == nil || progressing.Status == metav1.ConditionTrue || p.nodes.viewErr != nil ||
		// Nothing of Kubernetes tells when a router answers.
		!meta.IsStatusConditionTrue(p.cluster.Status.Conditions, v1alpha1.ConditionAvailable) ||
		p.cluster.Status.LeaderlessSince != nil ||
		len(p.nodes.plan.Actions) > 0 || len(p.nodes.plan.Losses) > 0 || p.cluster.Status.ShardsMoving > 0
}
