package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/rollout"
)

// nodeGroup is a group of nodes as it is, and as it is asked for.
type nodeGroup struct {
	*inventory.NodeGroup
	setName string
	asked   v1alpha1.NodesSpec
}

func newNodeGroup(c *v1alpha1.TickMeshCluster, g *inventory.NodeGroup) nodeGroup {
	asked, _ := c.Spec.NodesOf(g.Name)
	if g.Leaves {
		asked.Storage.StorageClassName = nil // its volumes are as they are
	}
	return nodeGroup{g, build.NodeSetName(c, g.Name), asked}
}

// groupsOf returns the groups of nodes that there is something of, in Kubernetes or in the store.
func groupsOf(c *v1alpha1.TickMeshCluster, seen *inventory.Inventory, state shardmap.State) (groups []nodeGroup) {
	known := map[string]bool{}
	for _, g := range seen.NodeGroups {
		known[g.Name] = true
		groups = append(groups, newNodeGroup(c, g))
	}
	more := map[string]bool{}
	note := func(node string) {
		if group, _, ok := build.NodeOf(c, node); ok && !known[group] {
			more[group] = true
		}
	}
	for node := range state.Nodes {
		note(node)
	}
	for node := range state.Desired {
		note(node)
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		groups = append(groups, newNodeGroup(c, inventory.NewNodeGroup(name, true)))
	}
	return groups
}

// groupOf returns the group of an action that is about one; nil: it is about none.
func (n *storageNodes) groupOf(a rollout.Action) *nodeGroup {
	for i := range n.groups {
		if n.groups[i].setName == a.Group {
			return &n.groups[i]
		}
	}
	return nil
}

// groupFacts is what is seen of a group, as decisions want it.
func (n *storageNodes) groupFacts(ctx context.Context, g *nodeGroup) rollout.Group {
	f := rollout.Group{
		Name: g.setName, Count: int(g.asked.Count), Leaves: g.Leaves, Replicas: inventory.Replicas(g.Set), ClaimTemplate: n.claimTemplate(ctx, g),
	}
	for ordinal, pod := range g.Pods {
		f.Pods = append(f.Pods, rollout.Pod{
			Ordinal: ordinal, UID: string(pod.UID), Machine: pod.Spec.NodeName, Running: inventory.IsRunning(pod), Ready: inventory.IsReady(pod),
			Terminating: pod.DeletionTimestamp != nil, Outdated: inventory.IsOutdated(pod, g.Set), Asked: inventory.IsRestartAsked(pod, g.Set),
		})
	}
	for ordinal, claim := range g.Claims {
		f.Claims = append(f.Claims, rollout.Claim{
			Ordinal: ordinal, Name: claim.Name, UID: string(claim.UID), Machine: n.seen.VolumeMachine(claim),
			GivenUp: claim.Annotations[annotationGivenUp] != "", Lost: n.seen.IsVolumeLost(claim), Terminating: claim.DeletionTimestamp != nil,
			Outdated: g.isOutdated(claim), Bound: claim.Spec.VolumeName != "",
		})
	}
	return f
}

// scale sets the number of pods of a group, or creates its StatefulSet.
func (n *storageNodes) scale(ctx context.Context, a rollout.Action) error {
	g := n.groupOf(a)
	if why := n.delay(g.Name); why != "" {
		n.known.Plan.Waits = append(n.known.Plan.Waits, rollout.Wait{Reason: a.Reason, Why: why})
		return nil
	}
	of, was := "", n.known.Told[g.Name]
	if g.Name != "" {
		of = " of group " + g.Name
	}
	n.tell(corev1.EventTypeNormal, string(a.Reason), "nodes%s: %d, they were %d", of, a.Replicas, max(was, 0))
	n.known.Told[g.Name] = a.Replicas
	return n.applySet(ctx, g.Name)
}

// isDelayed reports whether an object is the StatefulSet of a group that gets none now.
func (n *storageNodes) isDelayed(object build.Object) bool {
	set, is := object.(*appsv1.StatefulSet)
	return is && set.Labels[build.LabelNodeGroup] != "" && n.delay(set.Labels[build.LabelNodeGroup]) != ""
}

// isOutdated reports whether a claim is to be replaced by one of another storage class.
func (g *nodeGroup) isOutdated(claim *corev1.PersistentVolumeClaim) bool {
	return build.IsClaimOutdated(claim, g.classBefore(), g.asked.Storage.VolumeSpec)
}

// hasOutdatedTemplate reports whether the StatefulSet makes claims of another storage class than is
// asked for.
func (g *nodeGroup) hasOutdatedTemplate() bool {
	if g.Set == nil {
		return false
	}
	template := build.ClaimTemplateOf(g.Set)
	return template != nil && template.IsOutdated(g.asked.Storage.VolumeSpec)
}

// classBefore returns the storage class that was asked for before: that of the claim template, if
// it is not the one that is asked for now.
func (g *nodeGroup) classBefore() *string {
	if g.hasOutdatedTemplate() {
		return build.ClaimTemplateOf(g.Set).StorageClassName
	}
	return g.asked.Storage.StorageClassName
}

// claimTemplate is what further claims of a group are made from. Whether there is a storage class is
// asked only when claims are to have it that do not.
func (n *storageNodes) claimTemplate(ctx context.Context, g *nodeGroup) (t rollout.ClaimTemplate) {
	asked := g.asked.Storage
	t.Ending, t.Outdated = g.Set != nil && g.Set.DeletionTimestamp != nil, g.hasOutdatedTemplate()
	outdated := t.Outdated
	for _, claim := range g.Claims {
		outdated = outdated || g.isOutdated(claim)
	}
	if !outdated || *asked.StorageClassName == "" {
		return t
	}
	name, field := *asked.StorageClassName, storageField(n.cluster, g.Name)+".storageClassName"
	err := n.objects.Live.Get(ctx, types.NamespacedName{Name: name}, &storagev1.StorageClass{})
	switch {
	case apierrors.IsNotFound(err):
		t.Problem = fmt.Sprintf("spec.%s asks for %q, and there is no such storage class, so no volume is replaced: create it, or set the name back", field, name)
	case err != nil:
		t.Problem = fmt.Sprintf("whether there is a storage class %q, which spec.%s asks for, is not known: %v", name, field, err)
	}
	return t
}

// storageField returns the field of spec with the storage of a group: its own, or that of spec.nodes.
func storageField(c *v1alpha1.TickMeshCluster, group string) string {
	for i := range c.Spec.NodeGroups {
		if g := &c.Spec.NodeGroups[i]; g.Name == group && g.Storage != nil {
			return "nodeGroups[" + group + "].storage"
		}
	}
	return "nodes.storage"
}

// markClaims marks claims that are not with the storage class that they were made for: once the
// StatefulSet has another claim template, nobody could tell.
func (n *storageNodes) markClaims(ctx context.Context) error {
	var failed []error
	for i := range n.groups {
		g := &n.groups[i]
		if g.asked.Storage.StorageClassName == nil || g.Set == nil {
			continue
		}
		for _, ordinal := range slices.Sorted(maps.Keys(g.Claims)) {
			if claim := g.Claims[ordinal]; !build.IsClaimMarked(claim) && claim.DeletionTimestamp == nil {
				failed = append(failed, n.objects.ChangeClaim(ctx, claim, func(c *corev1.PersistentVolumeClaim) { build.MarkClaim(c, g.classBefore()) }))
			}
		}
	}
	return errors.Join(failed...)
}

// areClaimsMarked reports whether every pod has a claim that says which storage class it was made for.
func (g *nodeGroup) areClaimsMarked() bool {
	for ordinal := range g.Pods {
		if g.Claims[ordinal] == nil {
			return false
		}
	}
	for _, claim := range g.Claims {
		if !build.IsClaimMarked(claim) && claim.DeletionTimestamp == nil {
			return false
		}
	}
	return true
}

// changesClaims reports whether a StatefulSet of nodes is to be made anew for other claims, or has been
// deleted for that.
func changesClaims(c *v1alpha1.TickMeshCluster, seen *inventory.Inventory) bool {
	return slices.ContainsFunc(seen.NodeGroups, func(is *inventory.NodeGroup) bool {
		g := newNodeGroup(c, is)
		return g.changesClaims()
	})
}

func (g *nodeGroup) changesClaims() bool {
	if g.Set == nil {
		return len(g.Pods) > 0
	}
	for _, pod := range g.Pods {
		if metav1.GetControllerOf(pod) == nil {
			return true // the StatefulSet that was made anew has not taken it over yet
		}
	}
	return g.hasOutdatedTemplate()
}

// remakeSet deletes the StatefulSet and leaves its pods, so that it is created with other claims.
// Nobody deletes the pods with the cluster then, so its finalizer has to be there.
func (n *storageNodes) remakeSet(ctx context.Context, g *nodeGroup, reason rollout.Reason) error {
	current, err := n.isCurrent(g.Name)
	if err != nil {
		return err
	}
	if !current || !controllerutil.ContainsFinalizer(n.cluster, Finalizer) {
		n.known.Plan.Waits = append(n.known.Plan.Waits, rollout.Wait{Reason: reason, Why: "volumes are to have another storage class, and pods are to be made anew for another reason first"})
		return nil
	}
	if !g.areClaimsMarked() {
		n.known.Plan.Waits = append(n.known.Plan.Waits, rollout.Wait{Reason: reason, Why: "volume claims are marked with the storage class that they were made for"})
		return nil
	}
	if err := n.objects.DeleteAlone(ctx, g.Set); err != nil {
		return err
	}
	n.tell(corev1.EventTypeNormal, string(reason), "StatefulSet %s is made anew for claims of storage class %s, and its pods stay", g.Set.Name, *g.asked.Storage.StorageClassName)
	return nil
}
