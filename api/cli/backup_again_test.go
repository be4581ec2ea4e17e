package cli

import (
	"context"
	"fmt"
	"net"
	"strings"
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

// lapsingServer has an empty database, and snapshots of it that end before they are read, until one stays.
type lapsingServer struct {
	tickmeshv1.UnimplementedClusterServiceServer
	tickmeshv1.UnimplementedQueryServiceServer
	lapse        int64 // how many end
	taken, ended atomic.Int64
}

func (s *lapsingServer) GetServerInfo(context.Context, *tickmeshv1.GetServerInfoRequest) (*tickmeshv1.GetServerInfoResponse, error) {
	return &tickmeshv1.GetServerInfoResponse{Cluster: "c", ApiLevel: 1, ApiLevelMin: 1}, nil
}

func (s *lapsingServer) TakeSnapshot(context.Context, *tickmeshv1.TakeSnapshotRequest) (*tickmeshv1.TakeSnapshotResponse, error) {
	return &tickmeshv1.TakeSnapshotResponse{Snapshot: fmt.Sprint("s", s.taken.Add(1))}, nil
}

func (s *lapsingServer) EndSnapshot(context.Context, *tickmeshv1.EndSnapshotRequest) (*tickmeshv1.EndSnapshotResponse, error) {
	s.ended.Add(1)
	return &tickmeshv1.EndSnapshotResponse{}, nil
}

func (s *lapsingServer) ListNames(m *tickmeshv1.ListNamesRequest, stream grpc.ServerStreamingServer[tickmeshv1.ListNamesResponse]) error {
	switch {
	case m.GetKind() == tickmeshv1.NameKind_NAME_KIND_DATABASE:
		return stream.Send(&tickmeshv1.ListNamesResponse{Names: [][]byte{[]byte("d")}})
	case m.GetSnapshot() != "" && s.taken.Load() <= s.lapse:
		return status.Error(codes.NotFound, "it has ended")
	}
	return nil
}

// TestBackupStartsAgain: a backup whose snapshot ends reads another, and after some of them none; it says so.
func TestBackupStartsAgain(t *testing.T) {
	for lapse, without := range map[int64]bool{0: false, 2: false, snapshotTries: true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		fake, s := &lapsingServer{lapse: lapse}, grpc.NewServer()
		tickmeshv1.RegisterClusterServiceServer(s, fake)
		tickmeshv1.RegisterQueryServiceServer(s, fake)
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		c, err := client.New(client.Options{Endpoints: []string{l.Addr().String()}})
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetErr(&said)
		m, err := runBackup(cmd, c, archive.NewFolder(t.TempDir()), nil, archive.WriterOptions{ObjectBytes: archive.ObjectBytesDefault, Now: time.Now})
		if err != nil || m.Samples != 0 {
			t.Errorf("%d snapshots end: %+v, %v", lapse, m, err)
		}
		if again := strings.Count(said.String(), "starts again"); again != int(lapse) || strings.Contains(said.String(), "without a snapshot") != without {
			t.Errorf("%d snapshots end: it says %q", lapse, &said)
		}
		if want := min(lapse+1, snapshotTries); fake.taken.Load() != want || fake.ended.Load() != want {
			t.Errorf("%d snapshots end: %d were taken and %d ended, want %d", lapse, fake.taken.Load(), fake.ended.Load(), want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
