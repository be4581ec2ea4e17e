package reconcile

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/ownership"
	"github.com/tickmesh/tickmesh/operator/pki"
	"github.com/tickmesh/tickmesh/operator/rollout"
	"github.com/tickmesh/tickmesh/operator/upgrade"
)

// FieldOwner owns the fields that the operator applies.
const FieldOwner = "tickmesh-operator"

// Scope is what the functions of this package work with. It is shared by all clusters.
type Scope struct {
	Client client.Client // its reads may be old
	Reader client.Reader // its reads are of now, and may be of what is not ours
	Events events.EventRecorder
	Now    func() time.Time
	// Defaults has what the operator was released with, and where it runs.
	Defaults build.Facts
	// Release names the operator and what it was released with. What another one changes
	// reaches one cluster after the other, in Turns.
	Release string
	Turns   *upgrade.Turns
	PKI     pki.Settings
	Meshes  *mesh.Pool
	Metrics *Metrics
	// OpenEtcd connects to a managed etcd.
	OpenEtcd func(endpoints []string, secure *tls.Config) (etcd.Admin, error)
}

// Memory is what is kept of one cluster between passes. Nothing depends on it: an empty
// one makes the operator apply objects again, and wait longer.
type Memory struct {
	tracker rollout.Tracker
	applied map[string]stamp
	etcd    etcdConnection
	// excluded: it was told that another operator acts for the cluster.
	excluded bool
}

// Result describes when the next pass is due, if nothing happens before.
type Result struct{ After time.Duration }

// Intervals between passes over a cluster of which nothing is heard.
const (
	intervalBusy  = 3 * time.Second  // something is under way
	intervalQuiet = 30 * time.Second // what nodes say of themselves is in status
)

// pass is one pass over a cluster.
type pass struct {
	*Scope
	memory  *Memory
	cluster *v1alpha1.TickMeshCluster
	now     time.Time
	seen    observation
	secrets secrets
	etcd    etcdState
	nodes   nodeState
	// databases is the ConfigMap with what holds for each database; empty: there is none.
	databases string
	rulesErr  error           // what is wrong with it, or with the users
	kinds     map[string]bool // of monitors: whether Kubernetes has them
	// etcdConfigured: what new members of etcd start with is as decided.
	etcdConfigured bool
	volumesRefused []string // why volumes do not get the size that is asked for
	upgrade        upgrade.Plan
	versionRefused error // why components are not brought to the version that is asked for
	failures       []failure
}

// failure is a step that did not end well.
type failure struct {
	step string
	err  error
}

// reason returns the word for it in conditions.
func (f failure) reason() string {
	if foreign := new(ownership.ForeignError); errors.As(f.err, &foreign) {
		return reasonNameTaken
	}
	return f.step + reasonFailed
}

// key names the cluster.
func (p *pass) key() string { return p.cluster.Namespace + "/" + p.cluster.Name }

// event tells of something that happens to the cluster.
func (p *pass) event(kind, reason, note string, args ...any) {
	p.Events.Eventf(p.cluster, nil, kind, reason, "Reconcile", note, args...)
}

// patchStatus writes what differs in the status of a cluster from before, if nobody has changed the
// cluster since; else it is a conflict.
func (s *Scope) patchStatus(ctx context.Context, c, before *v1alpha1.TickMeshCluster) error {
	return s.Client.Status().Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
