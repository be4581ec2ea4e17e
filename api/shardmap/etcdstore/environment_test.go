package etcdstore

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// A proxy for the internet, which the environment of a router or node may name, is not asked for etcd. The Go library
// reads these variables once in a process, so a process of its own looks.
func TestNoInternetProxy(t *testing.T) {
	t.Parallel()
	const variable = "ETCDSTORE_TEST_PROXIED"
	if os.Getenv(variable) != "" {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		s, err := Open(Options{Endpoints: []string{"etcd.invalid:2379"}, Cluster: "demo", RequestTimeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Campaign(ctx, shardmap.ElectionRules, "one"); err == nil {
			t.Fatal("an etcd that is not there has answered")
		}
		return
	}
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if c, err := proxy.Accept(); err == nil { // else it is closed
			t.Error("the proxy is asked for etcd")
			c.Close()
		}
	}()
	at := "http://" + proxy.Addr().String()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoInternetProxy$")
	child.Env = append(os.Environ(), variable+"=1", "HTTPS_PROXY="+at, "HTTP_PROXY="+at, "NO_PROXY=")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	proxy.Close()
	<-asked
}
