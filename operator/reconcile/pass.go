package reconcile

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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

// notify records something that happens to a cluster, of a kind as corev1.EventTypeNormal.
type notify func(kind, reason, note string, args ...any)

func (p *pass) tell(kind, reason, note string, args ...any) {
	p.Events.Eventf(p.cluster, nil, kind, reason, "Reconcile", note, args...)
}

// Conflict reports whether an error of Cluster means only that somebody else was faster.
func Conflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
