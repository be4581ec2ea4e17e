package etcdserver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

// freeAddress returns a port that was free a moment ago, on a host of the loopback that
// nobody else draws: a port of 127.0.0.1 may be given to another listener before it is used.
func freeAddress(t *testing.T) string {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// site is what stays of a member while it is stopped.
type site struct{ dir, client, peer string }

func newSite(t *testing.T) site { return site{t.TempDir(), freeAddress(t), freeAddress(t)} }

func start(t *testing.T, s site, m etcdserver.Membership) *etcdserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	m.AdvertiseClient = "http://" + s.client
	server, err := etcdserver.Start(ctx, etcdserver.Options{DataDir: s.dir, ClientAddress: s.client, PeerAddress: s.peer, NoSync: true, Membership: &m})
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

func connect(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// Three members make a cluster; it works without one of them; that one comes back with
// what it missed; and a fourth takes the place of another.
func TestMembersTakeEachOthersPlace(t *testing.T) {
	sites := []site{newSite(t), newSite(t), newSite(t)}
	var members []etcdserver.Member
	for i, s := range sites {
		members = append(members, etcdserver.Member{Name: fmt.Sprintf("e%d", i), Peer: "http://" + s.peer})
	}
	servers := make([]*etcdserver.Server, 3)
	var starting sync.WaitGroup
	for i, s := range sites {
		starting.Go(func() {
			servers[i] = start(t, s, etcdserver.Membership{Name: members[i].Name, Members: members, Token: "one"})
		})
	}
	starting.Wait()
	if t.Failed() {
		return
	}
	client := connect(t, sites[0].client)
	put := func(value string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error { _, err := client.Put(ctx, "key", value); return err })
	}
	read := func(at site, want string) {
		t.Helper()
		var got *clientv3.GetResponse
		reader := connect(t, at.client)
		eventually(t, func(ctx context.Context) (err error) { got, err = reader.Get(ctx, "key"); return err })
		if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != want {
			t.Fatalf("%v, want %q", got, want)
		}
	}
	put("of three")
	read(sites[2], "of three")
	must(t, servers[2].Close())
	put("of two")
	start(t, sites[2], etcdserver.Membership{Name: "e2", Members: members, Existing: true, Token: "one"})
	read(sites[2], "of two")

	must(t, servers[1].Close())
	eventually(t, func(ctx context.Context) error {
		listed, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range listed.Members {
			if m.Name == "e1" {
				_, err = client.MemberRemove(ctx, m.ID)
			}
		}
		return err
	})
	next := newSite(t)
	eventually(t, func(ctx context.Context) error { // the members refuse while they have not seen each other for a while
		_, err := client.MemberAdd(ctx, []string{"http://" + next.peer})
		if errors.Is(err, rpctypes.ErrPeerURLExist) { // an earlier answer was lost
			return nil
		}
		return err
	})
	members[1].Peer = "http://" + next.peer
	start(t, next, etcdserver.Membership{Name: "e1", Members: members, Existing: true, Token: "one"})
	read(next, "of two")
}

// eventually repeats what fails while the members elect a leader.
func eventually(t *testing.T, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for err := do(ctx); err != nil; err = do(ctx) {
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestParseMembers(t *testing.T) {
	got, err := etcdserver.ParseMembers("a=http://a.b:2380,c=https://c:1")
	if err != nil || len(got) != 2 || got[1] != (etcdserver.Member{Name: "c", Peer: "https://c:1"}) {
		t.Fatal(got, err)
	}
	for _, bad := range []string{"", "a", "=http://a:1", "a=a:1", "a=http://a", "a=ftp://a:1", "a=http://a:1/x", "a=http://a:1,a=http://b:1", "a=http://a:1,"} {
		if _, err := etcdserver.ParseMembers(bad); !errors.Is(err, etcdserver.ErrStart) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAMemberThatIsNotNamed(t *testing.T) {
	_, err := etcdserver.Start(context.Background(), etcdserver.Options{
		DataDir: t.TempDir(), ClientAddress: "127.0.0.1:0",
		Membership: &etcdserver.Membership{Name: "x", AdvertiseClient: "http://a:1", Members: []etcdserver.Member{{Name: "a", Peer: "http://a:2"}}},
	})
	if !errors.Is(err, etcdserver.ErrStart) {
		t.Fatal(err)
	}
}
