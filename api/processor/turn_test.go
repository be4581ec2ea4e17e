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

// TestTurnIsAsLongAsTheWait: who has waited long for others has as long a turn, so that it gets on beside any load.
func TestTurnIsAsLongAsTheWait(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const wait = 5 * time.Millisecond
	var turn Turn
	defer turn.Close()
	turn.Yield()
	turn.began = time.Now().Add(-turnLeast)
	go func() {
		for start := time.Now(); time.Since(start) < wait; {
		}
	}()
	if turn.Yield(); turn.length < wait || turn.length > turnMost {
		t.Errorf("a turn of %v after a wait of %v", turn.length, wait)
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
