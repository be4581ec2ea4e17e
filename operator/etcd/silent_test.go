package etcd

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

// relay passes connections on to an address until it is silent: then it reads nothing more, answers nothing and ends nothing, like a
// machine that has lost its power.
type relay struct {
	net.Listener
	silent atomic.Bool
	passed atomic.Int64 // bytes of answers
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: listener}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		close(ended)
	})
	pass := func(from, to net.Conn, count *atomic.Int64) {
		buffer := make([]byte, 1<<16)
		for {
			n, err := from.Read(buffer)
			if r.silent.Load() {
				<-ended
			}
			if err == nil {
				count.Add(int64(n))
				_, err = to.Write(buffer[:n])
			}
			if err != nil {
				_ = from.Close()
				_ = to.Close()
				return
			}
		}
	}
	go func() {
		for {
			outer, err := listener.Accept()
			if err != nil {
				return
			}
			inner, err := net.Dial("tcp", to)
			if err != nil {
				_ = outer.Close()
				continue
			}
			go pass(outer, inner, new(atomic.Int64))
			go pass(inner, outer, &r.passed)
		}
	}()
	return r
}

// A member whose machine has lost its power takes no part of the requests for long: without pings every second one would be lost for
// a quarter of an hour.
func TestSilentMember(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	address, peer := freeAddress(t), freeAddress(t)
	server, err := etcdserver.Start(ctx, etcdserver.Options{
		DataDir: t.TempDir(), ClientAddress: address, PeerAddress: peer, NoSync: true,
		Membership: &etcdserver.Membership{Name: "e0", AdvertiseClient: "http://" + address, Members: []etcdserver.Member{{Name: "e0", Peer: "http://" + peer}}, Token: "silent"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r := newRelay(t, address)
	admin, err := Connect([]string{"http://" + r.Addr().String(), "http://" + address}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	// Requests go by both ways when a few in a row have been answered by the relay, too, once it is connected.
	for before, now := int64(0), int64(0); before == 0 || now == before; {
		before = now
		for range 4 {
			if _, err := admin.View(ctx); err != nil {
				t.Fatal(err)
			}
		}
		now = r.passed.Load()
	}
	r.silent.Store(true)
	began, served := time.Now(), 0
	for served < 6 {
		if _, err := admin.View(ctx); err == nil {
			served++
		} else {
			served = 0
		}
		if ctx.Err() != nil {
			t.Fatalf("requests still fail %s after a member has become silent", time.Since(began))
		}
	}
}
