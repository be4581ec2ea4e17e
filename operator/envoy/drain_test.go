package envoy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/operator/drain"
)

// TestRealEnvoyDrains ends a running Envoy as its pods are: a request that runs ends well,
// clients with connections that they keep are asked to connect anew and lose nothing, and
// then no new connection is taken.
func TestRealEnvoyDrains(t *testing.T) {
	r, o := &router{slow: make(chan struct{})}, plain()
	r.ready.Store(true)
	o.Router, o.Address = "localhost", "127.0.0.2"
	r.start(t, &o)
	start(t, &o)
	base := fmt.Sprintf("http://127.0.0.2:%d", o.HTTPPort)
	kept := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	ask := func(path string) (closes bool, text string, err error) {
		response, err := kept.Post(base+path, "text/plain", strings.NewReader("x"))
		if err != nil {
			return false, "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", response.Status)
		}
		return response.Close, string(body), err
	}
	eventually(t, "an answer", func() bool { _, _, err := ask("/write"); return err == nil })
	telnet, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.PutPort))
	if err != nil {
		t.Fatal(err)
	}
	defer telnet.Close()
	echo := bufio.NewReader(telnet)
	echoes := func() bool {
		fmt.Fprintln(telnet, "put a 1 2 b=c")
		line, err := echo.ReadString('\n')
		return err == nil && line == "put a 1 2 b=c\n"
	}
	eventually(t, "an echo", echoes)
	slow := make(chan error, 1)
	go func() {
		response, err := http.Post(base+"/slow", "text/plain", strings.NewReader("x"))
		if err == nil {
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if string(body) != "slow\n" || !response.Close {
				err = fmt.Errorf("%s, %q, closes: %v", response.Status, body, response.Close)
			}
		}
		slow <- err
	}()
	<-r.slow // it is under way

	left := make(chan int, 1)
	go func() {
		n, err := drain.Envoy(t.Context(), drain.Options{
			Address: fmt.Sprintf("127.0.0.1:%d", o.AdminPort), Listeners: ClientListeners(), Accept: 6 * time.Second, Timeout: time.Minute, Poll: 20 * time.Millisecond,
		})
		if err != nil {
			t.Error(err)
		}
		left <- n
	}()
	eventually(t, "an answer that asks to connect anew", func() bool {
		closes, _, err := ask("/write")
		if err != nil {
			t.Fatal("a request was lost: ", err)
		}
		return closes
	})
	eventually(t, "Envoy to be not ready", func() bool {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.2:%d/ready", o.StatusPort))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode == http.StatusServiceUnavailable
	})
	eventually(t, "no new connection", func() bool {
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.HTTPPort))
		if err == nil {
			connection.Close()
		}
		return err != nil
	})
	if !echoes() {
		t.Error("a connection that there was is cut")
	}
	select {
	case n := <-left:
		t.Fatalf("it did not wait: %d connections are left", n)
	default:
	}
	r.slow <- struct{}{}
	if err := <-slow; err != nil {
		t.Error("the request that was under way: ", err)
	}
	telnet.Close()
	if n := <-left; n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// A connection that does not end is waited for in bounded time.
func TestRealEnvoyDrainIsBounded(t *testing.T) {
	r, o := &router{}, plain()
	r.ready.Store(true)
	o.Router, o.Address = "localhost", "127.0.0.2"
	r.start(t, &o)
	start(t, &o)
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.LinePort))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	keeps, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", o.HTTPPort)) // and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer keeps.Close()
	eventually(t, "Envoy to have taken the connection", func() bool {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/stats?filter=downstream_cx_active$", o.AdminPort))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		n, err := drain.Connections(string(text), ClientListeners())
		return err == nil && n > 0
	})
	left, err := drain.Envoy(t.Context(), drain.Options{
		Address: fmt.Sprintf("127.0.0.1:%d", o.AdminPort), Listeners: ClientListeners(), Timeout: 2 * time.Second, Poll: 20 * time.Millisecond,
	})
	if err != nil || left < 1 {
		t.Errorf("%d connections are left: %v", left, err)
	}
}
