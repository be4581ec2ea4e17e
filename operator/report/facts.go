// Package report describes how a cluster is: its status, its conditions and the events that tell of
// them, as pure functions of what a pass has seen and decided. It asks nobody, and changes
// nothing.
package report

import (
	"errors"
	"fmt"
	"time"

	meshclient "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/bootstrap"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/hibernation"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/maintenance"
	"github.com/tickmesh/tickmesh/operator/ownership"
	"github.com/tickmesh/tickmesh/operator/rollout"
	"github.com/tickmesh/tickmesh/operator/upgrade"
)

// Facts are what a pass has seen and decided.
type Facts struct {
	Cluster      *v1alpha1.TickMeshCluster // with the status of before
	Seen         *inventory.Inventory
	Now          time.Time
	Nodes        Nodes
	Etcd         Etcd
	Certificates Certificates
	Upgrade      upgrade.Plan
	// VersionRefused describes why components are not brought to the version that is asked for; nil:
	// they are.
	VersionRefused error
	VolumesRefused []string // why volumes do not get the size that is asked for
	Maintenance    maintenance.State
	Hibernation    hibernation.Plan
	Bootstrap      bootstrap.Plan
	// BootstrapStatus is its part of the status; nil: nothing is asked for.
	BootstrapStatus *v1alpha1.BootstrapStatus
	WakingSince     time.Time // zero: it is not waking
	Failures        []Failure // steps that did not end well
	Rescue          string    // what is done about a shard map that is lost
}

// Nodes is what is known of the storage nodes, and what is done about them.
type Nodes struct {
	View      shardmap.View
	ViewErr   error              // why there is no view of the placement store
	Status    *meshclient.Status // nil: no router answers
	StatusErr error
	Summary   shardmap.Summary
	Plan      rollout.Plan
	// Told is how many pods the StatefulSet of each group is told to have, or is to be made with. That
	// of spec.nodes has an empty name.
	Told map[string]int
}

// Replicas returns how many pods of nodes there are to be now, of all groups.
func (n *Nodes) Replicas() (replicas int) {
	for _, told := range n.Told {
		replicas += told
	}
	return replicas
}

// Etcd is what is known of a managed etcd, and what is done about it.
type Etcd struct {
	Status *v1alpha1.EtcdStatus // nil: it is not managed
	Err    error                // why its members are not known
	Plan   etcd.Plan
}

// Certificates is what is known of the certificates inside a cluster.
type Certificates struct {
	NotAfter, AuthorityNotAfter time.Time // zero: not known
	Expired                     []string  // Secrets and pods whose certificate has ended
	NamesProblem                string    // what is to be done about names in certificates; empty: nothing
	NamesOptional               bool      // certificates without names are let in
	NodesShare                  bool      // some node may use the certificate that all of them shared
}

// Failure is a step of a pass that did not end well.
type Failure struct {
	Step string
	Err  error
}

// Reason returns the word for it in conditions.
func (f Failure) Reason() string {
	if foreign := new(ownership.ForeignError); errors.As(f.Err, &foreign) {
		return reasonNameTaken
	}
	return f.Step + reasonFailed
}

// Join returns failures as one error; nil: there are none.
func Join(failures []Failure) error {
	all := make([]error, 0, len(failures))
	for _, f := range failures {
		all = append(all, fmt.Errorf("%s: %w", f.Step, f.Err))
	}
	return errors.Join(all...)
}
