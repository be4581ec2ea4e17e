package shardmap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Errors of a Store. Others are wrapped around what the store's library says.
var (
	// ErrConflict: the map in the store has another epoch than the one expected.
	ErrConflict = errors.New("the shard map was changed by another")
	// ErrUnavailable: the store did not answer in time. What was to be written may
	// have been written all the same; load again.
	ErrUnavailable = errors.New("the placement store does not answer")
	// ErrRolledBack: the store has no map, or one older than one seen before. It was
	// lost or set back; the map has to be rescued from the nodes.
	ErrRolledBack = errors.New("the placement store was lost or rolled back")
	// ErrWrongCluster: the store's map belongs to another cluster than the one seen before.
	ErrWrongCluster = errors.New("the shard map is of another cluster")
	// ErrJump: the map follows the present one by no change that a cluster makes.
	ErrJump = errors.New("the shard map jumps")
	// ErrNode: a node's description of itself is not valid.
	ErrNode = errors.New("not a valid description of a node")
	// ErrNodeHeld: another process is registered under the node's id.
	ErrNodeHeld = errors.New("another process is registered under this node id")
	// ErrRetired: the data folder's incarnation was replaced and may not come back.
	ErrRetired = errors.New("this data folder was replaced and retired")
	// ErrManager: the name of a manager is too long or has strange characters.
	ErrManager = errors.New("not a valid name of a manager")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the placement store is closed")
)

// View is the whole content of a store at one time.
type View struct {
	Map          *Map                     // nil: none yet. Shared: not to be changed
	Nodes        map[string]NodeInfo      // the live ones, by id
	Desired      map[string]Desired       // by node
	Incarnations map[string][]Incarnation // by node, in the order in which they registered
	// Databases are the names that somebody has created or dropped. Shared: not to be changed.
	Databases map[string]DatabaseMark
	// Tokens are the records of tokens by id. Shared: not to be changed.
	Tokens map[string]string
	// Queries are the records of continuous queries by id. Shared: not to be changed.
	Queries map[string]string
	// Manager alone may say what is desired, when it is not empty: the resource that a
	// cluster was made from, as kind/namespace/name. Empty: the command line may.
	Manager string
	// Err is set while the store cannot be relied on: ErrUnavailable, ErrRolledBack,
	// ErrWrongCluster, ErrMap, ErrFormat. The other fields are then the last good ones.
	Err error
}

// Overtaken reports whether a live node knows more of the map than the store has:
// ErrRolledBack, or ErrWrongCluster. Nothing may be built on such a map: raft ids that
// it does not know would be given again. Nodes that lag behind are no reason.
func (v View) Overtaken() error {
	for _, id := range slices.Sorted(maps.Keys(v.Nodes)) {
		seen := Seen{ClusterID: v.Nodes[id].ClusterID, Epoch: v.Nodes[id].Epoch}
		if err := seen.Check(v.Map); err != nil {
			return fmt.Errorf("%w: node %s has seen epoch %d of cluster %s", err, id, seen.Epoch, seen.ClusterID)
		}
	}
	return nil
}

// Seen is the newest map that its owner has seen, in this life or an earlier one. A
// store refuses older ones.
type Seen struct {
	ClusterID string // Map.ID; empty: none seen
	Epoch     uint64
}

// Check returns ErrRolledBack or ErrWrongCluster when a map must not follow the one
// seen; m is nil when the store has none.
func (s Seen) Check(m *Map) error {
	switch {
	case s.Epoch == 0:
		return nil
	case m == nil:
		return ErrRolledBack
	case m.ID != s.ClusterID:
		return ErrWrongCluster
	case m.Epoch < s.Epoch:
		return ErrRolledBack
	}
	return nil
}

// epochJumpMax is how many changes a node may have missed. A rescue adds a million, and
// half a billion a year are 50 in a second at all times: a node may be away for ever, and
// a map whose epoch was made up to be the last one is refused.
const epochJumpMax = 1 << 40

// CheckSuccessor returns ErrJump when next cannot have followed m in the life of a cluster:
// its settings are others, or its epoch is further ahead than changes can have taken it.
// Seen.Check refuses older maps, and those of other clusters.
func (m *Map) CheckSuccessor(next *Map) error {
	switch {
	case next.Settings != m.Settings:
		return fmt.Errorf("%w: %d shards with %d copies after %d with %d, which never change",
			ErrJump, next.Settings.Shards, next.Settings.Replication, m.Settings.Shards, m.Settings.Replication)
	case next.Epoch > m.Epoch && next.Epoch-m.Epoch > epochJumpMax:
		return fmt.Errorf("%w: epoch %d after %d", ErrJump, next.Epoch, m.Epoch)
	}
	return nil
}

// CheckSwap returns the error with which a swap to a map must end before the store is
// asked: ErrWrongCluster; or ErrConflict, because what was seen is newer than what the
// map was made from.
func (s Seen) CheckSwap(next Map) error {
	switch {
	case s.Epoch == 0:
		return nil
	case next.ID != s.ClusterID:
		return ErrWrongCluster
	case next.Epoch <= s.Epoch:
		return fmt.Errorf("%w: epoch %d was seen already", ErrConflict, s.Epoch)
	}
	return nil
}

// Store keeps the map, the nodes and what is wanted of them. It is safe for
// concurrent use. Each call ends with ErrUnavailable when the store does not answer
// within a bounded time, or when ctx ends first with the error of ctx.
type Store interface {
	// Load returns what the store has now. A store that was rolled back returns the error
	// in View.Err as well as by return.
	Load(ctx context.Context) (View, error)

	// Watch sends a View at the start and after each change, until ctx ends or the
	// store is closed; then the channel is closed. Only the newest View waits: a slow
	// reader misses the ones between. While the store does not answer, a View with
	// Err is sent once, and one without when it answers again.
	Watch(ctx context.Context) <-chan View

	// CompareAndSwap replaces the map of the epoch by next, whose epoch is greater.
	// An epoch of 0 says that there is no map yet. Errors: ErrConflict, ErrMap,
	// ErrWrongCluster. In a store that was rolled back it is ErrConflict: load again.
	CompareAndSwap(ctx context.Context, epoch uint64, next Map) error

	// SetDesired returns what is wanted of a node; "" forgets the node.
	SetDesired(ctx context.Context, node string, desired Desired) error

	// SetManager sets who alone may say what is desired; "" that anybody may. It is a
	// note for others: the store does not enforce it. Errors: ErrManager.
	SetManager(ctx context.Context, manager string) error

	// SetDatabase notes what somebody has said of a database; "" forgets the name. Errors:
	// ErrDatabase; ErrDatabases for a new name beyond DatabasesMax, which several that come
	// at the same time may pass by a few.
	SetDatabase(ctx context.Context, name string, mark DatabaseMark) error

	// SwapToken replaces the record of a token by next; "" stands for a token that is not there.
	// Errors: ErrToken; ErrTokenChanged where the record is not old; ErrTokens for a new token
	// beyond TokensMax, which several that come at the same time may pass by a few.
	SwapToken(ctx context.Context, id, old, next string) error

	// SwapTokens replaces records of tokens that are there, in one change; one that is not the
	// old one stays as it is. Errors: ErrToken, also for more than TokenSwapsMax.
	SwapTokens(ctx context.Context, swaps []TokenSwap) error

	// SwapQuery replaces the record of a continuous query by next; "" stands for a query that is not
	// there. Errors: ErrQuery; ErrQueryChanged where the record is not old; ErrQueries for a new query
	// beyond QueriesMax, which several that come at the same time may pass by a few.
	SwapQuery(ctx context.Context, id, old, next string) error

	// Metadata returns the records of metadata that have changed since a revision of the store, 0 for all, and the revision
	// that the answer is of. Views do not have them: only routers ask.
	Metadata(ctx context.Context, since int64) (changed []MetadataRecord, revision int64, err error)

	// SwapMetadata replaces the record of a database that was written at the revision of the one given, and returns
	// that of the new one; no text takes the record away, which Metadata does not tell. Errors: ErrMetadata; ErrMetadataChanged; ErrDatabases for a new record beyond
	// MetadataRecordsMax, which several that come at the same time may pass by a few.
	SwapMetadata(ctx context.Context, record MetadataRecord) (revision int64, err error)

	// Register enters a node under a lease, and its incarnation among the known ones.
	// A process that succeeds the registered one takes over at once, see
	// NodeInfo.Succeeds. Errors: ErrNodeHeld, ErrRetired, ErrNode.
	Register(ctx context.Context, info NodeInfo) (Registration, error)

	// Retire marks an incarnation so that it cannot register again. One that is
	// registered now is refused with ErrNodeHeld.
	Retire(ctx context.Context, node, incarnation string) error

	// Campaign waits until it wins an election. Name says who it is.
	Campaign(ctx context.Context, election Election, name string) (Leadership, error)

	// Close ends all watches, registrations and leaderships that came from this store.
	Close() error
}

// Registration is a node's entry under its lease.
type Registration interface {
	// Update changes the node's description; its id and incarnation stay. ErrNodeHeld:
	// the entry is lost.
	Update(ctx context.Context, info NodeInfo) error
	// Lost is closed when the lease has ended or another process took over. The node
	// goes on with what it knows, and registers again.
	Lost() <-chan struct{}
	// Close removes the entry.
	Close(ctx context.Context) error
}

// Election is work that one process of a cluster does at a time.
type Election string

// The elections of a cluster.
const (
	ElectionPlacement Election = "placement" // plans and moves shards
	ElectionRules     Election = "rules"     // evaluates recording and alerting rules
	ElectionQueries   Election = "queries"   // runs continuous queries
)

// Leadership is a won election.
type Leadership interface {
	// Lost is closed when another may have been elected.
	Lost() <-chan struct{}
	// Resign leaves the election, so that another can win it.
	Resign(ctx context.Context) error
}
