package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	meshclient "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/report"
	"github.com/tickmesh/tickmesh/operator/rollout"
)

// storageNodes are the nodes of a cluster: what is known of them, and what is to be done.
type storageNodes struct {
	cluster     *v1alpha1.TickMeshCluster
	seen        *inventory.Inventory
	objects     *objects.Client
	connections *connections
	tracker     *rollout.Tracker
	metrics     *Metrics
	closed      bool // no maintenance window is open
	now         time.Time
	tell        notify
	applySet    func(context.Context) error // applies the StatefulSet with the replicas that there are to be now
	isCurrent   func() (bool, error)        // reports whether the StatefulSet has the pod template that is asked for

	mesh  mesh.Mesh // nil: not connected
	known report.Nodes
}

// manager is how the store is told who says what is desired: kind/namespace/name.
func (n *storageNodes) manager() string {
	return v1alpha1.KindCluster + "/" + n.cluster.Namespace + "/" + n.cluster.Name
}

// replaceAfterMs is how long a machine says nothing before it is lost.
func replaceAfterMs(c *v1alpha1.TickMeshCluster) int64 {
	after, err := c.Spec.ReplaceAfter.Parse()
	if err != nil || after <= 0 {
		return shardmap.ReplaceAfterMsDefault // the schema lets nothing else in
	}
	return after.Milliseconds()
}

// look asks the store, which so many members of a managed etcd serve, and the routers, and decides.
func (n *storageNodes) look(ctx context.Context, etcdMembers int) {
	k := &n.known
	k.Replicas = inventory.Replicas(n.seen.NodeSet)
	stopped := n.seen.IsStopped(build.ComponentNode)
	switch {
	case stopped:
		k.ViewErr = errStopped
	case k.Replicas >= 0 || len(n.seen.NodePods) > 0: // without a StatefulSet pods go on
		n.mesh, k.ViewErr = n.connections.toMesh(ctx, etcdMembers)
	default:
		k.ViewErr = errNotMade
	}
	if k.ViewErr == nil {
		k.View, k.ViewErr = n.mesh.View(ctx)
		k.Status, k.StatusErr = n.mesh.Status(ctx)
	}
	if k.ViewErr == nil && k.View.Map == nil && n.cluster.Status.Shards > 0 {
		k.ViewErr = shardmap.ErrRolledBack // and no node has come back yet that could say so
	}
	k.View.Err = k.ViewErr
	facts := n.facts(ctx)
	k.Plan, k.Summary = rollout.Decide(facts), shardmap.Summarize(facts.State)
	if stopped { // what is lost meanwhile is seen when they run
		k.Plan = rollout.Plan{}
	}
	if k.Replicas < 0 {
		k.Replicas = k.Plan.Actions[0].Replicas // it is to be created
	}
}

// addTo adds to the facts that objects depend on.
func (n *storageNodes) addTo(f *build.Facts) {
	f.NodeReplicas = int32(n.known.Replicas)
	if n.seen.NodeSet != nil {
		f.NodeClaims = build.ClaimTemplateOf(n.seen.NodeSet)
	}
}

var errNotMade = errors.New("it is being made")

// facts is what is seen, as decisions want it.
func (n *storageNodes) facts(ctx context.Context) rollout.Facts {
	c, k := n.cluster, &n.known
	nowMs := n.now.UnixMilli()
	f := rollout.Facts{
		Name: build.Name(c, build.ComponentNode), NowMs: nowMs, Replicas: k.Replicas, StoreErr: k.ViewErr,
		Want: rollout.Want{
			Count: int(c.Spec.Nodes.Count), Drained: map[string]bool{},
			DeleteClaims: c.Spec.Nodes.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete,
		},
		Machines: map[string]rollout.Machine{}, Limits: shardmap.DefaultLimits(), Closed: n.closed,
	}
	for _, name := range c.Spec.Nodes.Drained {
		f.Want.Drained[name] = true
	}
	f.Limits.ReplaceAfterMs = replaceAfterMs(c)
	if n.seen.EtcdSet != nil {
		if rolling, _ := n.seen.SetState(n.seen.EtcdSet, n.seen.EtcdPods, n.closed); rolling {
			f.Hold = "members of etcd are being restarted"
		}
	}
	f.State, f.EmptyForMs = n.tracker.Observe(k.View, nowMs)
	f.Shards = shardsOf(k.Status)
	for ordinal, pod := range n.seen.NodePods {
		f.Pods = append(f.Pods, rollout.Pod{
			Ordinal: ordinal, UID: string(pod.UID), Machine: pod.Spec.NodeName, Running: inventory.IsRunning(pod), Ready: inventory.IsReady(pod),
			Terminating: pod.DeletionTimestamp != nil, Outdated: inventory.IsOutdated(pod, n.seen.NodeSet),
			Asked: inventory.IsRestartAsked(pod, n.seen.NodeSet),
		})
	}
	for ordinal, claim := range n.seen.NodeClaims {
		f.Claims = append(f.Claims, rollout.Claim{
			Ordinal: ordinal, Name: claim.Name, UID: string(claim.UID), Machine: n.seen.VolumeMachine(claim),
			GivenUp: claim.Annotations[annotationGivenUp] != "", Lost: n.seen.IsVolumeLost(claim), Terminating: claim.DeletionTimestamp != nil,
			Outdated: build.IsClaimOutdated(claim, n.classBefore(), c.Spec.Nodes.Storage.VolumeSpec), Bound: claim.Spec.VolumeName != "",
		})
	}
	f.ClaimTemplate = n.claimTemplate(ctx)
	for name, machine := range n.seen.Machines {
		f.Machines[name] = rollout.Machine{NotReadySinceMs: inventory.NotReadySinceMs(machine), OutOfService: inventory.IsOutOfService(machine)}
	}
	return f
}

// claimTemplate is what further claims of nodes are made from. Whether there is a storage class is
// asked only when claims are to have it that do not.
func (n *storageNodes) claimTemplate(ctx context.Context) (t rollout.ClaimTemplate) {
	asked := n.cluster.Spec.Nodes.Storage.VolumeSpec
	if set := n.seen.NodeSet; set != nil {
		t.Ending = set.DeletionTimestamp != nil
		if template := build.ClaimTemplateOf(set); template != nil {
			t.Outdated = template.IsOutdated(asked)
		}
	}
	outdated := t.Outdated
	for _, claim := range n.seen.NodeClaims {
		outdated = outdated || build.IsClaimOutdated(claim, n.classBefore(), asked)
	}
	if !outdated || *asked.StorageClassName == "" {
		return t
	}
	name := *asked.StorageClassName
	err := n.objects.Live.Get(ctx, types.NamespacedName{Name: name}, &storagev1.StorageClass{})
	switch {
	case apierrors.IsNotFound(err):
		t.Problem = fmt.Sprintf("spec.nodes.storage.storageClassName asks for %q, and there is no such storage class, so no volume is replaced: create it, or set the name back", name)
	case err != nil:
		t.Problem = fmt.Sprintf("whether there is a storage class %q, which spec.nodes.storage.storageClassName asks for, is not known: %v", name, err)
	}
	return t
}

// classBefore returns the storage class that was asked for before: that of the claim template, if
// it is not the one that is asked for now.
func (n *storageNodes) classBefore() *string {
	asked := n.cluster.Spec.Nodes.Storage.VolumeSpec
	if set := n.seen.NodeSet; set != nil {
		if template := build.ClaimTemplateOf(set); template != nil && template.IsOutdated(asked) {
			return template.StorageClassName
		}
	}
	return asked.StorageClassName
}

// markClaims marks claims that are not with the storage class that they were made for: once the
// StatefulSet has another claim template, nobody could tell.
func (n *storageNodes) markClaims(ctx context.Context) error {
	if n.cluster.Spec.Nodes.Storage.StorageClassName == nil || n.seen.NodeSet == nil {
		return nil
	}
	var failed []error
	for _, ordinal := range slices.Sorted(maps.Keys(n.seen.NodeClaims)) {
		if claim := n.seen.NodeClaims[ordinal]; !build.IsClaimMarked(claim) && claim.DeletionTimestamp == nil {
			failed = append(failed, n.objects.ChangeClaim(ctx, claim, func(c *corev1.PersistentVolumeClaim) { build.MarkClaim(c, n.classBefore()) }))
		}
	}
	return errors.Join(failed...)
}

// areClaimsMarked reports whether every pod has a claim that says which storage class it was made for.
func (n *storageNodes) areClaimsMarked() bool {
	for ordinal := range n.seen.NodePods {
		if n.seen.NodeClaims[ordinal] == nil {
			return false
		}
	}
	for _, claim := range n.seen.NodeClaims {
		if !build.IsClaimMarked(claim) && claim.DeletionTimestamp == nil {
			return false
		}
	}
	return true
}

// changesClaims reports whether the StatefulSet is to be made anew for other claims, or has been
// deleted for that.
func (n *storageNodes) changesClaims() bool {
	if n.seen.NodeSet == nil {
		return len(n.seen.NodePods) > 0
	}
	for _, pod := range n.seen.NodePods {
		if metav1.GetControllerOf(pod) == nil {
			return true // the StatefulSet that was made anew has not taken it over yet
		}
	}
	template := build.ClaimTemplateOf(n.seen.NodeSet)
	return template != nil && template.IsOutdated(n.cluster.Spec.Nodes.Storage.VolumeSpec)
}

// remakeSet deletes the StatefulSet and leaves its pods, so that it is created with other claims.
// Nobody deletes the pods with the cluster then, so its finalizer has to be there.
func (n *storageNodes) remakeSet(ctx context.Context, reason rollout.Reason) error {
	current, err := n.isCurrent()
	if err != nil {
		return err
	}
	if !current || !controllerutil.ContainsFinalizer(n.cluster, Finalizer) {
		n.known.Plan.Waits = append(n.known.Plan.Waits, rollout.Wait{Reason: reason, Why: "volumes are to have another storage class, and pods are to be made anew for another reason first"})
		return nil
	}
	if !n.areClaimsMarked() {
		n.known.Plan.Waits = append(n.known.Plan.Waits, rollout.Wait{Reason: reason, Why: "volume claims are marked with the storage class that they were made for"})
		return nil
	}
	if err := n.objects.DeleteAlone(ctx, n.seen.NodeSet); err != nil {
		return err
	}
	n.tell(corev1.EventTypeNormal, string(reason), "StatefulSet %s is made anew for claims of storage class %s, and its pods stay", n.seen.NodeSet.Name, *n.cluster.Spec.Nodes.Storage.StorageClassName)
	return nil
}

// shardsOf returns what leaders say of their shards, by number; nil: nobody could be asked.
func shardsOf(status *meshclient.Status) []rollout.Shard {
	if status == nil || len(status.ShardStatuses) == 0 {
		return nil
	}
	shards := make([]rollout.Shard, status.Shards)
	for i := range status.ShardStatuses {
		is := &status.ShardStatuses[i]
		if int(is.Shard) >= len(shards) {
			continue
		}
		shard := rollout.Shard{Leader: is.Leader, CommitIndex: is.CommitIndex, Bytes: int64(is.Bytes)}
		for _, m := range is.Members {
			var role shardmap.Role
			if role.UnmarshalText([]byte(m.Role)) != nil {
				continue // a role that this operator does not know counts for nothing
			}
			shard.Members = append(shard.Members, rollout.Replica{
				Member:     shardmap.Member{Node: m.Node, Incarnation: m.Incarnation, RaftID: m.RaftID, Role: role},
				MatchIndex: m.MatchIndex, Active: m.Active,
			})
		}
		shards[is.Shard] = shard
	}
	return shards
}

// keep makes the changes that were decided. Each can be made again. One that fails ends
// those of the same node, which build on it, and no others.
func (n *storageNodes) keep(ctx context.Context) error {
	if n.known.ViewErr == nil && n.known.View.Manager != n.manager() {
		if err := n.mesh.SetManager(ctx, n.manager()); err != nil {
			return fmt.Errorf("tell the store who manages the cluster: %w", err)
		}
	}
	failed := []error{n.markClaims(ctx)}
	stopped := map[string]bool{} // by node; "" is the StatefulSet
	for _, a := range n.known.Plan.Actions {
		if stopped[a.Node] {
			continue
		}
		err := n.act(ctx, a)
		if budget := new(objects.BudgetError); errors.As(err, &budget) {
			n.known.Plan.Waits = append(n.known.Plan.Waits, rollout.Wait{Reason: a.Reason, Node: a.Node, Why: budget.Error()})
			continue
		}
		if err != nil {
			stopped[a.Node] = true
			failed = append(failed, fmt.Errorf("%s %s: %w", a.Kind, a.Node, err))
			continue
		}
		n.metrics.acted(n.cluster, a.Kind)
	}
	return errors.Join(failed...)
}

func (n *storageNodes) act(ctx context.Context, a rollout.Action) error {
	switch a.Kind {
	case rollout.Scale:
		n.tell(corev1.EventTypeNormal, string(a.Reason), "nodes: %d, they were %d", a.Replicas, max(n.known.Replicas, 0))
		n.known.Replicas = a.Replicas
		return n.applySet(ctx)
	case rollout.RemakeSet:
		return n.remakeSet(ctx, a.Reason)
	case rollout.Desire:
		if err := n.mesh.SetDesired(ctx, a.Node, a.Desired); err != nil {
			return err
		}
		if a.Desired == shardmap.Draining || a.Desired == shardmap.Active {
			n.tell(corev1.EventTypeNormal, string(a.Reason), "%s is to be %s", a.Node, a.Desired)
		}
		return nil
	case rollout.Retire:
		if err := n.mesh.Retire(ctx, a.Node, a.Incarnation); errors.Is(err, shardmap.ErrNodeHeld) {
			return nil // it is alive after all: the next pass sees that
		} else if err != nil {
			return err
		}
		n.tell(corev1.EventTypeNormal, string(a.Reason), "data folder %s of %s is retired", a.Incarnation, a.Node)
		return nil
	case rollout.MarkClaim:
		return n.objects.AnnotateClaim(ctx, n.claim(a.Node), annotationGivenUp, mark(a.GivenUp))
	case rollout.DeleteClaim:
		n.tell(corev1.EventTypeNormal, string(a.Reason), "volume claim %s is deleted", a.Claim)
		return n.objects.DeleteClaim(ctx, n.claim(a.Node))
	case rollout.DeletePod:
		return n.endPod(ctx, a)
	}
	return nil
}

// endPod deletes a pod. One that is only to be restarted keeps its volume, so its
// claim is looked at again: somebody may have just deleted it.
func (n *storageNodes) endPod(ctx context.Context, a rollout.Action) error {
	pod := n.pod(a.Node)
	if a.Reason == rollout.ReasonUpdating {
		claim := &corev1.PersistentVolumeClaim{}
		if err := n.objects.Live.Get(ctx, types.NamespacedName{Namespace: n.cluster.Namespace, Name: build.ClaimName(a.Node)}, claim); err != nil {
			return fmt.Errorf("look at its volume claim: %w", err)
		}
		if claim.DeletionTimestamp != nil {
			return nil
		}
	}
	if err := n.objects.EndPod(ctx, pod, a.Force); err != nil {
		return err
	}
	n.tell(corev1.EventTypeNormal, string(a.Reason), "pod %s is ended, to be made anew", a.Node)
	return nil
}

func (n *storageNodes) pod(node string) *corev1.Pod {
	ordinal, _ := inventory.Ordinal(node, build.Name(n.cluster, build.ComponentNode))
	return n.seen.NodePods[ordinal]
}

func (n *storageNodes) claim(node string) *corev1.PersistentVolumeClaim {
	ordinal, _ := inventory.Ordinal(node, build.Name(n.cluster, build.ComponentNode))
	return n.seen.NodeClaims[ordinal]
}
