package sim

import (
	"errors"
	"math/rand/v2"
)

// Draw returns options of chance for a seed.
func Draw(seed uint64) Options {
	rng := rand.New(rand.NewPCG(seed, 0x5349_4d21))
	o := Options{Seed: seed, Nodes: 3 + rng.IntN(3), Shards: 1 + rng.IntN(3), Replication: 1 + rng.IntN(3),
		Always: rng.IntN(3) > 0, Routers: 1 + rng.IntN(2), Clients: 1 + rng.IntN(3), ActiveMs: 3000 + rng.IntN(6000)}
	for f := range faults {
		if rng.IntN(3) == 0 {
			o.Faults |= 1 << f
		}
	}
	o.StatesLater = rng.IntN(2) == 0
	return o
}

// DrawPower returns options of chance in which boards lose their power one by one and all
// together, with a log that is synced once a second, and groups go on from what is left.
func DrawPower(seed uint64) Options {
	o := Draw(seed)
	o.Always, o.Rescue = false, true
	o.Faults |= faultsOf(FaultPowerCutAll, FaultPowerCut)
	return o
}

// DrawFresh returns options of chance in which trouble comes while groups begin: nodes die
// together and boards lose power before the first entries are everywhere.
func DrawFresh(seed uint64) Options {
	o := DrawPower(seed)
	o.ActiveMs, o.Hurry, o.Replication = 1200, 3, 3
	o.Faults = faultsOf(FaultKill, FaultPowerCut, FaultTogether)
	return o
}

// DrawForget returns options of chance in which series are forgotten that deletes have emptied.
func DrawForget(seed uint64) Options {
	o := Draw(seed)
	if seed%2 == 1 {
		o = DrawPower(seed)
	}
	o.Forget = true
	return o
}

// DrawFor returns options of chance in which a variant shows. Its variant is Sound: what
// shows there without one is a bug.
func DrawFor(v Variant, seed uint64) Options {
	o := Draw(seed)
	switch v {
	case DropOnMap:
		o.Always, o.Nodes, o.ActiveMs, o.Hurry = true, 4, 9000, 3
		o.Faults = faultsOf(FaultDesired, FaultPause, FaultPartition, FaultOneWay, FaultTransfer)
	case EpochsGoBack:
		o.Replication, o.Nodes, o.Shards, o.ActiveMs, o.Hurry = 2, 4, 1, 6000, 4
		o.Faults = faultsOf(FaultDesired, FaultRollback)
	case EpochUntold:
		// The store is set back within the moment before nodes tell it what they have seen, and gives
		// the same raft id to another: that takes much choice, and more than one placement loop.
		o.Replication, o.Nodes, o.Shards, o.Routers, o.ActiveMs, o.Hurry, o.SetBackMs = 2, 5, 3, 2, 9000, 8, 500
		o.Faults = faultsOf(FaultDesired, FaultRollback)
	case RaftIDTwice:
		o.Replication, o.Always, o.Hurry = 2+int(seed%2), true, 4
		o.Faults = faultsOf(FaultDesired, FaultRollback, FaultPause)
	case ReadBeforeApplied, DeleteUnconfirmed, ReadUnconfirmed:
		o.Replication, o.Clients, o.Hurry = 3, 3, 2
		o.Faults = faultsOf(FaultTransfer, FaultKill, FaultStall, FaultPartition, FaultPause)
	case BatchIDsAhead:
		o.Faults, o.Hurry = faultsOf(FaultKill, FaultTransfer), 2
	case VoteWithoutTail:
		o.Always, o.Hurry = false, 4
		o.Faults = faultsOf(FaultPowerCut, FaultTransfer)
	case EraIgnored:
		o.Always, o.Rescue = false, true
		o.Faults = faultsOf(FaultPowerCutAll, FaultKill)
	case StatesNotHeld:
		o.Always, o.StatesLater, o.Hurry = true, true, 4
		o.Faults = faultsOf(FaultPowerCut, FaultTransfer, FaultPartition, FaultPause, FaultDesired)
	case StatesNotSynced:
		o.Always, o.StatesLater, o.Hurry = true, false, 4
		o.Faults = faultsOf(FaultPowerCut, FaultTransfer, FaultPartition, FaultPause, FaultDesired)
	case EpochNotDrained:
		o.Always, o.Hurry = true, 4
		o.Faults = faultsOf(FaultStall, FaultKill)
	case CheckpointAheadOfLog:
		o.Always, o.Rescue, o.Hurry = false, true, 2
		o.Faults = faultsOf(FaultPowerCutAll, FaultPowerCut)
	case DropUndrained:
		o.Always, o.Nodes, o.Hurry, o.Replication, o.Clients, o.ActiveMs, o.StallMs = true, 4, 4, 2+int(seed%2), 3, 9000, 4000
		o.Faults = faultsOf(FaultDesired, FaultStall)
	case FilesBeforeLog:
		o.Always, o.Nodes, o.Hurry, o.Replication, o.Clients, o.ActiveMs = true, 4, 4, 2+int(seed%2), 3, 9000
		o.Faults = faultsOf(FaultDesired, FaultPowerCut, FaultTransfer)
	case SwapNotDrained:
		// A follower has to be cut off for so long that it needs files, and have a backlog still when they come.
		o.Always, o.Nodes, o.Hurry, o.Replication, o.Clients, o.ActiveMs, o.StallMs = true, 3, 4, 3, 3, 9000, 4000
		o.Faults = faultsOf(FaultPartition, FaultStall)
	case SwapUnprepared:
		o.Always, o.Nodes, o.Hurry, o.Replication = true, 4, 4, 2+int(seed%2)
		o.Faults = faultsOf(FaultDesired, FaultKill, FaultPowerCut, FaultStall, FaultSlowLink)
	case ForgetLate:
		o.Forget = true
	case Sound, AnswerEarly, ApplyEarly, BatchIDsInMemory, WitnessServes, LateBeforeSync, DeleteWithoutID,
		EntriesNotSynced, EpochStale, TrimToCheckpoint, StatesSkipped, UncommittedApplied, SwapFailureIgnored, variants:
	}
	return o
}

// Shrink looks for less trouble in which the same invariant is violated: fewer faults,
// clients, routers and shards, and a shorter time.
func Shrink(o Options) Options {
	invariant := func(o Options) int {
		var v *Violation
		if errors.As(Run(o).Err, &v) {
			return v.Invariant
		}
		return -1
	}
	wanted := invariant(o)
	if wanted < 0 {
		return o
	}
	try := func(change func(*Options)) {
		smaller := o
		if change(&smaller); smaller != o && invariant(smaller) == wanted {
			o = smaller
		}
	}
	for f := range faults {
		try(func(o *Options) { o.Faults &^= 1 << f })
	}
	try(func(o *Options) { o.Routers = 1 })
	try(func(o *Options) { o.Clients = 1 })
	try(func(o *Options) { o.Shards = 1 })
	try(func(o *Options) { o.Nodes = 3 })
	for range 4 {
		try(func(o *Options) { o.ActiveMs = o.ActiveMs * 3 / 4 })
	}
	return o
}
