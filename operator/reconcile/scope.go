package reconcile

import (
	"crypto/tls"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/objects"
	"github.com/tickmesh/tickmesh/operator/pki"
	"github.com/tickmesh/tickmesh/operator/rollout"
	"github.com/tickmesh/tickmesh/operator/upgrade"
)

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
	applied objects.Applied
	etcd    etcdConnection
	// excluded: it was told that another operator acts for the cluster.
	excluded bool
}

// Result describes when the next pass is due, if nothing happens before.
type Result struct{ After time.Duration }

// Intervals between passes over a cluster of which nothing is heard.
const (
	intervalBusy = 3 * time.Second  // something is under way
	intervalIdle = 30 * time.Second // what nodes say of themselves is in status
)
