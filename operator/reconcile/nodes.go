package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
	applySet    func(ctx context.Context, group string) error // applies the StatefulSet of a group with the replicas that there are to be now
	delay       func(group string) string                     // describes why a group gets no StatefulSet now; empty: it does
	isCurrent   func(group string) (bool, error)              // reports whether the StatefulSet has the pod template that is asked for

	mesh   mesh.Mesh   // nil: not connected
	groups []nodeGroup // that of spec.nodes first
	known  report.Nodes
}

// manager is how the store is told who says what is desired: kind/namespace/name.
func (n *storageNodes) manager() string {
	return v1alpha1.KindCluster + "/" + n.cluster.Namespace + "/" + n.cluster.Name
}

// look asks the store, which so many members of a managed etcd serve, and the routers, and decides.
func (n *storageNodes) look(ctx context.Context, etcdMembers int) {
	k := &n.known
	stopped := n.seen.IsAnyStopped(build.ComponentNode)
	switch {
	case stopped:
		k.ViewErr = errStopped
	case len(n.seen.Workloads(build.ComponentNode)) > 0 || len(n.seen.NodePods()) > 0: // without a StatefulSet pods go on
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
	k.Told = n.told(k.Plan)
}

// told returns how many pods the StatefulSet of each group is told to have, or is to be created with. A
// group that has none, and is to have none now, is not in it.
func (n *storageNodes) told(plan rollout.Plan) map[string]int {
	told := map[string]int{"": int(n.cluster.Spec.Nodes.Count)} // of which there always is one
	for _, g := range n.groups {
		if g.Set != nil {
			told[g.Name] = inventory.Replicas(g.Set)
		}
	}
	for _, a := range plan.Actions {
		if g := n.groupOf(a); g != nil && a.Kind == rollout.Scale && g.Set == nil {
			told[g.Name] = a.Replicas
		}
	}
	return told
}

// addTo adds to the facts that objects depend on.
func (n *storageNodes) addTo(f *build.Facts) {
	f.Groups = map[string]build.NodeGroup{}
	for group, replicas := range n.known.Told {
		is := build.NodeGroup{Replicas: int32(replicas)}
		if seen := n.seen.NodeGroup(group); seen != nil && seen.Set != nil {
			is.Claims = build.ClaimTemplateOf(seen.Set)
		}
		if group == "" {
			f.NodeReplicas, f.NodeClaims = is.Replicas, is.Claims
			continue
		}
		f.Groups[group] = is
	}
}

var errNotMade = errors.New("it is being made")

// facts is what is seen, as decisions want it.
func (n *storageNodes) facts(ctx context.Context) rollout.Facts {
	c, k := n.cluster, &n.known
	nowMs := n.now.UnixMilli()
	f := rollout.Facts{
		NowMs: nowMs, StoreErr: k.ViewErr,
		Want: rollout.Want{
			Drained:      map[string]bool{},
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
	n.groups = groupsOf(c, n.seen, f.State)
	for i := range n.groups {
		f.Groups = append(f.Groups, n.groupFacts(ctx, &n.groups[i]))
	}
	for name, machine := range n.seen.Machines {
		f.Machines[name] = rollout.Machine{NotReadySinceMs: inventory.NotReadySinceMs(machine), OutOfService: inventory.IsOutOfService(machine)}
	}
	return f
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
	stopped := map[string]bool{} // by node, or StatefulSet
	for _, a := range n.known.Plan.Actions {
		if stopped[a.Group+a.Node] {
			continue
		}
		err := n.act(ctx, a)
		if budget := new(objects.BudgetError); errors.As(err, &budget) {
			n.known.Plan.Waits = append(n.known.Plan.Waits, rollout.Wait{Reason: a.Reason, Node: a.Node, Why: budget.Error()})
			continue
		}
		if err != nil {
			stopped[a.Group+a.Node] = true
			failed = append(failed, fmt.Errorf("%s %s: %w", a.Kind, a.Group+a.Node, err))
			continue
		}
		n.metrics.acted(n.cluster, a.Kind)
	}
	return errors.Join(failed...)
}

func (n *storageNodes) act(ctx context.Context, a rollout.Action) error {
	switch a.Kind {
	case rollout.Scale:
		return n.scale(ctx, a)
	case rollout.RemakeSet:
		return n.remakeSet(ctx, n.groupOf(a), a.Reason)
	case rollout.RemoveSet:
		g := n.groupOf(a)
		if err := n.objects.DeleteEmpty(ctx, g.Set); err != nil {
			return err
		}
		delete(n.known.Told, g.Name)
		n.tell(corev1.EventTypeNormal, string(a.Reason), "StatefulSet %s is deleted: spec has no group %s any more, and it is empty", g.Set.Name, g.Name)
		return nil
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
	pod, _ := n.seen.Node(node)
	return pod
}

func (n *storageNodes) claim(node string) *corev1.PersistentVolumeClaim {
	_, claim := n.seen.Node(node)
	return claim
}
