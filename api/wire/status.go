package wire

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Code returns the gRPC code that goes with a kind, as error.proto has it.
func Code(kind tickmeshv1.ErrorKind) codes.Code {
	switch kind {
	case tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE, tickmeshv1.ErrorKind_ERROR_KIND_NOT_LEADER:
		return codes.Unavailable
	case tickmeshv1.ErrorKind_ERROR_KIND_OVERLOADED, tickmeshv1.ErrorKind_ERROR_KIND_SERIES_LIMIT,
		tickmeshv1.ErrorKind_ERROR_KIND_SERIES_RATE, tickmeshv1.ErrorKind_ERROR_KIND_QUERY_LIMIT:
		return codes.ResourceExhausted
	case tickmeshv1.ErrorKind_ERROR_KIND_READ_ONLY, tickmeshv1.ErrorKind_ERROR_KIND_REFUSED:
		return codes.FailedPrecondition
	case tickmeshv1.ErrorKind_ERROR_KIND_BATCH_OLD, tickmeshv1.ErrorKind_ERROR_KIND_ERA,
		tickmeshv1.ErrorKind_ERROR_KIND_STALE_MAP:
		return codes.Aborted
	case tickmeshv1.ErrorKind_ERROR_KIND_INVALID, tickmeshv1.ErrorKind_ERROR_KIND_BATCH,
		tickmeshv1.ErrorKind_ERROR_KIND_KEY:
		return codes.InvalidArgument
	case tickmeshv1.ErrorKind_ERROR_KIND_CANCELLED:
		return codes.Canceled
	case tickmeshv1.ErrorKind_ERROR_KIND_DEADLINE:
		return codes.DeadlineExceeded
	case tickmeshv1.ErrorKind_ERROR_KIND_NOT_FOUND:
		return codes.NotFound
	case tickmeshv1.ErrorKind_ERROR_KIND_VERSION:
		return codes.Unimplemented
	case tickmeshv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED:
		return codes.Unauthenticated
	case tickmeshv1.ErrorKind_ERROR_KIND_DENIED, tickmeshv1.ErrorKind_ERROR_KIND_WRONG_CLUSTER, tickmeshv1.ErrorKind_ERROR_KIND_WRONG_NODE,
		tickmeshv1.ErrorKind_ERROR_KIND_RETIRED, tickmeshv1.ErrorKind_ERROR_KIND_TWIN:
		return codes.PermissionDenied
	default:
		return codes.Internal
	}
}

// kindOfCode is for calls that failed in gRPC itself, without our details.
func kindOfCode(code codes.Code) tickmeshv1.ErrorKind {
	switch code {
	case codes.Unavailable:
		return tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE
	case codes.ResourceExhausted:
		return tickmeshv1.ErrorKind_ERROR_KIND_OVERLOADED
	case codes.Canceled:
		return tickmeshv1.ErrorKind_ERROR_KIND_CANCELLED
	case codes.DeadlineExceeded:
		return tickmeshv1.ErrorKind_ERROR_KIND_DEADLINE
	case codes.InvalidArgument, codes.OutOfRange:
		return tickmeshv1.ErrorKind_ERROR_KIND_INVALID
	case codes.NotFound:
		return tickmeshv1.ErrorKind_ERROR_KIND_NOT_FOUND
	case codes.Unimplemented:
		return tickmeshv1.ErrorKind_ERROR_KIND_VERSION
	case codes.Unauthenticated:
		return tickmeshv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED
	case codes.PermissionDenied:
		return tickmeshv1.ErrorKind_ERROR_KIND_DENIED
	case codes.FailedPrecondition, codes.AlreadyExists, codes.Aborted:
		return tickmeshv1.ErrorKind_ERROR_KIND_REFUSED
	default:
		return tickmeshv1.ErrorKind_ERROR_KIND_INTERNAL
	}
}

// Status returns the gRPC error that a handler returns for err; nil for nil.
func Status(err error) error {
	if err == nil {
		return nil
	}
	m := FromError(err)
	s := status.New(Code(m.GetKind()), m.GetMessage())
	var notLeader *NotLeaderError
	var detailed *status.Status
	var failed error
	if errors.As(err, &notLeader) {
		detailed, failed = s.WithDetails(m, &nodev1.ShardEnd{Shard: uint32(notLeader.Shard), Leader: validText(notLeader.Leader)})
	} else {
		detailed, failed = s.WithDetails(m)
	}
	if failed != nil {
		return s.Err()
	}
	return detailed.Err()
}

// FromStatus returns the error that Status was given, as *Error or *NotLeaderError. An
// error of gRPC itself becomes an *Error by its code. nil, io.EOF, which ends
// streams, and errors that are no statuses stay what they are.
func FromStatus(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	var m *tickmeshv1.Error
	var end *nodev1.ShardEnd
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *tickmeshv1.Error:
			m = d
		case *nodev1.ShardEnd:
			end = d
		}
	}
	if m == nil {
		return &Error{Kind: kindOfCode(s.Code()), Message: s.Message()}
	}
	if end != nil && end.GetShard() <= shardMax {
		return ShardError(m, uint16(end.GetShard()), end.GetLeader())
	}
	return ToError(m)
}
