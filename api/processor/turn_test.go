package processor

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// TestTurnLetsTheNetworkGoFirst: on a single P a goroutine that computes and yields does not keep one that waits for a
// connection waiting until the runtime's monitor looks.
func TestTurnLetsTheNetworkGoFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	client, server := connectionPair(t)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		var b [1]byte
		if _, err := server.Read(b[:]); err != nil {
			t.Error(err)
		}
	}()
	runtime.Gosched() // it waits for the network now
	if _, err := client.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	var turn Turn
	defer turn.Close()
	turn.Yield()
	for turns := 0; ; {
		select {
		case <-answered:
			if turns > 3 {
				t.Errorf("it was answered after %d turns", turns)
			}
			return
		default:
		}
		began := turn.began
		if turn.Yield(); !turn.began.Equal(began) {
			turns++
		}
	}
}

func connectionPair(t *testing.T) (client, server net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if client, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

func BenchmarkTurnYield(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var turn Turn
	defer turn.Close()
	turn.Yield()
	for b.Loop() {
		turn.began = time.Now().Add(-turnMost)
		turn.Yield()
	}
}
