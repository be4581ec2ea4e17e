package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Kinds of errors that no other package of the borders has, for errors.Is.
var (
	// ErrInvalid: the request is wrong and stays wrong.
	ErrInvalid = errors.New("invalid request")
	// ErrNotFound: what is named does not exist.
	ErrNotFound = errors.New("not found")
	// ErrRefused: the cluster is not in a state in which this may be done.
	ErrRefused = errors.New("refused")
	// ErrUnauthenticated: the caller's credentials are unknown, or there were none.
	ErrUnauthenticated = errors.New("not authenticated")
	// ErrDenied: the caller is known and has not the right.
	ErrDenied = errors.New("permission denied")
	// ErrInternal: a fault of the server; also all errors without a kind.
	ErrInternal = errors.New("internal error")
	// ErrVersion: the two sides speak versions that do not go together.
	ErrVersion = errors.New("versions do not go together")
	// ErrWrongCluster: the two sides belong to different clusters.
	ErrWrongCluster = errors.New("another cluster")
	// ErrWrongNode: the caller has reached another node, or another data folder of
	// it, than it meant.
	ErrWrongNode = errors.New("another node")
	// ErrRetired: the caller's data folder has been given up.
	ErrRetired = errors.New("retired data folder")
	// ErrTwin: another process with the same node id is alive.
	ErrTwin = errors.New("another process has this node id")
	// ErrStaleMap: the shard map is older than one that has been seen.
	ErrStaleMap = errors.New("shard map is older than one that has been seen")
)

// ErrorTextBytesMax bounds an error's text in messages; it travels in headers. A
// longer one is cut.
const ErrorTextBytesMax = 4 << 10

// NotLeaderError reports that another node leads a shard. It is a kind of
// series.ErrUnavailable.
type NotLeaderError struct {
	Shard  uint16
	Leader string // the node that leads; empty: not known
}

// Error returns the text for people.
func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return fmt.Sprintf("shard %d has no leader that this node knows", e.Shard)
	}
	return fmt.Sprintf("shard %d is led by node %s", e.Shard, e.Leader)
}

// Is reports whether the error is a kind of series.ErrUnavailable.
func (e *NotLeaderError) Is(target error) bool { return target == series.ErrUnavailable }

// Error is an error that came as a message.
type Error struct {
	Kind         tickmeshv1.ErrorKind
	Message      string
	RetryAfterMs uint32           // when to try again; 0: not said
	Limit        *scan.LimitError // with ERROR_KIND_QUERY_LIMIT
}

// Error returns the text for people.
func (e *Error) Error() string {
	if e.Message == "" {
		return strings.ToLower(strings.TrimPrefix(e.Kind.String(), "ERROR_KIND_"))
	}
	return e.Message
}

// Is reports whether the error is of the kind of a sentinel of this package, api/series
// or context. NOT_LEADER is a kind of series.ErrUnavailable, SERIES_RATE of
// series.ErrSeriesLimit.
func (e *Error) Is(target error) bool {
	switch e.Kind {
	case tickmeshv1.ErrorKind_ERROR_KIND_NOT_LEADER:
		return target == series.ErrUnavailable
	case tickmeshv1.ErrorKind_ERROR_KIND_SERIES_RATE:
		return target == series.ErrSeriesRate || target == series.ErrSeriesLimit
	}
	for _, k := range kinds() {
		if k.sentinel == target {
			return e.kind() == k.kind
		}
	}
	return false
}

// Unwrap returns the limit that a query met.
func (e *Error) Unwrap() error {
	if e.Limit == nil {
		return nil
	}
	return e.Limit
}

func (e *Error) kind() tickmeshv1.ErrorKind { return known(e.Kind) }

// known returns kinds that a later version has added as INTERNAL.
func known(kind tickmeshv1.ErrorKind) tickmeshv1.ErrorKind {
	if tickmeshv1.ErrorKind_name[int32(kind)] == "" || kind == tickmeshv1.ErrorKind_ERROR_KIND_UNSPECIFIED {
		return tickmeshv1.ErrorKind_ERROR_KIND_INTERNAL
	}
	return kind
}

// kindOf joins a sentinel with its kind.
type kindOf struct {
	sentinel error
	kind     tickmeshv1.ErrorKind
}

// kinds lists sentinels in the order in which they are looked for: of an error that
// wraps several the first one counts.
func kinds() []kindOf {
	return []kindOf{
		{series.ErrEra, tickmeshv1.ErrorKind_ERROR_KIND_ERA},
		{series.ErrBatchOld, tickmeshv1.ErrorKind_ERROR_KIND_BATCH_OLD},
		{series.ErrSeriesRate, tickmeshv1.ErrorKind_ERROR_KIND_SERIES_RATE}, // before its kind, the next one
		{series.ErrSeriesLimit, tickmeshv1.ErrorKind_ERROR_KIND_SERIES_LIMIT},
		{series.ErrReadOnly, tickmeshv1.ErrorKind_ERROR_KIND_READ_ONLY},
		{series.ErrBatch, tickmeshv1.ErrorKind_ERROR_KIND_BATCH},
		{series.ErrKey, tickmeshv1.ErrorKind_ERROR_KIND_KEY},
		{series.ErrOverloaded, tickmeshv1.ErrorKind_ERROR_KIND_OVERLOADED},
		{series.ErrUnavailable, tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE},
		{ErrInvalid, tickmeshv1.ErrorKind_ERROR_KIND_INVALID},
		{ErrNotFound, tickmeshv1.ErrorKind_ERROR_KIND_NOT_FOUND},
		{ErrUnauthenticated, tickmeshv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED},
		{ErrDenied, tickmeshv1.ErrorKind_ERROR_KIND_DENIED},
		{ErrVersion, tickmeshv1.ErrorKind_ERROR_KIND_VERSION},
		{ErrWrongCluster, tickmeshv1.ErrorKind_ERROR_KIND_WRONG_CLUSTER},
		{ErrWrongNode, tickmeshv1.ErrorKind_ERROR_KIND_WRONG_NODE},
		{ErrRetired, tickmeshv1.ErrorKind_ERROR_KIND_RETIRED},
		{ErrTwin, tickmeshv1.ErrorKind_ERROR_KIND_TWIN},
		{ErrStaleMap, tickmeshv1.ErrorKind_ERROR_KIND_STALE_MAP},
		{ErrRefused, tickmeshv1.ErrorKind_ERROR_KIND_REFUSED},
		{context.Canceled, tickmeshv1.ErrorKind_ERROR_KIND_CANCELLED},
		{context.DeadlineExceeded, tickmeshv1.ErrorKind_ERROR_KIND_DEADLINE},
		{ErrInternal, tickmeshv1.ErrorKind_ERROR_KIND_INTERNAL},
	}
}

// FromError returns the message of an error; nil for nil. The leader of a
// *NotLeaderError is lost: the messages that carry it have a field of its own.
func FromError(err error) *tickmeshv1.Error {
	if err == nil {
		return nil
	}
	m := &tickmeshv1.Error{Message: cutText(err.Error())}
	var came *Error
	if errors.As(err, &came) {
		m.Kind, m.RetryAfterMs = came.kind(), came.RetryAfterMs
		m.Limit = fromLimit(came.Limit)
		return m
	}
	var notLeader *NotLeaderError
	var limit *scan.LimitError
	switch {
	case errors.As(err, &notLeader):
		m.Kind = tickmeshv1.ErrorKind_ERROR_KIND_NOT_LEADER
	case errors.As(err, &limit):
		m.Kind, m.Limit = tickmeshv1.ErrorKind_ERROR_KIND_QUERY_LIMIT, fromLimit(limit)
	default:
		m.Kind = sentinelKind(err)
	}
	return m
}

func sentinelKind(err error) tickmeshv1.ErrorKind {
	for _, k := range kinds() {
		if errors.Is(err, k.sentinel) {
			return k.kind
		}
	}
	return tickmeshv1.ErrorKind_ERROR_KIND_INTERNAL
}

func fromLimit(limit *scan.LimitError) *tickmeshv1.Error_Limit {
	if limit == nil {
		return nil
	}
	return &tickmeshv1.Error_Limit{What: limit.What, Limit: limit.Limit}
}

// ToError returns the *Error of a message; nil for nil.
func ToError(m *tickmeshv1.Error) error {
	if m == nil {
		return nil
	}
	e := &Error{Kind: m.GetKind(), Message: m.GetMessage(), RetryAfterMs: m.GetRetryAfterMs()}
	if l := m.GetLimit(); l != nil {
		e.Limit = &scan.LimitError{What: l.GetWhat(), Limit: l.GetLimit()}
	}
	return e
}

// ShardError returns the error of a message about a shard, *NotLeaderError where it
// says so.
func ShardError(m *tickmeshv1.Error, shard uint16, leader string) error {
	if m.GetKind() == tickmeshv1.ErrorKind_ERROR_KIND_NOT_LEADER {
		return &NotLeaderError{Shard: shard, Leader: leader}
	}
	return ToError(m)
}

// Leader returns the leader that a *NotLeaderError names.
func Leader(err error) string {
	var notLeader *NotLeaderError
	if errors.As(err, &notLeader) {
		return validText(notLeader.Leader)
	}
	return ""
}

func cutText(s string) string {
	s = validText(s)
	if len(s) <= ErrorTextBytesMax {
		return s
	}
	end := ErrorTextBytesMax
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// validText replaces what protobuf's strings may not have.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
