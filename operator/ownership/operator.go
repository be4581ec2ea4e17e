package ownership

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// LeaseName is the lease of the operator that acts, of all that run in one namespace.
const LeaseName = "tickmesh-operator"

// leaseGrace is for how long a lease counts after it has ended: the clocks of two machines
// may differ.
const leaseGrace = time.Minute

// Standing is what an operator is to a cluster.
type Standing int

// The values of Standing.
const (
	Acting   Standing = iota // it acts for the cluster, as is written down
	Free                     // nobody acts for it: it may, once that is written down
	Excluded                 // another one does
)

// Operators is what is known of the operators of a cluster. Each is named by its namespace:
// of those in one namespace, one is elected.
type Operators struct {
	Self   string
	Holder string // as the cluster's status says; empty: nobody has acted for it yet
	// Lease of the holder; nil: there is none. It is not looked at if the holder is Self.
	Lease *coordinationv1.Lease
	// LeaseHidden reports that this operator may not look at the lease. The holder counts as
	// running then: two operators would undo each other's changes for ever.
	LeaseHidden bool
	Now         time.Time
}

// Decide returns what Self is to the cluster.
func (o *Operators) Decide() Standing {
	switch {
	case o.Holder == o.Self:
		return Acting
	case o.Holder == "" || !o.LeaseHidden && !o.held():
		return Free
	}
	return Excluded
}

// held reports whether a process holds the lease, or did a moment ago.
func (o *Operators) held() bool {
	if o.Lease == nil {
		return false
	}
	spec := &o.Lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false // its last holder has given it back
	}
	end := spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	return o.Now.Before(end.Add(leaseGrace))
}

// Refusal tells people why an Excluded operator does nothing, and what to do.
func (o *Operators) Refusal() string {
	return fmt.Sprintf("the operator in namespace %s acts for this cluster, so the one in namespace %s does nothing: uninstall one of the two releases, or set operator.namespaces of both so that no namespace is in both",
		o.Holder, o.Self)
}
