package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// sentinels is every sentinel of the borders with the code that error.proto names.
func sentinels() map[error]codes.Code {
	return map[error]codes.Code{
		series.ErrUnavailable: codes.Unavailable, series.ErrOverloaded: codes.ResourceExhausted,
		series.ErrReadOnly: codes.FailedPrecondition, series.ErrSeriesLimit: codes.ResourceExhausted,
		series.ErrSeriesRate: codes.ResourceExhausted,
		series.ErrEra:        codes.Aborted, series.ErrBatchOld: codes.Aborted,
		series.ErrBatch: codes.InvalidArgument, series.ErrKey: codes.InvalidArgument,
		ErrInvalid: codes.InvalidArgument, ErrNotFound: codes.NotFound, ErrRefused: codes.FailedPrecondition,
		ErrInternal: codes.Internal, ErrVersion: codes.Unimplemented, ErrWrongCluster: codes.PermissionDenied,
		ErrWrongNode: codes.PermissionDenied, ErrRetired: codes.PermissionDenied, ErrTwin: codes.PermissionDenied,
		ErrStaleMap: codes.Aborted, context.Canceled: codes.Canceled, context.DeadlineExceeded: codes.DeadlineExceeded,
	}
}

// TestErrorsSurvive: every kind comes back from a message and from a status as that
// kind and no other, with its text.
func TestErrorsSurvive(t *testing.T) {
	for sentinel, code := range sentinels() {
		err := fmt.Errorf("shard 7: %w: the text", sentinel)
		if got := status.Code(Status(err)); got != code {
			t.Errorf("%v: code %v instead of %v", sentinel, got, code)
		}
		for way, came := range map[string]error{
			"message":      ToError(FromError(err)),
			"status":       FromStatus(Status(err)),
			"twice":        FromStatus(Status(FromStatus(Status(err)))),
			"wrapped":      FromStatus(Status(fmt.Errorf("%w", FromStatus(Status(err))))),
			"shard's":      ShardError(FromError(err), 7, ""),
			"from message": FromStatus(Status(ToError(FromError(err)))),
		} {
			if came.Error() != err.Error() {
				t.Errorf("%s of %v: text %q", way, sentinel, came)
			}
			for other := range sentinels() {
				if want := errors.Is(sentinel, other); errors.Is(came, other) != want {
					t.Errorf("%s of %v: errors.Is(%v) is %v", way, sentinel, other, !want)
				}
			}
		}
	}
}

func TestOtherErrors(t *testing.T) {
	if Status(nil) != nil || FromStatus(nil) != nil || FromError(nil) != nil || ToError(nil) != nil {
		t.Error("nil is an error")
	}
	if err := FromStatus(io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("io.EOF became %v", err)
	}
	unknown := errors.New("unknown")
	if err := FromStatus(Status(unknown)); !errors.Is(err, ErrInternal) || err.Error() != "unknown" {
		t.Errorf("an error without a kind became %v", err)
	}
	later := ToError(&tickmeshv1.Error{Kind: 9999, Message: "from a later version"})
	if !errors.Is(later, ErrInternal) || FromError(later).GetKind() != tickmeshv1.ErrorKind_ERROR_KIND_INTERNAL {
		t.Errorf("a later kind became %v", later)
	}
	for _, leader := range []string{"", "b"} {
		var notLeader *NotLeaderError
		err := FromStatus(Status(fmt.Errorf("write: %w", &NotLeaderError{Shard: 65535, Leader: leader})))
		if !errors.As(err, &notLeader) || *notLeader != (NotLeaderError{Shard: 65535, Leader: leader}) || !errors.Is(err, series.ErrUnavailable) {
			t.Errorf("not the leader became %v", err)
		}
	}
	if err := ToError(&tickmeshv1.Error{Kind: tickmeshv1.ErrorKind_ERROR_KIND_NOT_LEADER}); !errors.Is(err, series.ErrUnavailable) || errors.Is(err, series.ErrEra) {
		t.Errorf("a leader that is not said became %v", err)
	}
	var limit *scan.LimitError
	err := FromStatus(Status(fmt.Errorf("node b: %w", &scan.LimitError{What: "bytes", Limit: 1 << 40})))
	if !errors.As(err, &limit) || *limit != (scan.LimitError{What: "bytes", Limit: 1 << 40}) || !strings.HasPrefix(err.Error(), "node b: ") {
		t.Errorf("a limit became %v", err)
	}
	retry := &Error{Kind: tickmeshv1.ErrorKind_ERROR_KIND_OVERLOADED, Message: "later", RetryAfterMs: 70}
	var came *Error
	if err := FromStatus(Status(fmt.Errorf("x: %w", retry))); !errors.As(err, &came) || came.RetryAfterMs != 70 {
		t.Errorf("a time to wait became %v", err)
	}
	for _, text := range []string{strings.Repeat("ü", 5000), "\xff\xfe", ""} {
		m := FromError(fmt.Errorf("%w%s", ErrRefused, text))
		if _, err := proto.Marshal(m); err != nil || !utf8.ValidString(m.GetMessage()) || len(m.GetMessage()) > ErrorTextBytesMax {
			t.Errorf("text of %d bytes: %v", len(m.GetMessage()), err)
		}
	}
}

// TestStatusesOfGRPC: every code of gRPC becomes some kind.
func TestStatusesOfGRPC(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		err := FromStatus(status.Error(code, "no details"))
		var came *Error
		if !errors.As(err, &came) || err.Error() != "no details" {
			t.Errorf("%v became %v", code, err)
		}
	}
	if err := FromStatus(status.FromContextError(context.DeadlineExceeded).Err()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := FromStatus(status.Error(codes.Unavailable, "")); !errors.Is(err, series.ErrUnavailable) || err.Error() != "unavailable" {
		t.Errorf("got %v", err)
	}
}

// TestKindsAreComplete: no kind of error.proto was forgotten here.
func TestKindsAreComplete(t *testing.T) {
	here := map[tickmeshv1.ErrorKind]bool{
		tickmeshv1.ErrorKind_ERROR_KIND_UNSPECIFIED: true, // is INTERNAL
		tickmeshv1.ErrorKind_ERROR_KIND_NOT_LEADER:  true, // *NotLeaderError
		tickmeshv1.ErrorKind_ERROR_KIND_QUERY_LIMIT: true, // *scan.LimitError
	}
	for _, k := range kinds() {
		here[k.kind] = true
	}
	for number, name := range tickmeshv1.ErrorKind_name {
		if !here[tickmeshv1.ErrorKind(number)] {
			t.Errorf("%s has no error", name)
		}
	}
}

// FuzzStatus: whatever details a status has, it becomes one error that can be sent
// on.
func FuzzStatus(f *testing.F) {
	for sentinel := range sentinels() {
		s, _ := status.FromError(Status(sentinel))
		b, err := proto.Marshal(s.Proto())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	s, _ := status.FromError(Status(&NotLeaderError{Shard: 4, Leader: "b"}))
	b, _ := proto.Marshal(s.Proto())
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		p := s.Proto()
		if proto.Unmarshal(b, p) != nil || p.GetCode() == 0 {
			return
		}
		err := FromStatus(status.FromProto(p).Err())
		if err == nil {
			t.Fatal("a status that is no success became none")
		}
		again := FromStatus(Status(err))
		if FromError(err).GetKind() != FromError(again).GetKind() {
			t.Fatalf("%v became %v", err, again)
		}
	})
}
