package harness

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
)

// echo is a server that sends each line back.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// line is a client of an echo.
type line struct {
	*testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func dialLine(t *testing.T, address string) *line {
	t.Helper()
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &line{t, conn, bufio.NewReader(conn)}
}

func (l *line) send(text string) {
	l.Helper()
	if _, err := io.WriteString(l.conn, text+"\n"); err != nil {
		l.Fatal(err)
	}
}

func (l *line) expect(text string) {
	l.Helper()
	_ = l.conn.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := l.reader.ReadString('\n'); err != nil || got != text+"\n" {
		l.Fatalf("%q, %v; want %q", got, err, text)
	}
}

// expectSilence waits for a moment in which nothing may come. That nothing comes
// later is not tested; a slow machine makes the test weaker, never wrong.
func (l *line) expectSilence() {
	l.Helper()
	_ = l.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if got, err := l.reader.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		l.Fatalf("%q, %v; want silence", got, err)
	}
}

func (l *line) expectEnd() {
	l.Helper()
	_ = l.conn.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := l.reader.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		l.Fatalf("%q, %v; want the end", got, err)
	}
}

// expectRefused wants a new connection to end at once, before or after it is there.
func expectRefused(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		return
	}
	defer conn.Close()
	(&line{t, conn, bufio.NewReader(conn)}).expectEnd()
}

// waitLost waits until so many connections have lost bytes.
func waitLost(t *testing.T, network *Network, count int) {
	t.Helper()
	for t.Context().Err() == nil {
		lost := 0
		network.mu.Lock()
		for conn := range network.mu.conns {
			if conn.there.lost.Load() || conn.back.lost.Load() {
				lost++
			}
		}
		network.mu.Unlock()
		if lost == count {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("the test ends before %d connections have lost bytes", count)
}

// listenFor opens a proxy of "b" for this process, which is called "a".
func listenFor(t *testing.T, client string) (*Network, *Proxy) {
	t.Helper()
	network := NewNetwork(func() map[int]string { return map[int]string{os.Getpid(): "a"} })
	proxy, err := network.Listen(client, "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	proxy.SetTarget(echo(t))
	return network, proxy
}

func TestProxyFlows(t *testing.T) {
	for _, client := range []string{"a", ""} { // told, and found out
		network, proxy := listenFor(t, client)
		l := dialLine(t, proxy.Address())
		l.send("1")
		l.expect("1")

		network.Set("b", "a", Hold())
		l.send("2")
		l.expectSilence()
		network.Heal()
		l.expect("2")

		network.Set("a", "c", Swallow()) // somebody else
		network.Set("a", "b", Delay(20*time.Millisecond))
		begin := time.Now()
		l.send("3")
		l.expect("3")
		if took := time.Since(begin); took < 20*time.Millisecond {
			t.Fatalf("delayed by %s", took)
		}

		network.Set("a", "b", Swallow())
		l.send("4")
		waitLost(t, network, 1)
		l.expectSilence()
		other := dialLine(t, proxy.Address()) // is let in, but not heard
		other.send("5")
		waitLost(t, network, 2)
		other.expectSilence()
		network.Heal()
		l.expectEnd()
		other.expectEnd()

		again := dialLine(t, proxy.Address())
		again.send("6")
		again.expect("6")
		network.SetBoth("a", "b", Refuse())
		again.expectEnd()
		expectRefused(t, proxy.Address())
		network.Heal()
		last := dialLine(t, proxy.Address())
		last.send("7")
		if err := last.conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		last.expect("7")
		last.expectEnd()
	}
}

func TestProxyRefusesStrangersAndLostServers(t *testing.T) {
	network := NewNetwork(func() map[int]string { return nil })
	proxy, err := network.Listen("", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	proxy.SetTarget(echo(t))
	expectRefused(t, proxy.Address())

	_, known := listenFor(t, "")
	free, err := FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"", free[0]} {
		known.SetTarget(target)
		expectRefused(t, known.Address())
	}
}

// Each byte arrives once and in order, however the flow changes between passing,
// holding and delays.
func TestProxyKeepsBytes(t *testing.T) {
	network, proxy := listenFor(t, "a")
	conn := dialLine(t, proxy.Address()).conn
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var got []byte
	var group sync.WaitGroup
	group.Go(func() { got, _ = io.ReadAll(conn) })
	group.Go(func() {
		_, _ = conn.Write(text)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	for i := range 200 {
		network.SetBoth("a", "b", []Flow{Hold(), Pass(), Delay(time.Millisecond)}[i%3])
		time.Sleep(100 * time.Microsecond)
	}
	network.Heal()
	group.Wait()
	if !bytes.Equal(got, text) {
		t.Fatalf("%d bytes of %d come back, or others", len(got), len(text))
	}
}

func TestSocketInode(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0 10 0
   2: 0100007F:0050 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0
`
	a, b := netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("127.0.0.1:80")
	if inode, ok := socketInode([]byte(table), a, b); !ok || inode != "12" {
		t.Fatal(inode, ok)
	}
	if inode, ok := socketInode([]byte(table), b, a); ok {
		t.Fatalf("a closed socket has inode %s", inode)
	}
}

func TestSuspend(t *testing.T) {
	process := shell(t, "echo ready; exec sleep 1000", nil)
	waitForLog(t, process, "ready")
	if err := process.Suspend(); err != nil {
		t.Fatal(err)
	}
	if err := process.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := process.Suspend(); err != nil {
		t.Fatal(err)
	}
	process.Kill() // a suspended process ends, too
	if err := process.Suspend(); err == nil {
		t.Fatal("a process that has ended is suspended")
	}
}
