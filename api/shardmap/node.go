package shardmap

import (
	"fmt"
	"slices"
)

// NodeInfo describes a running node; the node keeps it in the store under its lease.
type NodeInfo struct {
	ID            string
	Incarnation   string
	RPCAddress    string // host:port at which peers and routers reach it
	Zone          string `json:",omitempty"` // empty: the node is a zone of its own
	CapacityBytes int64  // of its data folder's file system; 0: not known
	UsedBytes     int64
	StartedMs     int64 // Unix time
	Version       string
	ClusterID     string `json:",omitempty"` // Map.ID that it has seen; empty: none yet
	Epoch         uint64 `json:",omitempty"` // newest epoch that it has seen
	// Former are incarnations that the node's data folder had before. It is told to
	// Register, and not kept.
	Former []string `json:"-"`
}

// Succeeds reports whether the process that says n takes the entry of another one over: it
// is the same node at the same address, started again on the same data folder. That one
// process only can use a folder says that the other one is gone.
func (n NodeInfo) Succeeds(held NodeInfo) bool {
	return held.RPCAddress == n.RPCAddress && (held.Incarnation == n.Incarnation || slices.Contains(n.Former, held.Incarnation))
}

// Validate checks the fields that others rely on. Errors: ErrNode.
func (n NodeInfo) Validate() error {
	switch {
	case !ValidName(n.ID):
		return fmt.Errorf("%w: id %q", ErrNode, n.ID)
	case !ValidIncarnation(n.Incarnation):
		return fmt.Errorf("%w: incarnation %q of node %s", ErrNode, n.Incarnation, n.ID)
	case n.Zone != "" && !ValidName(n.Zone):
		return fmt.Errorf("%w: zone %q of node %s", ErrNode, n.Zone, n.ID)
	case n.RPCAddress == "" || len(n.RPCAddress) > addressBytesMax:
		return fmt.Errorf("%w: address %q of node %s", ErrNode, n.RPCAddress, n.ID)
	}
	return nil
}

// addressBytesMax is the length of a DNS name with a port.
const addressBytesMax = 253 + len(":65535")

// Desired is what is wanted of a node. Its one writer is the operator of a managed
// cluster, or the command line.
type Desired string

// What can be wanted of a node. A node of which nothing is said is active.
const (
	Active   Desired = "active"   // it holds shards
	Draining Desired = "draining" // its shards move away, as far as there is another place for them
	Gone     Desired = "gone"     // as Draining; and when it is dead it is not waited for
)

// Valid reports whether d is one of the constants.
func (d Desired) Valid() bool { return d == Active || d == Draining || d == Gone }

// Incarnation is one formatted data folder of a node.
type Incarnation struct {
	ID      string
	Retired bool // it may not come back
}

// incarnationsMax bounds the known incarnations of a node.
const incarnationsMax = 64

// Newest returns the known incarnations with id moved to, or entered at, the end: the
// one that registered last. Of too many the oldest retired ones are forgotten.
func Newest(known []Incarnation, id string) []Incarnation {
	next := make([]Incarnation, 0, len(known)+1)
	for _, incarnation := range known {
		if incarnation.ID != id {
			next = append(next, incarnation)
		}
	}
	next = append(next, Incarnation{ID: id})
	for i := 0; i < len(next) && len(next) > incarnationsMax; {
		if next[i].Retired {
			next = slices.Delete(next, i, i+1)
			continue
		}
		i++
	}
	return next
}
