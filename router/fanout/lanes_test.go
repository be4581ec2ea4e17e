package fanout

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
)

func noConnection(t interface{ Fatal(...any) }) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Calls take the first connection with room, none has too many, and what ends gives its place
// back, however often it says so.
func TestLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLanes(noConnection(t), func() (*grpc.ClientConn, error) { return noConnection(t), nil })
		defer l.close()
		type held struct {
			conn    *grpc.ClientConn
			release func()
		}
		var running []held
		on := map[*grpc.ClientConn]int{}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				for range rapid.IntRange(1, 2*laneCallsMax).Draw(t, "calls") {
					full := len(running) == LanesMax*laneCallsMax
					conn, release, err := l.acquire()
					if (err != nil) != full || err != nil && !errors.Is(err, series.ErrOverloaded) {
						t.Fatalf("%d calls run: %v", len(running), err)
					}
					if err == nil {
						running = append(running, held{conn, release})
						on[conn]++
					}
				}
			},
			"release": func(t *rapid.T) {
				for range rapid.IntRange(0, len(running)).Draw(t, "calls") {
					at := rapid.IntRange(0, len(running)-1).Draw(t, "which")
					running[at].release()
					running[at].release()
					on[running[at].conn]--
					running = append(running[:at], running[at+1:]...)
				}
			},
			"": func(t *rapid.T) {
				connections, calls := l.counts()
				if calls != len(running) || connections > LanesMax || connections < (len(running)+laneCallsMax-1)/laneCallsMax {
					t.Fatalf("%d calls on %d connections, want %d", calls, connections, len(running))
				}
				for _, n := range on {
					if n > laneCallsMax {
						t.Fatalf("%d calls on one connection", n)
					}
				}
			},
		})
	})
}

// A node tells those who connect that it takes a hundred calls at once on a connection.
func TestStreamsOfNodes(t *testing.T) {
	w := newWorld(t, 1, 1)
	conn, err := net.Dial("tcp", w.nodes[0].address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(waitBound))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	f, err := framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, ok := f.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame is %v", f)
	}
	if n, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || n != 100 {
		t.Errorf("%d streams at once, told %v", n, ok)
	}
}

// More reads than one connection carries run at once, and neither writes nor probes wait for
// them; when they may go on all of them end, and the connections have no call left.
func TestManyReadsAtOnce(t *testing.T) {
	w := newWorld(t, 1, 2)
	c := w.open(Limits{ReadTimeout: waitBound})
	ctx, cancel := context.WithTimeout(t.Context(), waitBound)
	defer cancel()
	frame := frameOf(c, 2, map[string][]series.Sample{string(scantest.Key("", "m", "n", "1")): {{TimeMs: 1, Value: 1}}})
	if _, err := c.Write(ctx, frame); err != nil {
		t.Fatal(err)
	}
	const reads = 3 * transport.StreamsMax
	started, release := make(chan struct{}, reads), make(chan struct{})
	w.nodes[0].onScan = func() {
		started <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
	}
	var all sync.WaitGroup
	defer func() {
		cancel()
		all.Wait()
	}()
	for range reads {
		all.Go(func() {
			err := c.Source(scan.Consistency{}).Scan(ctx, &scan.Request{Selector: scan.Selector{}, FromMs: 0, ToMs: 1 << 40, Parallel: 1},
				func(int, *scan.Chunk) error { return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range reads {
		select {
		case <-started:
		case <-ctx.Done():
			t.Fatal("not all reads run at once")
		}
	}
	n := c.current.Load().nodes["a"]
	if connections, calls := n.lanes.counts(); calls < reads || connections < reads/transport.StreamsMax {
		t.Errorf("%d calls on %d connections", calls, connections)
	}
	if !n.hello(ctx, c, waitBound/2) {
		t.Error("a probe waits for reads")
	}
	if _, err := c.Write(ctx, frame); err != nil {
		t.Errorf("a write beside reads: %v", err)
	}
	close(release)
	all.Wait()
	for deadline := time.Now().Add(waitBound); ; time.Sleep(time.Millisecond) {
		_, calls := n.lanes.counts()
		if calls == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls have not given their place back", calls)
		}
	}
}
