package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/bootstrap"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/hibernation"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/maintenance"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/report"
)

// pass is one pass over a cluster: it holds the parts of the cluster, and says in which order
// they are looked at and kept. Each part has what it was given when the pass began, and what it
// has found out and decided since.
type pass struct {
	*Scope
	cluster *v1alpha1.TickMeshCluster
	now     time.Time
	seen    *inventory.Inventory
	objects *objects.Client

	certificates certificates
	access       access
	etcd         etcdMembers
	nodes        storageNodes
	volumes      volumes
	templates    templates
	maintenance  maintenance.State
	hibernation  hibernation.Plan
	bootstrap    bootstrap.Plan
	failures     []report.Failure
}

// newPass reads what there is of a cluster, and passes to its parts what they need.
func newPass(ctx context.Context, s *Scope, m *Memory, c *v1alpha1.TickMeshCluster) (*pass, error) {
	seen, err := inventory.Read(ctx, s.Client, s.Reader, c)
	if err != nil {
		return nil, err
	}
	if m.applied == nil {
		m.applied = objects.Applied{}
	}
	p := &pass{Scope: s, cluster: c, now: s.Now(), seen: seen, objects: objects.New(s.Client, s.Reader, c, m.applied)}
	p.maintenance = maintenance.Decide(c, p.now)
	closed := !p.maintenance.Open
	pressing := func(component string) bool { return component == build.ComponentEtcd && p.certificates.pressing() }
	ways := &connections{cluster: c, objects: p.objects, meshes: s.Meshes, kept: &m.etcd, openEtcd: s.OpenEtcd}
	p.certificates = newCertificates(c, seen, p.objects, s.PKI, p.now)
	p.access = access{cluster: c, objects: p.objects}
	p.etcd = etcdMembers{
		cluster: c, seen: seen, objects: p.objects, connections: ways, now: p.now, tell: p.tell,
		applySet: func(ctx context.Context) error { return p.applyInTurn(ctx, build.EtcdStatefulSet(c, p.facts())) },
		urgent:   func() bool { return p.certificates.unsigned },
		closed:   func() bool { return closed && !pressing(build.ComponentEtcd) },
	}
	p.nodes = storageNodes{
		cluster: c, seen: seen, objects: p.objects, connections: ways, tracker: &m.tracker, metrics: s.Metrics, closed: closed, now: p.now, tell: p.tell,
		applySet: func(ctx context.Context, group string) error {
			return p.applyInTurn(ctx, build.NodeStatefulSet(c, p.facts(), group))
		},
		delay: func(group string) string { return p.templates.delay(group) },
		isCurrent: func(group string) (bool, error) {
			return p.templates.isCurrent(build.NodeStatefulSet(c, p.facts(), group))
		},
	}
	p.volumes = volumes{cluster: c, seen: seen, objects: p.objects, tell: p.tell}
	p.templates = templates{seen: seen, release: s.Release, turn: turn{s.Turns, clusterKey(c), p.now}, closed: closed, pressing: pressing}
	return p, nil
}

// scope is when a step is taken.
type scope int

const (
	always scope = iota
	unlessPaused
	unlessResting // nor paused: not while the cluster sleeps, or falls asleep
)

// step is a part of a pass.
type step struct {
	name  string
	taken scope
	run   func(context.Context) error
}

// takes reports whether a step is taken now.
func (p *pass) takes(s step) bool {
	return s.taken == always || !p.cluster.Spec.Paused && (s.taken == unlessPaused || !p.hibernation.Rests())
}

// steps returns the steps of a pass, in order. No step waits for another to end well: what is
// refused here must not keep a lost node from being replaced there. A pause stops what the spec
// asks for, and nothing that pods live by.
func (p *pass) steps() []step {
	return []step{
		{"Finalizer", unlessPaused, p.finalizer},
		{"Certificates", always, p.certificates.renew},
		{"Certificates", always, p.certificates.read},
		{"Etcd", always, func(ctx context.Context) error { p.etcd.look(ctx); return nil }},
		{"Nodes", always, func(ctx context.Context) error { p.nodes.look(ctx, p.etcd.replicas); return nil }},
		{"Hibernation", always, p.hibernate},
		{"Bootstrap", always, p.bootstrapCluster},
		{"Objects", unlessPaused, p.applyObjects},
		{"Volumes", unlessPaused, p.volumes.keep},
		{"Zones", always, p.zones},
		{"Etcd", unlessResting, p.etcd.keep},
		{"Nodes", unlessResting, p.nodes.keep},
		{"Rescue", unlessResting, p.rescueMap},
		{"Rules", unlessPaused, func(context.Context) error { return p.access.wrong }},
	}
}

// nameStore writes down the name that the shard map is kept under, before anything is made
// that uses it.
func (p *pass) nameStore(ctx context.Context) error {
	external := p.cluster.Spec.Etcd.External
	if external == nil || external.ClusterName != "" || p.cluster.Status.StoreName != "" {
		return nil
	}
	before := p.cluster.DeepCopy()
	p.cluster.Status.StoreName = build.NewStoreName(p.cluster, p.seen.NodeGroups[0].Set)
	if err := objects.PatchStatus(ctx, p.Client, p.cluster, before); err != nil {
		return fmt.Errorf("write down the name of the shard map: %w", err)
	}
	return nil
}

// checkRebuild looks, after the claims and pods of an etcd that is being replaced, whether
// it still is: on an older status those of the new one would be taken for the old.
func (p *pass) checkRebuild(ctx context.Context) error {
	if s := p.cluster.Status.Etcd; s == nil || s.Rebuild == "" {
		return nil
	}
	present := &v1alpha1.TickMeshCluster{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.cluster), present); err != nil {
		return fmt.Errorf("look at the cluster as it is now: %w", err)
	}
	if present.ResourceVersion != p.cluster.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.Group, Resource: "tickmeshclusters"}, p.cluster.Name, errors.New("it was changed meanwhile"))
	}
	return nil
}

// writeStatus writes what was seen, if it is news and nobody has changed the cluster meanwhile:
// what the status says of etcd is the only thing that is known of one that does not answer,
// and must not be put back to what it was.
func (p *pass) writeStatus(ctx context.Context) error {
	before := p.cluster.DeepCopy()
	status, changed := report.Of(&report.Facts{
		Cluster: p.cluster, Seen: p.seen, Now: p.now, Nodes: p.nodes.known,
		Etcd:         report.Etcd{Status: p.etcd.record().status(p.etcd.view), Err: p.etcd.err, Plan: p.etcd.plan},
		Certificates: p.certificates.known(), Upgrade: p.templates.plan, VersionRefused: p.templates.refused,
		VolumesRefused: p.volumes.refused, Maintenance: p.maintenance, Hibernation: p.hibernation, WakingSince: p.wakingSince(),
		Bootstrap: p.bootstrap, BootstrapStatus: p.bootstrapStatus(), Failures: broken(p.failures),
		Rescue: rescueOf(p.cluster, p.seen).text(p.cluster, p.etcd.hasLost(p.nodes.known.ViewErr)),
	})
	if !equality.Semantic.DeepEqual(before.Status, *status) {
		p.cluster.Status = *status
		if err := objects.PatchStatus(ctx, p.Client, p.cluster, before); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("write the status: %w", err)
		}
		for _, event := range report.Events(status.Conditions, changed) {
			p.tell(event.Kind, event.Reason, "%s", event.Note)
		}
	}
	p.Metrics.observe(p.cluster, p.nodes.known.Plan, p.failures)
	return nil
}

// zones writes on each node's pod what zone its machine is in: the node waits for it.
func (p *pass) zones(ctx context.Context) error {
	for _, pod := range p.seen.NodePods() {
		machine := p.seen.Machines[pod.Spec.NodeName]
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

// notify records something that happens to a cluster, of a kind as corev1.EventTypeNormal.
type notify func(kind, reason, note string, args ...any)

func (p *pass) tell(kind, reason, note string, args ...any) {
	p.Events.Eventf(p.cluster, nil, kind, reason, "Reconcile", note, args...)
}

// clusterKey names a cluster: namespace/name.
func clusterKey(c *v1alpha1.TickMeshCluster) string { return c.Namespace + "/" + c.Name }
