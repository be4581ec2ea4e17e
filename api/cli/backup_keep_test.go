package cli

import (
	"context"
	"errors"
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

// slowServer has an empty database, and answers the question for its metrics when its snapshot was kept some times, or never, where
// it loses the snapshot then.
type slowServer struct {
	lapsingServer
	loses  bool
	keeps  atomic.Int64
	enough chan struct{} // closed when the snapshot was kept for keepsWanted times
}

const keepsWanted = 3

func (s *slowServer) ListNames(m *tickmeshv1.ListNamesRequest, stream grpc.ServerStreamingServer[tickmeshv1.ListNamesResponse]) error {
	ofDatabases := m.GetKind() == tickmeshv1.NameKind_NAME_KIND_DATABASE
	switch {
	case ofDatabases && m.GetSnapshot() != "":
		keeps := s.keeps.Add(1)
		if keeps == keepsWanted {
			close(s.enough)
		}
		if s.loses && keeps >= keepsWanted {
			return status.Error(codes.NotFound, "a part is lost")
		}
	case ofDatabases:
		return stream.Send(&tickmeshv1.ListNamesResponse{Names: [][]byte{[]byte("d")}})
	case s.loses:
		<-stream.Context().Done()
		return stream.Context().Err()
	default:
		select {
		case <-s.enough:
		case <-stream.Context().Done():
		}
	}
	return nil
}

// TestBackupKeepsItsSnapshot: while one read lasts, all parts of the snapshot are read again and again, and no more once the backup
// has ended; when a part is lost, the read is not waited for.
func TestBackupKeepsItsSnapshot(t *testing.T) {
	for _, loses := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		fake, s := &slowServer{loses: loses, enough: make(chan struct{})}, grpc.NewServer()
		tickmeshv1.RegisterClusterServiceServer(s, fake)
		tickmeshv1.RegisterQueryServiceServer(s, fake)
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		c, err := client.New(client.Options{Endpoints: []string{l.Addr().String()}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w, err := archive.Begin(ctx, archive.NewFolder(t.TempDir()), archive.WriterOptions{Name: "b", Cluster: "c", ObjectBytes: archive.ObjectBytesDefault, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		cmd := &cobra.Command{}
		cmd.SetContext(ctx)
		cmd.SetErr(&strings.Builder{})
		_, _, err = copyAll(cmd, &backup{client: c, archive: w, keepEvery: time.Millisecond}, nil, 0, true)
		if loses != errors.Is(err, client.ErrNotFound) || !loses && err != nil {
			t.Errorf("a part is lost: %v; the backup ends with %v", loses, err)
		}
		if fake.keeps.Load() < keepsWanted || fake.ended.Load() != 1 {
			t.Errorf("a part is lost: %v; it was kept %d times, and ended %d times", loses, fake.keeps.Load(), fake.ended.Load())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
