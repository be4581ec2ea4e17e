package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
)

// etcdState is what is known of a managed etcd, and what is to be done.
type etcdState struct {
	admin    etcd.Admin // nil: not connected
	view     etcd.View
	err      error // why there is no view
	plan     etcd.Plan
	replicas int // of its StatefulSet, as it is now or is to be made
	// endpoints is how many members its clients are told of.
	endpoints int
}

// etcdMembersMax is how many members a managed etcd can have.
const etcdMembersMax = 3

// Annotations of claims.
const (
	annotationEtcdMember = v1alpha1.Group + "/etcd-member" // id of the member whose data is on it, hexadecimal
	// annotationMachineMissing has since when the only machine of the volume does not exist, in
	// Unix milliseconds.
	annotationMachineMissing = v1alpha1.Group + "/machine-missing-since"
	annotationGivenUp        = v1alpha1.Group + "/given-up" // its node or member is being given up
)

// lookAtEtcd asks a managed etcd who its members are, and decides.
func (p *pass) lookAtEtcd(ctx context.Context) {
	if !managedEtcd(p.cluster) {
		return
	}
	s := &p.etcd
	s.replicas = replicasOf(p.seen.etcdSet)
	facts := p.etcdFacts()
	if s.replicas >= 0 {
		s.view, s.err = p.askEtcd(ctx, s.replicas)
		if s.err == nil {
			facts.Members = s.view.Members
		}
	}
	s.plan = etcd.Decide(facts)
	s.endpoints = facts.Wanted
	if s.replicas < 0 {
		s.replicas = facts.Wanted
	}
}

func (p *pass) askEtcd(ctx context.Context, replicas int) (etcd.View, error) {
	material, err := p.etcdTLS(ctx)
	if err != nil {
		return etcd.View{}, err
	}
	endpoints := build.EtcdEndpoints(p.cluster, build.Facts{EtcdEndpoints: int32(max(replicas, 1))})
	if p.etcd.admin, err = p.memory.etcd.get(p.OpenEtcd, endpoints, material); err != nil {
		return etcd.View{}, err
	}
	return p.etcd.admin.View(ctx)
}

// etcdFacts is what is seen, as decisions want it.
func (p *pass) etcdFacts() etcd.Facts {
	c := p.cluster
	replaceAfter := p.replaceAfterMs()
	f := etcd.Facts{
		NowMs: p.now.UnixMilli(), ReplaceAfterMs: replaceAfter, Replicas: replicasOf(p.seen.etcdSet),
		Wanted: int(build.EtcdMembersWanted(c)), Machines: map[string]etcd.Machine{},
		Created: c.Status.Etcd != nil && c.Status.Etcd.ClusterID != "" || p.etcdNoted(),
	}
	f.Wanted = max(f.Wanted, f.Replicas)
	p.etcdHistory(&f)
	for _, name := range build.PodNames(c, build.ComponentEtcd, etcdMembersMax) {
		f.Names = append(f.Names, name)
		f.PeerURLs = append(f.PeerURLs, build.EtcdURL(c, name, build.PortEtcdPeer))
	}
	for ordinal, pod := range p.seen.etcdPods {
		f.Pods = append(f.Pods, etcd.Pod{
			Ordinal: ordinal, UID: string(pod.UID), Machine: pod.Spec.NodeName, Running: isRunning(pod), Ready: isReady(pod),
			Terminating: pod.DeletionTimestamp != nil, Outdated: isOutdated(pod, p.seen.etcdSet),
		})
	}
	for ordinal, claim := range p.seen.etcdClaims {
		// What cannot be read was written by somebody else: no member is known then.
		id, _ := strconv.ParseUint(claim.Annotations[annotationEtcdMember], 16, 64)
		missing, _ := strconv.ParseInt(claim.Annotations[annotationMachineMissing], 10, 64)
		f.Claims = append(f.Claims, etcd.Claim{
			MachineMissingSinceMs: missing,
			Ordinal:               ordinal, Name: claim.Name, UID: string(claim.UID), Machine: p.seen.volumeMachines[claim.Name], MemberID: id,
			GivenUp: claim.Annotations[annotationGivenUp] != "", Lost: p.seen.lost[claim.Name], Terminating: claim.DeletionTimestamp != nil,
		})
	}
	for name, machine := range p.seen.machines {
		f.Machines[name] = etcd.Machine{NotReadySinceMs: notReadySinceMs(machine), OutOfService: isOutOfService(machine)}
	}
	return f
}

// etcdNoted reports whether a claim says that it has data of a member: then the etcd has
// answered before, even if the status was lost.
func (p *pass) etcdNoted() bool {
	for _, claim := range p.seen.etcdClaims {
		if claim.Annotations[annotationEtcdMember] != "" {
			return true
		}
	}
	return false
}

// keepEtcd makes the changes that were decided. Each can be made again.
func (p *pass) keepEtcd(ctx context.Context) error {
	if managedEtcd(p.cluster) && !p.etcdConfigured {
		return nil // a member that is made now would begin as what it is not to be; Objects has failed and says why
	}
	for _, a := range p.etcd.plan.Actions {
		if err := p.recordMembers(ctx, a.Kind); err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
		err := p.etcdAction(ctx, a)
		if budget := new(budgetError); errors.As(err, &budget) {
			p.etcd.plan.Waiting = budget.Error()
			continue
		}
		if err != nil {
			return fmt.Errorf("etcd, %s %s: %w", a.Kind, p.etcdName(a.Ordinal), err)
		}
		switch {
		case a.Kind == etcd.SetRebuild:
			p.event(corev1.EventTypeWarning, reasonEtcdQuorumLost, "etcd: %s", a.Why)
		case a.Why != "" && a.Kind != etcd.MarkClaim:
			p.event(corev1.EventTypeNormal, "EtcdMember", "%s %s: %s", a.Kind, p.etcdName(a.Ordinal), a.Why)
		}
	}
	return nil
}

func (p *pass) etcdName(ordinal int) string {
	return build.PodName(p.cluster, build.ComponentEtcd, int32(ordinal))
}

var errNotConnected = errors.New("not connected to etcd")

func (p *pass) etcdAction(ctx context.Context, a etcd.Action) error {
	switch a.Kind {
	case etcd.Scale:
		p.etcd.replicas = a.Replicas
		return p.applySet(ctx, func(f build.Facts) *appsv1.StatefulSet { return build.EtcdStatefulSet(p.cluster, f) })
	case etcd.NoteMember:
		return p.annotateClaim(ctx, p.seen.etcdClaims[a.Ordinal], annotationEtcdMember, strconv.FormatUint(a.MemberID, 16))
	case etcd.NoteMachine:
		since := ""
		if a.SinceMs > 0 {
			since = strconv.FormatInt(a.SinceMs, 10)
		}
		return p.annotateClaim(ctx, p.seen.etcdClaims[a.Ordinal], annotationMachineMissing, since)
	case etcd.MarkClaim:
		return p.annotateClaim(ctx, p.seen.etcdClaims[a.Ordinal], annotationGivenUp, mark(a.GivenUp))
	case etcd.DeleteClaim:
		return p.deleteClaim(ctx, p.seen.etcdClaims[a.Ordinal])
	case etcd.DeletePod:
		return p.endPod(ctx, p.seen.etcdPods[a.Ordinal], a.Force)
	case etcd.SetRebuild:
		return p.setRebuild(ctx, a.Phase)
	case etcd.Add, etcd.Remove, etcd.Promote:
	}
	if p.etcd.admin == nil {
		return errNotConnected
	}
	switch a.Kind {
	case etcd.Add:
		return p.etcd.admin.Add(ctx, a.PeerURL)
	case etcd.Remove:
		return p.etcd.admin.Remove(ctx, a.MemberID)
	default:
		return p.etcd.admin.Promote(ctx, a.MemberID)
	}
}

// mark is the value of an annotation that says yes; "" takes it away.
func mark(set bool) string {
	if set {
		return "true"
	}
	return ""
}
