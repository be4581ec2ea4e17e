package ownership

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// LeaseName is the name of the lease by which the operators of one namespace elect the one that
// acts.
const LeaseName = "tickmesh-operator"

// leaseGrace is how long a lease counts after its end, since the clocks of two machines may
// differ.
const leaseGrace = time.Minute

// Standing is the relation of an operator to a cluster.
type Standing int

// The values of Standing.
const (
	Acting   Standing = iota // it acts for the cluster, as the status says
	Free                     // no operator does: it may act once it has written itself into the status
	Excluded                 // another operator acts for the cluster
)

// Operators are the facts about the operators of a cluster. An operator is named by its
// namespace, as those in one namespace elect one of them.
type Operators struct {
	Self   string
	Holder string // of the cluster's status; empty: no operator has acted for the cluster yet
	// Lease is that of Holder; nil: there is none. It is ignored if Holder is Self.
	Lease *coordinationv1.Lease
	// LeaseHidden reports that this operator may not read the lease. Holder counts as running
	// then, since two operators would undo each other's changes for ever.
	LeaseHidden bool
	Now         time.Time
}

// Decide returns the Standing of Self.
func (o *Operators) Decide() Standing {
	switch {
	case o.Holder == o.Self:
		return Acting
	case o.Holder == "" || !o.LeaseHidden && !o.held():
		return Free
	}
	return Excluded
}

// held reports whether a process holds the lease, or held it until leaseGrace ago.
func (o *Operators) held() bool {
	if o.Lease == nil {
		return false
	}
	spec := &o.Lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false // its last holder has released it
	}
	end := spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	return o.Now.Before(end.Add(leaseGrace))
}

// Refusal returns a message that says why an Excluded operator does nothing, and what to do.
func (o *Operators) Refusal() string {
	return fmt.Sprintf("the operator in namespace %s acts for this cluster, so the one in namespace %s does nothing: uninstall one of the two releases, or set operator.namespaces of both so that no namespace is in both",
		o.Holder, o.Self)
}
