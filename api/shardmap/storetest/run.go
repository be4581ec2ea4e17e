package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Backend is what stands behind stores: the servers of one cluster, and the network
// to them.
type Backend interface {
	// Open connects one more process.
	Open(t testing.TB, seen shardmap.Seen) shardmap.Store
	// SetReachable cuts one process off, or joins it again.
	SetReachable(store shardmap.Store, reachable bool)
	// Drop ends the connections that a process has; it may make new ones.
	Drop(store shardmap.Store)
	// ExpireLeases ends the leases of processes that are cut off, at once or soon.
	ExpireLeases()
	// Compact forgets old versions of what is stored.
	Compact(t testing.TB)
	// Restart stops and starts the servers. Only on a backend of its own.
	Restart(t testing.TB)
	// Snapshot copies what is stored, and returns what sets it back. Only on a backend
	// of its own.
	Snapshot(t testing.TB) (restore func(testing.TB))
	// Cluster is the name that maps must have.
	Cluster() string
}

// waitMax bounds each wait for something that has to come.
const waitMax = time.Minute

// Run runs all tests of the contract, in parallel. Open returns an empty backend; with
// own set, one that the test may stop.
func Run(t *testing.T, open func(t testing.TB, own bool) Backend) {
	for _, c := range []struct {
		name string
		own  bool
		test func(*testing.T, Backend)
	}{
		{"Swap", false, testSwap},
		{"SwapRefused", false, testSwapRefused},
		{"SwapRace", false, testSwapRace},
		{"Watch", false, testWatch},
		{"WatchAfterCut", false, testWatchAfterCut},
		{"Unreachable", false, testUnreachable},
		{"Desired", false, testDesired},
		{"Manager", false, testManager},
		{"Databases", false, testDatabases},
		{"Tokens", false, testTokens},
		{"Queries", false, testQueries},
		{"TokenRace", false, testTokenRace},
		{"Metadata", false, testMetadata},
		{"Register", false, testRegister},
		{"Twin", false, testTwin},
		{"LeaseEnds", false, testLeaseEnds},
		{"Retire", false, testRetire},
		{"Campaign", false, testCampaign},
		{"Elections", false, testElections},
		{"LeaderCut", false, testLeaderCut},
		{"CampaignAfterCompaction", false, testCampaignAfterCompaction},
		{"Close", false, testClose},
		{"Restart", true, testRestart},
		{"RolledBack", true, testRolledBack},
		{"Lost", true, testLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t, c.own))
		})
	}
}

// Map returns a small valid map of an epoch.
func Map(cluster string, epoch uint64) shardmap.Map {
	member := shardmap.Member{Node: "a", Incarnation: Hex(1), RaftID: 1, Role: shardmap.Full}
	return shardmap.Map{
		Format: shardmap.Format, Cluster: cluster, ID: Hex(77), Epoch: epoch,
		Settings: shardmap.Settings{Shards: 1, Replication: 1},
		Rows:     []shardmap.Row{{Version: epoch, RaftIDLast: 1, Era: 1, Members: []shardmap.Member{member}}},
	}
}

// Hex returns an incarnation, or a cluster's id, by number.
func Hex(n int) string { return fmt.Sprintf("%032x", n) }

func node(id string, incarnation int) shardmap.NodeInfo {
	return shardmap.NodeInfo{ID: id, Incarnation: Hex(incarnation), RPCAddress: id + ":6183", Zone: "z", CapacityBytes: 100, Version: "1"}
}

func contextOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, not %v", err, want)
	}
}

// await takes views until one is as wanted.
func await(t testing.TB, views <-chan shardmap.View, what string, wanted func(shardmap.View) bool) shardmap.View {
	t.Helper()
	timeout := time.NewTimer(waitMax)
	defer timeout.Stop()
	var last shardmap.View
	for {
		select {
		case view, open := <-views:
			if !open {
				t.Fatalf("the watch ended before %s", what)
			}
			if last = view; wanted(view) {
				return view
			}
		case <-timeout.C:
			t.Fatalf("no view with %s; the last one is %+v", what, last)
		}
	}
}

func hasEpoch(epoch uint64) func(shardmap.View) bool {
	return func(v shardmap.View) bool { return v.Err == nil && v.Map != nil && v.Map.Epoch == epoch }
}

func hasError(want error) func(shardmap.View) bool {
	return func(v shardmap.View) bool { return errors.Is(v.Err, want) }
}

func awaitClosed(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(waitMax):
		t.Fatalf("not in time: %s", what)
	}
}

func awaitEnd(t testing.TB, views <-chan shardmap.View) {
	t.Helper()
	timeout := time.After(waitMax)
	for {
		select {
		case _, open := <-views:
			if !open {
				return
			}
		case <-timeout:
			t.Fatal("the watch does not end")
		}
	}
}

// eventually repeats a call that may fail with ErrUnavailable for a while.
func eventually(t testing.TB, what string, call func() error) {
	t.Helper()
	deadline := time.Now().Add(waitMax)
	for {
		err := call()
		if err == nil {
			return
		}
		if !errors.Is(err, shardmap.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
