package sim

import "testing"

func faultsOf(list ...Fault) (set FaultSet) {
	for _, f := range list {
		set |= 1 << f
	}
	return set
}

// rough is trouble in which each variant shows.
func rough(v Variant, seed uint64) Options {
	o := Draw(seed)
	o.Variant = v
	switch v {
	case DropOnMap, SettleUnconfirmed:
		o.Replication, o.Always, o.Nodes, o.Hurry = 1+int(seed%3), true, 4, 3
		o.Faults = faultsOf(FaultDesired, FaultStoreCut, FaultSwapTimesOut, FaultPause, FaultPartition, FaultKill)
	case RaftIDTwice:
		o.Replication, o.Always, o.Hurry = 2+int(seed%2), true, 4
		o.Faults = faultsOf(FaultDesired, FaultStoreCut, FaultPause, FaultSlowLink, FaultSwapTimesOut)
	case ReadBeforeApplied, DeleteUnconfirmed, ReadUnconfirmed:
		o.Replication, o.Clients, o.Hurry = 3, 3, 2
		o.Faults = faultsOf(FaultTransfer, FaultKill, FaultStall, FaultPartition, FaultPause)
	case ApplyAcrossRestart:
		o.Faults = faultsOf(FaultKill, FaultTransfer)
		o.Hurry = 2
	case VoteWithoutTail:
		o.Always, o.Hurry = false, 4
		o.Faults = faultsOf(FaultPowerCut, FaultTransfer)
	}
	return o
}

func TestVariantsX(t *testing.T) {
	for v := Sound; v < variants; v++ {
		t.Run(v.String(), func(t *testing.T) {
			const n = 400
			caught := 0
			firstSeed := uint64(0)
			var err error
			inv := map[int]int{}
			for seed := uint64(1); seed <= n; seed++ {
				o := rough(v, seed)
				if r := Run(o); r.Err != nil {
					caught++
					inv[r.Err.(*Violation).Invariant]++
					if err == nil {
						firstSeed, err = seed, r.Err
					}
				}
			}
			t.Logf("%v: %d of %d, first %d: %v %v", v, caught, n, firstSeed, err, inv)
		})
	}
}
