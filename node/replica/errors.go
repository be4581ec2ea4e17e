package replica

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
)

// Kinds of errors, for errors.Is.
var (
	// ErrNoGroup: this node has no replica of the shard.
	ErrNoGroup = errors.New("no replica of this shard here")
	// ErrExists: the shard already has a replica here.
	ErrExists = errors.New("the shard has a replica here")
	// ErrFate: the leader has changed before the outcome was known. A proposal may
	// be committed or not; a read was not confirmed. It is a series.ErrUnavailable.
	ErrFate = fmt.Errorf("leader changed before the outcome was known: %w", series.ErrUnavailable)
	// ErrBusy: a change or a transfer is under way. It is a series.ErrUnavailable.
	ErrBusy = fmt.Errorf("the group is changing: %w", series.ErrUnavailable)
	// ErrFault: the group has stopped because its log contradicts what it had
	// acknowledged, or because it would be a full voter without data. It is a
	// series.ErrUnavailable.
	ErrFault = fmt.Errorf("the replica has stopped: %w", series.ErrUnavailable)
	// ErrState marks bytes that are not a group's state.
	ErrState = errors.New("not a group state")
	// ErrSnapshot: the snapshot is older than what the replica has, or is not for it.
	ErrSnapshot = errors.New("snapshot does not fit")
	// ErrTruncated: the log no longer has that index.
	ErrTruncated = errors.New("the log no longer has this index")
	// ErrArgument: the call makes no sense, such as an unknown kind of entry.
	ErrArgument = errors.New("invalid argument")
)

// NotLeaderError reports that a shard is led by another replica, or that it is unknown
// who leads it. It is a series.ErrUnavailable.
type NotLeaderError struct {
	Shard  uint16
	Leader string // node; empty: not known
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return fmt.Sprintf("shard %d has no known leader", e.Shard)
	}
	return fmt.Sprintf("shard %d is led by node %s", e.Shard, e.Leader)
}

// Unwrap returns series.ErrUnavailable.
func (e *NotLeaderError) Unwrap() error { return series.ErrUnavailable }
