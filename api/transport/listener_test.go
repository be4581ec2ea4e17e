package transport

import (
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// Connections whose clients say nothing, or do not end the beginning of HTTP/2, hold no server
// that stops.
func TestSilentConnectionsHoldNoStop(t *testing.T) {
	for _, test := range []struct {
		name, said string
		stop       func(*Listener, *grpc.Server)
	}{
		{"silent, graceful", "", func(l *Listener, s *grpc.Server) { l.CloseSilent(); s.GracefulStop() }},
		{"half a preface", "PRI * HT", func(l *Listener, s *grpc.Server) { l.CloseConnections(); s.Stop() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			socket, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			listener := NewListener(socket)
			server := grpc.NewServer(ServerOptions(nil)...)
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			const clients = 3
			for range clients {
				c, err := net.Dial("tcp", socket.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := io.WriteString(c, test.said); err != nil {
					t.Fatal(err)
				}
			}
			count := func() int {
				listener.mu.Lock()
				defer listener.mu.Unlock()
				return len(listener.conns)
			}
			deadline := time.Now().Add(handshakeTimeout / 2)
			for count() < clients && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			done := make(chan struct{})
			go func() { defer close(done); test.stop(listener, server) }()
			select {
			case <-done:
			case <-time.After(time.Until(deadline)):
				t.Fatal("the server waits for its clients")
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			if n := count(); n != 0 {
				t.Errorf("%d connections are still known", n)
			}
		})
	}
}
