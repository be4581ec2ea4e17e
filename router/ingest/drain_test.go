package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// shutdown runs Shutdown beside the test.
func (r *running) shutdown(timeout time.Duration) <-chan error {
	r.stopped = true
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		ended <- r.Shutdown(ctx)
	}()
	return ended
}

func TestDrainClosesIdleConnections(t *testing.T) {
	r := start(t, func(o *Options) { o.UDPAddress = "127.0.0.1:0" })
	fresh := []*net.TCPConn{dial(t, r.Addresses().HTTP), dial(t, r.Addresses().Put), dial(t, r.Addresses().Line)}
	kept := dial(t, r.Addresses().HTTP)
	send(t, kept, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
	from := bufio.NewReader(kept)
	readAnswer(t, from)
	onPut := dial(t, r.Addresses().Put)
	send(t, onPut, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
	fromPut := bufio.NewReader(onPut)
	readAnswer(t, fromPut)
	eventually(t, "all connections served", func() bool { return r.metric(t, "tickmesh_ingest_connections") == 5 })
	if err := <-r.shutdown(testTimeout); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(fresh, kept, onPut) {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("an idle connection lives on")
		}
	}
	if _, err := net.Dial("tcp", r.Addresses().HTTP.String()); err == nil {
		t.Error("the server still accepts")
	}
}

func TestDrainFinishesRequests(t *testing.T) {
	gate := make(chan struct{})
	r := start(t, nil)
	r.beforeWrites(gated(gate))
	var waiting []*net.TCPConn
	for i := range 3 {
		c := dial(t, r.Addresses().HTTP)
		send(t, c, request("/write?db=d&precision=s", fmt.Sprintf("m value=1 %d", 1_700_000_000+i)))
		waiting = append(waiting, c)
	}
	put := dial(t, r.Addresses().Put)
	send(t, put, "put m 1700000000 1 a=b\nversion\n")
	eventually(t, "four writes under way", func() bool { return len(r.workers.slots) == 4 })
	ended := r.shutdown(testTimeout)
	eventually(t, "the drain has begun", func() bool { return r.front.draining.Load() && r.listeners[portPut].draining.Load() })
	close(gate)
	for _, c := range waiting {
		response, body := readAnswer(t, bufio.NewReader(c))
		if response.StatusCode != 204 || !response.Close {
			t.Errorf("%d %s, close %v", response.StatusCode, body, response.Close)
		}
	}
	if answer, err := io.ReadAll(put); err != nil || string(answer) != versionAnswer {
		t.Errorf("put: %q, %v", answer, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := r.total(); got != 4 {
		t.Errorf("%d points stored, want 4", got)
	}
}

// A request that has arrived when the drain begins is served, even if nothing of
// it has been read.
func TestDrainServesWhatHasArrived(t *testing.T) {
	r := start(t, nil)
	c := dial(t, r.Addresses().HTTP)
	from := bufio.NewReader(c)
	send(t, c, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
	readAnswer(t, from)
	send(t, c, request("/write?db=d&precision=s", "m value=1 1700000000"))
	ended := r.shutdown(testTimeout)
	if response, body := readAnswer(t, from); response.StatusCode != 204 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What a TCP connection had sent before the drain is written.
func TestDrainReadsWhatHasArrived(t *testing.T) {
	gate := make(chan struct{})
	r := start(t, func(o *Options) { o.TCP.ChunkBytes = 100 })
	r.beforeWrites(gated(gate))
	c := dial(t, r.Addresses().Line)
	var text strings.Builder
	const n = 500
	for i := range n {
		fmt.Fprintf(&text, "m,a=b value=%d %d\n", i, 1_700_000_000_000+i)
	}
	send(t, c, text.String())
	eventually(t, "the first chunk being written", func() bool { return len(r.workers.slots) == 1 })
	ended := r.shutdown(testTimeout)
	eventually(t, "the drain has begun", func() bool { return r.listeners[portLine].draining.Load() })
	close(gate)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := r.total(); got != n {
		t.Errorf("%d points stored, want %d", got, n)
	}
}

// At the drain's deadline the contexts of writes and handlers end and their
// connections close.
func TestDrainDeadline(t *testing.T) {
	began := make(chan struct{})
	r := start(t, func(o *Options) {
		o.Other = http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			close(began)
			<-q.Context().Done()
		})
	})
	r.beforeWrites(gated(nil))
	write := dial(t, r.Addresses().HTTP)
	send(t, write, request("/write?db=d", "m value=1"))
	query := dial(t, r.Addresses().HTTP)
	send(t, query, "GET /query-without-end HTTP/1.1\r\nHost: x\r\n\r\n")
	put := dial(t, r.Addresses().Put)
	send(t, put, "put m 1700000000 1 a=b\n")
	<-began
	eventually(t, "writes under way", func() bool { return len(r.workers.slots) == 2 })
	err := <-r.shutdown(50 * time.Millisecond)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connections closed") {
		t.Errorf("shutdown: %v", err)
	}
	if got := r.total(); got != 0 {
		t.Errorf("%d points stored", got)
	}
}

// TestDrainAbandons: a handler that does not look at its context does not keep Shutdown.
func TestDrainAbandons(t *testing.T) {
	gate, entered := make(chan struct{}), make(chan struct{})
	defer close(gate)
	r := start(t, func(o *Options) {
		o.Other = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(entered)
			<-gate
		})
	})
	send(t, dial(t, r.Addresses().HTTP), "GET /stuck HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered
	if err := <-r.shutdown(10 * time.Millisecond); !errors.Is(err, ErrAbandoned) {
		t.Fatal(err)
	}
}

// TestHangUpBehindMore: a client that has sent more than one request, and closes, ends the first.
func TestHangUpBehindMore(t *testing.T) {
	canceled, entered := make(chan struct{}), make(chan struct{})
	r := start(t, func(o *Options) {
		o.Other = http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			close(entered)
			<-request.Context().Done()
			close(canceled)
		})
	})
	c := dial(t, r.Addresses().HTTP)
	send(t, c, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered
	send(t, c, "GET /next")
	select {
	case <-canceled:
		t.Fatal("more of the client ended its request")
	case <-time.After(20 * time.Millisecond):
	}
	_ = c.Close()
	<-canceled
}
