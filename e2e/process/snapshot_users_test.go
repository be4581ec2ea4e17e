package process

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/client"
)

// TestSnapshotsOfUsers: one user has half of the snapshots of a node at most, and others the rest, on a server of its own and in a cluster,
// whose nodes learn from routers for whom they take one.
func TestSnapshotsOfUsers(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"alone":   nil,
		"cluster": {"--nodes", "1", "--replication", "1", "--shards", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			users := filepath.Join(t.TempDir(), "auth.yaml")
			authFile(t, users, map[string]string{"one": "'*': write", "other": "'*': read"})
			s := startServer(t, t.TempDir(), append([]string{"--auth-file", users, "--udp-user", "one"}, flags...)...)
			connect(t, s)
			take := func(user string, within time.Duration) error {
				c, err := client.New(client.Options{Endpoints: []string{s.addr["grpc"]}, Token: user, InsecureCredentials: true})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				_, err = c.TakeSnapshot(ctx, []string{""})
				return err
			}
			for range 2 {
				if err := take("one", waitMax); err != nil {
					t.Fatal(err)
				}
			}
			if err := take("one", 3*time.Second); !errors.Is(err, client.ErrOverloaded) {
				t.Errorf("a third one of one user: %v", err)
			}
			for range 2 {
				if err := take("other", waitMax); err != nil {
					t.Errorf("of another user: %v", err)
				}
			}
		})
	}
}
