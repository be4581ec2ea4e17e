package sim

import "strings"

// Fault is a kind of trouble.
type Fault uint8

// The faults.
const (
	FaultKill         Fault = iota // a process dies, and is started again
	FaultPowerCut                  // a board loses its power, and what was not synced
	FaultPowerCutAll               // all boards do
	FaultPause                     // a process stands still
	FaultOneWay                    // messages of one node do not reach another
	FaultPartition                 // a node is cut off from all others
	FaultStoreCut                  // a process is cut off from the placement store
	FaultLoss                      // messages are lost
	FaultTwice                     // messages come twice, the second time late
	FaultRollback                  // the store is set back to an old state, and rescued
	FaultSwapTimesOut              // a swap of the map was made, but its answer is lost
	FaultDisk                      // a node comes back with an empty disk
	FaultTwin                      // and then with the old one
	FaultSlowDisk                  // a disk takes nothing for a while
	FaultDesired                   // nodes are to be empty, and then not
	FaultRouter                    // a router dies
	FaultTransfer                  // leaders are moved
	FaultClocks                    // clocks are a year off, and 10 % fast or slow
	FaultJoin                      // nodes join
	FaultSlowLink                  // messages from one node to another are late
	FaultTogether                  // a node, a router and the store's leader die at once
	FaultStall                     // appliers fall behind
	faults
)

// FaultSet is a set of faults.
type FaultSet uint32

func (s FaultSet) has(f Fault) bool { return s&(1<<f) != 0 }

// AllFaults has every fault.
const AllFaults FaultSet = 1<<faults - 1

// String names the faults.
func (s FaultSet) String() string {
	names := [...]string{"kill", "power", "powerAll", "pause", "oneWay", "partition", "storeCut", "loss", "twice", "rollback",
		"swap", "disk", "twin", "slowDisk", "desired", "router", "transfer", "clocks", "join", "slowLink", "together", "stall"}
	var out []string
	for f := range faults {
		if s.has(f) {
			out = append(out, names[f])
		}
	}
	return strings.Join(out, ",")
}

func faultsOf(list ...Fault) (set FaultSet) {
	for _, f := range list {
		set |= 1 << f
	}
	return set
}
