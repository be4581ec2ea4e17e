package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/report"
)

// etcdMembers are the members of a managed etcd: what is known of them, and what is to be done.
type etcdMembers struct {
	cluster     *v1alpha1.TickMeshCluster
	seen        *inventory.Inventory
	objects     *objects.Client
	connections *connections
	now         time.Time
	tell        notify
	applySet    func(context.Context) error // applies the StatefulSet with the replicas that there are to be now
	urgent      func() bool                 // nothing is signed until the members are restarted
	closed      func() bool                 // their restarts wait for a maintenance window

	admin    etcd.Admin // nil: not connected
	view     etcd.View
	err      error // why there is no view
	plan     etcd.Plan
	replicas int // of its StatefulSet, as it is now or is to be made
	// endpoints is how many members its clients are told of.
	endpoints int
	// configured: what new members start with is as decided.
	configured bool
}

// etcdMembersMax is how many members a managed etcd can have.
const etcdMembersMax = 3

func (e *etcdMembers) isManaged() bool { return e.cluster.Spec.Etcd.Managed != nil }

func (e *etcdMembers) record() etcdRecord { return etcdRecord{e.cluster, e.seen, e.now} }

// look asks a managed etcd who its members are, and decides.
func (e *etcdMembers) look(ctx context.Context) {
	if !e.isManaged() {
		return
	}
	e.replicas = inventory.Replicas(e.seen.EtcdSet)
	facts := e.facts()
	stopped := e.seen.IsStopped(build.ComponentEtcd)
	if stopped {
		e.err = errStopped
	} else if e.replicas >= 0 {
		if e.admin, e.err = e.connections.toEtcd(ctx, e.replicas); e.err == nil {
			e.view, e.err = e.admin.View(ctx)
		}
		if e.err == nil {
			facts.Members = e.view.Members
		}
	}
	e.plan = etcd.Decide(facts)
	if stopped { // what members start with stays as it would be, and all else waits until they run
		e.plan = etcd.Plan{Meet: e.plan.Meet, Anew: e.plan.Anew}
	}
	e.endpoints = facts.Wanted
	if e.replicas < 0 {
		e.replicas = facts.Wanted
	}
}

// addTo adds to the facts that objects depend on.
func (e *etcdMembers) addTo(f *build.Facts) {
	f.EtcdReplicas, f.EtcdEndpoints = int32(e.replicas), int32(e.endpoints)
	f.EtcdGeneration, f.EtcdMembers = e.record().generation(), e.plan.Meet
	f.EtcdExists = e.isManaged() && (e.view.ClusterID != "" || e.wasMade()) && !e.plan.Anew
	if e.seen.EtcdSet != nil {
		f.EtcdClaims = build.ClaimTemplateOf(e.seen.EtcdSet)
	}
}

// wasMade reports whether the etcd has answered before.
func (e *etcdMembers) wasMade() bool {
	status := e.cluster.Status.Etcd
	return status != nil && status.ClusterID != "" || e.record().isNoted()
}

// hasLost reports whether an etcd that answers has lost the shard map, about which the store said so.
func (e *etcdMembers) hasLost(storeErr error) bool {
	return e.isManaged() && e.err == nil && len(e.view.Members) > 0 && errors.Is(storeErr, shardmap.ErrRolledBack)
}

// facts is what is seen, as decisions want it.
func (e *etcdMembers) facts() etcd.Facts {
	c := e.cluster
	f := etcd.Facts{
		NowMs: e.now.UnixMilli(), ReplaceAfterMs: replaceAfterMs(c), Replicas: inventory.Replicas(e.seen.EtcdSet),
		Wanted: int(build.EtcdMembersWanted(c)), Machines: map[string]etcd.Machine{},
		Created: e.wasMade(), Urgent: e.urgent(), Closed: e.closed(),
	}
	f.Wanted = max(f.Wanted, f.Replicas)
	f.Unrescuable = rescueOf(c, e.seen).impossible()
	e.record().history(&f)
	for _, name := range build.PodNames(c, build.ComponentEtcd, etcdMembersMax) {
		f.Names = append(f.Names, name)
		f.PeerURLs = append(f.PeerURLs, build.EtcdURL(c, name, build.PortEtcdPeer))
	}
	for ordinal, pod := range e.seen.EtcdPods {
		f.Pods = append(f.Pods, etcd.Pod{
			Ordinal: ordinal, UID: string(pod.UID), Machine: pod.Spec.NodeName, Running: inventory.IsRunning(pod), Ready: inventory.IsReady(pod),
			Terminating: pod.DeletionTimestamp != nil, Outdated: inventory.IsOutdated(pod, e.seen.EtcdSet),
			Asked: inventory.IsRestartAsked(pod, e.seen.EtcdSet),
		})
	}
	for ordinal, claim := range e.seen.EtcdClaims {
		// What cannot be read was written by somebody else: no member is known then.
		id, _ := strconv.ParseUint(claim.Annotations[annotationEtcdMember], 16, 64)
		missing, _ := strconv.ParseInt(claim.Annotations[annotationMachineMissing], 10, 64)
		f.Claims = append(f.Claims, etcd.Claim{
			MachineMissingSinceMs: missing,
			Ordinal:               ordinal, Name: claim.Name, UID: string(claim.UID), Machine: e.seen.VolumeMachine(claim), MemberID: id,
			GivenUp: claim.Annotations[annotationGivenUp] != "", Lost: e.seen.IsVolumeLost(claim), Terminating: claim.DeletionTimestamp != nil,
		})
	}
	for name, machine := range e.seen.Machines {
		f.Machines[name] = etcd.Machine{NotReadySinceMs: inventory.NotReadySinceMs(machine), OutOfService: inventory.IsOutOfService(machine)}
	}
	return f
}

// keep makes the changes that were decided. Each can be made again.
func (e *etcdMembers) keep(ctx context.Context) error {
	if e.isManaged() && !e.configured {
		return nil // a member that is made now would begin as what it is not to be; Objects has failed and says why
	}
	for _, a := range e.plan.Actions {
		if err := e.recordMembers(ctx, a.Kind); err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
		err := e.act(ctx, a)
		if budget := new(objects.BudgetError); errors.As(err, &budget) {
			e.plan.Waiting = budget.Error()
			continue
		}
		if err != nil {
			return fmt.Errorf("etcd, %s %s: %w", a.Kind, e.name(a.Ordinal), err)
		}
		switch {
		case a.Kind == etcd.SetRebuild:
			e.tell(corev1.EventTypeWarning, report.ReasonEtcdQuorumLost, "etcd: %s", a.Why)
		case a.Why != "" && a.Kind != etcd.MarkClaim:
			e.tell(corev1.EventTypeNormal, "EtcdMember", "%s %s: %s", a.Kind, e.name(a.Ordinal), a.Why)
		}
	}
	return nil
}

func (e *etcdMembers) name(ordinal int) string {
	return build.PodName(e.cluster, build.ComponentEtcd, int32(ordinal))
}

var errNotConnected = errors.New("not connected to etcd")

func (e *etcdMembers) act(ctx context.Context, a etcd.Action) error {
	switch a.Kind {
	case etcd.Scale:
		e.replicas = a.Replicas
		return e.applySet(ctx)
	case etcd.NoteMember:
		return e.objects.AnnotateClaim(ctx, e.seen.EtcdClaims[a.Ordinal], annotationEtcdMember, strconv.FormatUint(a.MemberID, 16))
	case etcd.NoteMachine:
		since := ""
		if a.SinceMs > 0 {
			since = strconv.FormatInt(a.SinceMs, 10)
		}
		return e.objects.AnnotateClaim(ctx, e.seen.EtcdClaims[a.Ordinal], annotationMachineMissing, since)
	case etcd.MarkClaim:
		return e.objects.AnnotateClaim(ctx, e.seen.EtcdClaims[a.Ordinal], annotationGivenUp, mark(a.GivenUp))
	case etcd.DeleteClaim:
		return e.objects.DeleteClaim(ctx, e.seen.EtcdClaims[a.Ordinal])
	case etcd.DeletePod:
		if a.Urgent {
			return e.objects.DeletePod(ctx, e.seen.EtcdPods[a.Ordinal], a.Force)
		}
		return e.objects.EndPod(ctx, e.seen.EtcdPods[a.Ordinal], a.Force)
	case etcd.SetRebuild:
		return e.setRebuild(ctx, a.Phase)
	case etcd.Add, etcd.Remove, etcd.Promote:
	}
	if e.admin == nil {
		return errNotConnected
	}
	switch a.Kind {
	case etcd.Add:
		return e.admin.Add(ctx, a.PeerURL)
	case etcd.Remove:
		return e.admin.Remove(ctx, a.MemberID)
	default:
		return e.admin.Promote(ctx, a.MemberID)
	}
}

// setRebuild writes down what is done to put a new etcd in the place of a lost one, before
// anything of it is done. Another generation begins with Clearing.
func (e *etcdMembers) setRebuild(ctx context.Context, phase etcd.Phase) error {
	s := e.record().status(e.view)
	s.Rebuild = v1alpha1.EtcdRebuildPhase(phase)
	s.Generation = e.record().generation()
	switch phase {
	case etcd.Clearing:
		s.Generation++
		s.ClusterID, s.Members = "", nil
	case etcd.Making:
		s.ClusterID, s.Members = "", nil
	case etcd.None:
	}
	return e.writeStatus(ctx, s)
}

// recordMembers writes down who the members are before that is changed, so that no more
// than one change was made since they were known when etcd does not answer any more.
func (e *etcdMembers) recordMembers(ctx context.Context, next etcd.ActionKind) error {
	switch next {
	case etcd.Add, etcd.Remove, etcd.Promote:
	default:
		return nil
	}
	s := e.record().status(e.view)
	if was := e.cluster.Status.Etcd; was != nil && equality.Semantic.DeepEqual(was.Members, s.Members) {
		return nil
	}
	return e.writeStatus(ctx, s)
}

// writeStatus writes the part of the status that is about etcd, unless somebody was
// faster.
func (e *etcdMembers) writeStatus(ctx context.Context, s *v1alpha1.EtcdStatus) error {
	changed := e.cluster.DeepCopy()
	changed.Status.Etcd = s
	if err := objects.PatchStatus(ctx, e.objects.Cached, changed, e.cluster); err != nil {
		return fmt.Errorf("write the status of etcd: %w", err)
	}
	e.cluster.Status.Etcd, e.cluster.ResourceVersion = changed.Status.Etcd, changed.ResourceVersion
	return nil
}
