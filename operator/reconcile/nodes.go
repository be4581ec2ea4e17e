package reconcile

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	meshclient "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/rollout"
)

// nodeState is what is known of the nodes, and what is to be done.
type nodeState struct {
	mesh      mesh.Mesh // nil: not connected
	view      shardmap.View
	viewErr   error
	status    *meshclient.Status // nil: no router answers
	statusErr error
	facts     rollout.Facts
	plan      rollout.Plan
	replicas  int // of the StatefulSet, as it is now or is to be made
}

// manager is how the store is told who says what is desired: kind/namespace/name.
func (p *pass) manager() string {
	return v1alpha1.KindCluster + "/" + p.cluster.Namespace + "/" + p.cluster.Name
}

// replaceAfterMs is how long a machine says nothing before it is lost.
func (p *pass) replaceAfterMs() int64 {
	after, err := p.cluster.Spec.ReplaceAfter.Parse()
	if err != nil || after <= 0 {
		return shardmap.ReplaceAfterMsDefault // the schema lets nothing else in
	}
	return after.Milliseconds()
}

// lookAtNodes asks the store and the routers, and decides.
func (p *pass) lookAtNodes(ctx context.Context) {
	s := &p.nodes
	s.replicas = replicasOf(p.seen.nodeSet)
	if s.replicas >= 0 {
		s.mesh, s.viewErr = p.mesh(ctx, build.Facts{EtcdEndpoints: int32(max(p.etcd.replicas, 1))})
	} else {
		s.viewErr = errNotMade
	}
	if s.viewErr == nil {
		s.view, s.viewErr = s.mesh.View(ctx)
		s.status, s.statusErr = s.mesh.Status(ctx)
	}
	if s.viewErr == nil && s.view.Map == nil && p.wasMade() {
		s.viewErr = shardmap.ErrRolledBack // and no node has come back yet that could say so
	}
	s.view.Err = s.viewErr
	s.facts = p.nodeFacts()
	s.plan = rollout.Decide(s.facts)
	if s.replicas < 0 {
		s.replicas = int(p.cluster.Spec.Nodes.Count)
	}
}

var errNotMade = errors.New("it is being made")

// nodeFacts is what is seen, as decisions want it.
func (p *pass) nodeFacts() rollout.Facts {
	c, s := p.cluster, &p.nodes
	nowMs := p.now.UnixMilli()
	f := rollout.Facts{
		Name: build.Name(c, build.ComponentNode), NowMs: nowMs, Replicas: s.replicas, StoreErr: s.viewErr,
		Want: rollout.Want{
			Count: int(c.Spec.Nodes.Count), Drained: map[string]bool{},
			DeleteClaims: c.Spec.Nodes.Storage.DeletionPolicy == v1alpha1.DeletionPolicyDelete,
		},
		Machines: map[string]rollout.Machine{}, Limits: shardmap.DefaultLimits(),
	}
	for _, name := range c.Spec.Nodes.Drained {
		f.Want.Drained[name] = true
	}
	f.Limits.ReplaceAfterMs = p.replaceAfterMs()
	if p.seen.etcdSet != nil {
		if rolling, _ := p.setState(p.seen.etcdSet, p.seen.etcdPods); rolling {
			f.Hold = "members of etcd are being restarted"
		}
	}
	f.State, f.EmptyForMs = p.memory.tracker.Observe(s.view, nowMs)
	f.Shards = shardsOf(s.status)
	for ordinal, pod := range p.seen.nodePods {
		f.Pods = append(f.Pods, rollout.Pod{
			Ordinal: ordinal, UID: string(pod.UID), Machine: pod.Spec.NodeName, Running: isRunning(pod), Ready: isReady(pod),
			Terminating: pod.DeletionTimestamp != nil, Outdated: isOutdated(pod, p.seen.nodeSet),
		})
	}
	for ordinal, claim := range p.seen.nodeClaims {
		f.Claims = append(f.Claims, rollout.Claim{
			Ordinal: ordinal, Name: claim.Name, UID: string(claim.UID), Machine: p.seen.volumeMachines[claim.Name],
			GivenUp: claim.Annotations[annotationGivenUp] != "", Lost: p.seen.lost[claim.Name], Terminating: claim.DeletionTimestamp != nil,
		})
	}
	for name, machine := range p.seen.machines {
		f.Machines[name] = rollout.Machine{NotReadySinceMs: notReadySinceMs(machine), OutOfService: isOutOfService(machine)}
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

// keepNodes makes the changes that were decided. Each can be made again. One that fails ends
// those of the same node, which build on it, and no others.
func (p *pass) keepNodes(ctx context.Context) error {
	if p.nodes.viewErr == nil && p.nodes.view.Manager != p.manager() {
		if err := p.nodes.mesh.SetManager(ctx, p.manager()); err != nil {
			return fmt.Errorf("tell the store who manages the cluster: %w", err)
		}
	}
	var failed []error
	stopped := map[string]bool{} // by node; "" is the StatefulSet
	for _, a := range p.nodes.plan.Actions {
		if stopped[a.Node] {
			continue
		}
		err := p.nodeAction(ctx, a)
		if budget := new(budgetError); errors.As(err, &budget) {
			p.nodes.plan.Waits = append(p.nodes.plan.Waits, rollout.Wait{Reason: a.Reason, Node: a.Node, Why: budget.Error()})
			continue
		}
		if err != nil {
			stopped[a.Node] = true
			failed = append(failed, fmt.Errorf("%s %s: %w", a.Kind, a.Node, err))
			continue
		}
		p.Metrics.acted(p.cluster, a.Kind)
	}
	return errors.Join(failed...)
}

func (p *pass) nodeAction(ctx context.Context, a rollout.Action) error {
	switch a.Kind {
	case rollout.Scale:
		p.event(corev1.EventTypeNormal, string(a.Reason), "nodes: %d, they were %d", a.Replicas, max(p.nodes.replicas, 0))
		p.nodes.replicas = a.Replicas
		return p.applySet(ctx, func(f build.Facts) *appsv1.StatefulSet { return build.NodeStatefulSet(p.cluster, f) })
	case rollout.Desire:
		if err := p.nodes.mesh.SetDesired(ctx, a.Node, a.Desired); err != nil {
			return err
		}
		if a.Desired == shardmap.Draining || a.Desired == shardmap.Active {
			p.event(corev1.EventTypeNormal, string(a.Reason), "%s is to be %s", a.Node, a.Desired)
		}
		return nil
	case rollout.Retire:
		if err := p.nodes.mesh.Retire(ctx, a.Node, a.Incarnation); errors.Is(err, shardmap.ErrNodeHeld) {
			return nil // it is alive after all: the next pass sees that
		} else if err != nil {
			return err
		}
		p.event(corev1.EventTypeNormal, string(a.Reason), "data folder %s of %s is retired", a.Incarnation, a.Node)
		return nil
	case rollout.MarkClaim:
		return p.annotateClaim(ctx, p.nodeClaim(a.Node), annotationGivenUp, mark(a.GivenUp))
	case rollout.DeleteClaim:
		p.event(corev1.EventTypeNormal, string(a.Reason), "volume claim %s is deleted", a.Claim)
		return p.deleteClaim(ctx, p.nodeClaim(a.Node))
	case rollout.DeletePod:
		return p.endNodePod(ctx, a)
	}
	return nil
}

// endNodePod deletes a pod. One that is only to be restarted keeps its volume, so its
// claim is looked at again: somebody may have just deleted it.
func (p *pass) endNodePod(ctx context.Context, a rollout.Action) error {
	pod := p.nodePod(a.Node)
	if a.Reason == rollout.ReasonUpdating {
		claim := &corev1.PersistentVolumeClaim{}
		if err := p.Reader.Get(ctx, types.NamespacedName{Namespace: p.cluster.Namespace, Name: build.ClaimName(a.Node)}, claim); err != nil {
			return fmt.Errorf("look at its volume claim: %w", err)
		}
		if claim.DeletionTimestamp != nil {
			return nil
		}
	}
	if err := p.endPod(ctx, pod, a.Force); err != nil {
		return err
	}
	p.event(corev1.EventTypeNormal, string(a.Reason), "pod %s is ended, to be made anew", a.Node)
	return nil
}

func (p *pass) nodePod(node string) *corev1.Pod {
	ordinal, _ := ordinalOf(node, build.Name(p.cluster, build.ComponentNode))
	return p.seen.nodePods[ordinal]
}

func (p *pass) nodeClaim(node string) *corev1.PersistentVolumeClaim {
	ordinal, _ := ordinalOf(node, build.Name(p.cluster, build.ComponentNode))
	return p.seen.nodeClaims[ordinal]
}
