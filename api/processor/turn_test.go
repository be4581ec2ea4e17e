package processor

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// TestTurnLetsTheNetworkGoFirst: on a single P a goroutine that computes and yields does not keep one that waits for
// the poller waiting until the runtime's monitor looks.
func TestTurnLetsTheNetworkGoFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	from, to, err := os.Pipe() // whose bytes are there as soon as they are written
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		var b [1]byte
		if _, err := from.Read(b[:]); err != nil {
			t.Error(err)
		}
	}()
	runtime.Gosched() // it waits for the network now
	if _, err := to.Write([]byte{1}); err != nil {
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
