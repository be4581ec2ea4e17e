package cli

import (
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/cli/archive"
	"github.com/tickmesh/tickmesh/api/client"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// olderServer is a server that does not know hidden numbers.
type olderServer struct {
	lapsingServer
	refused, digests atomic.Int64
}

func (s *olderServer) ListNames(m *tickmeshv1.ListNamesRequest, stream grpc.ServerStreamingServer[tickmeshv1.ListNamesResponse]) error {
	if m.GetKind() == tickmeshv1.NameKind_NAME_KIND_METRIC {
		return stream.Send(&tickmeshv1.ListNamesResponse{Names: [][]byte{[]byte("m")}})
	}
	return s.lapsingServer.ListNames(m, stream)
}

func (s *olderServer) Scan(m *tickmeshv1.ScanRequest, _ grpc.ServerStreamingServer[tickmeshv1.ScanResponse]) error {
	asked := m.GetWindows().GetAggregates()
	if slices.Contains(asked, tickmeshv1.Aggregate_AGGREGATE_HIDDEN) {
		s.refused.Add(1)
		return status.Error(codes.InvalidArgument, "unknown aggregate 8")
	}
	if slices.Contains(asked, tickmeshv1.Aggregate_AGGREGATE_DIGEST) {
		s.digests.Add(1)
	}
	return nil
}

// TestBackupOfOlderServer: what a server of an older version does not know is left out of the question.
func TestBackupOfOlderServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fake, s := &olderServer{}, grpc.NewServer()
	tickmeshv1.RegisterClusterServiceServer(s, fake)
	tickmeshv1.RegisterQueryServiceServer(s, fake)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	c, err := client.New(client.Options{Endpoints: []string{l.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	if _, err := runBackup(cmd, c, archive.NewFolder(t.TempDir()), nil, archive.WriterOptions{ObjectBytes: archive.ObjectBytesDefault, Now: time.Now}); err != nil {
		t.Error(err)
	}
	if fake.refused.Load() == 0 || fake.digests.Load() == 0 {
		t.Errorf("%d questions were refused, %d digests were asked for then", fake.refused.Load(), fake.digests.Load())
	}
}
