package api_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/api/apitest"
)

// endless is a source whose scans end with their context.
type endless struct {
	scan.Source
	began chan struct{}
}

func (s endless) Scan(ctx context.Context, _ *scan.Request, _ scan.Visitor) error {
	close(s.began)
	<-ctx.Done()
	return ctx.Err()
}

// TestScansEndWithTheCredentials: a scan that runs ends when the token that it came with holds no more.
func TestScansEndWithTheCredentials(t *testing.T) {
	storage := apitest.NewStorage(4)
	o, rules := guarded(t, storage)
	source := endless{storage, make(chan struct{})}
	o.Source = source
	conn, _ := dial(t, o)
	stream, err := tickmeshv1.NewQueryServiceClient(conn).Scan(as(background(t), "reader"),
		&tickmeshv1.ScanRequest{Selector: &tickmeshv1.Selector{Database: []byte("a"), Metric: []byte("m")}, ToMs: 1})
	if err != nil {
		t.Fatal(err)
	}
	<-source.began
	rules.Store(users(t, map[string]string{"admin": "'*': admin"}))
	if _, err := stream.Recv(); status.Code(err) != codes.Unauthenticated || !errors.Is(wire.FromStatus(err), wire.ErrUnauthenticated) {
		t.Error(err)
	}
}
