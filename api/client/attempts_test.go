package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/client"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// failingServer answers each call as a test says.
type failingServer struct {
	tickmeshv1.UnimplementedClusterServiceServer
	answer func(ctx context.Context) error
}

func (s failingServer) GetServerInfo(ctx context.Context, _ *tickmeshv1.GetServerInfoRequest) (*tickmeshv1.GetServerInfoResponse, error) {
	return nil, s.answer(ctx)
}

func startFailing(t *testing.T, answer func(ctx context.Context) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	tickmeshv1.RegisterClusterServiceServer(s, failingServer{answer: answer})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// A call that ends with its context names why its attempts failed, though the last one only had no answer.
func TestReasonOfEarlierAttempts(t *testing.T) {
	for _, c := range []struct {
		name   string
		cause  error
		fails  int64 // attempts before the one that nobody answers
		reason string
	}{
		{"deadline", context.DeadlineExceeded, 3, "no leader yet (4 attempts); context deadline exceeded"},
		{"canceled", context.Canceled, 1, "no leader yet (2 attempts); context canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(background(t))
			var attempts atomic.Int64
			address := startFailing(t, func(ctx context.Context) error {
				if attempts.Add(1) <= c.fails {
					return status.Error(codes.Unavailable, "no leader yet")
				}
				end(c.cause)
				<-ctx.Done()
				return ctx.Err()
			})
			o := client.Options{Endpoints: []string{address}, RetryDelayMin: time.Millisecond, RetryDelayMax: time.Millisecond}
			err := reach(ctx, t, o)
			if err == nil || err.Error() != c.reason || !errors.Is(err, c.cause) || !errors.Is(err, client.ErrUnavailable) {
				t.Errorf("%v, want %s", err, c.reason)
			}
		})
	}
}

// A deadline that would pass before the next attempt is told beside what the last one failed for.
func TestReasonWithoutTimeForMore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	err = reach(background(t), t, client.Options{Endpoints: []string{address}, RetryDelayMin: time.Hour, RetryDelayMax: time.Hour})
	if err == nil || !strings.HasSuffix(err.Error(), "connection refused\"; context deadline exceeded") ||
		!errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// Where nothing but the deadline is known, it is told once.
func TestDeadlineIsToldOnce(t *testing.T) {
	ctx, end := context.WithCancelCause(background(t))
	address := startFailing(t, func(ctx context.Context) error {
		end(context.DeadlineExceeded)
		<-ctx.Done()
		return ctx.Err()
	})
	err := reach(ctx, t, client.Options{Endpoints: []string{address}})
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(fmt.Sprint(err), "context deadline exceeded; ") {
		t.Errorf("%v", err)
	}
	var called atomic.Bool
	silent := startFailing(t, func(ctx context.Context) error {
		called.Store(true)
		<-ctx.Done()
		return ctx.Err()
	})
	c, err := client.New(client.Options{Endpoints: []string{silent}, CallTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for !called.Load() { // until there is a connection within the time of a call: before, there is more to tell
		err = c.Reach(t.Context())
	}
	if fmt.Sprint(err) != "context deadline exceeded" {
		t.Errorf("%v", err)
	}
}

func reach(ctx context.Context, t *testing.T, o client.Options) error {
	t.Helper()
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Reach(ctx)
}

// A stream that a server resets as its client's deadline passes tells nothing but that.
func TestResetAtDeadlineIsNoReason(t *testing.T) {
	address := startFailing(t, func(context.Context) error {
		return status.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM with error code: CANCEL")
	})
	err := reach(background(t), t, client.Options{Endpoints: []string{address}, CallTimeout: time.Minute, RetryDelayMin: time.Hour, RetryDelayMax: time.Hour})
	if fmt.Sprint(err) != "context deadline exceeded" {
		t.Errorf("%v", err)
	}
}
