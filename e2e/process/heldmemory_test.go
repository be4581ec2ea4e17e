package process

import (
	"bytes"
	"encoding/base64"
	encoding "encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/e2e/harness"
)

// measureHeld forgets how much memory the process has had at most, and returns a function
// that returns how much more than now it has had since.
func (s *testServer) measureHeld() (more func() int64) {
	s.t.Helper()
	const forgetPeak = "5" // proc_pid_clear_refs(5)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid), []byte(forgetPeak), 0); err != nil {
		s.t.Fatal(err)
	}
	usage := func() harness.Usage {
		u, err := harness.ReadUsage(s.cmd.Process.Pid)
		if err != nil {
			s.t.Fatal(err)
		}
		return u
	}
	before := usage().RSSBytes
	return func() int64 { return usage().RSSMaxBytes - before }
}

// unfinished are the calls of one connection, each with a large message whose end is not sent.
type unfinished struct {
	framer  *http2.Framer
	changed chan struct{} // has one element when a window has grown; closed with the connection
	mu      sync.Mutex
	windows map[uint32]int64 // by stream, 0: the connection; guarded by mu
}

const (
	unfinishedBytes  = 4 << 20
	unfinishedFrame  = 16 << 10
	unfinishedWindow = 64 << 10 // of a stream, as servers allow
	// unfinishedQuiet ends a client to which the server gives no more room. One that ends
	// early sends less, which shows less and is no failure.
	unfinishedQuiet = 300 * time.Millisecond
)

// sendUnfinished opens calls on one connection and sends what the server takes. It returns
// how much that was, and holds the connection until it is called to close it.
func sendUnfinished(address, method string, calls int, headers ...hpack.HeaderField) (sent int64, closing func() error, err error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return 0, nil, err
	}
	u := &unfinished{framer: http2.NewFramer(connection, nil), changed: make(chan struct{}, 1), windows: map[uint32]int64{0: 65_535}}
	if _, err := connection.Write([]byte(http2.ClientPreface)); err != nil {
		return 0, connection.Close, err
	}
	if err := u.framer.WriteSettings(); err != nil {
		return 0, connection.Close, err
	}
	go u.listen(connection)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range calls {
		block.Reset()
		for _, header := range append([]hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method}, {Name: ":authority", Value: "localhost"},
			{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
		}, headers...) {
			_ = encoder.WriteField(header) // a buffer takes it
		}
		stream := uint32(2*i + 1)
		u.allow(stream, unfinishedWindow)
		if err := u.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
			return 0, connection.Close, err
		}
	}
	return u.send(calls), connection.Close, nil
}

func (u *unfinished) allow(stream uint32, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.windows[stream] += bytes
}

// take takes what may be sent of a stream, a frame at most.
func (u *unfinished) take(stream uint32, left int64) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := max(0, min(u.windows[0], u.windows[stream], left, unfinishedFrame))
	u.windows[0], u.windows[stream] = u.windows[0]-n, u.windows[stream]-n
	return n
}

// listen notes windows that grow, until the connection ends.
func (u *unfinished) listen(connection io.Reader) {
	defer close(u.changed)
	for reader := http2.NewFramer(io.Discard, connection); ; {
		frame, err := reader.ReadFrame()
		if err != nil {
			return
		}
		if update, ok := frame.(*http2.WindowUpdateFrame); ok {
			u.allow(update.StreamID, int64(update.Increment))
			select {
			case u.changed <- struct{}{}:
			default: // it was said already
			}
		}
	}
}

func (u *unfinished) send(calls int) (sent int64) {
	left := make([]int64, calls)
	for i := range left {
		left[i] = unfinishedBytes - 1
	}
	content, first := make([]byte, unfinishedFrame), make([]byte, unfinishedFrame)
	encoding.BigEndian.PutUint32(first[1:], unfinishedBytes)
	for {
		progress := false
		for i := range left {
			n := u.take(uint32(2*i+1), left[i])
			if n == 0 {
				continue
			}
			piece := content[:n]
			if left[i] == unfinishedBytes-1 {
				piece = first[:n]
			}
			if u.framer.WriteData(uint32(2*i+1), false, piece) != nil {
				return sent
			}
			left[i], sent, progress = left[i]-n, sent+n, true
		}
		if progress {
			continue
		}
		select {
		case _, open := <-u.changed:
			if !open {
				return sent
			}
		case <-time.After(unfinishedQuiet):
			return sent
		}
	}
}

// flood sends unfinished messages on seven connections, and reports an error if the process
// takes more memory than bytesMax for them.
func (s *testServer) flood(t *testing.T, port, method string, calls int, bytesMax int64, headers ...hpack.HeaderField) {
	t.Helper()
	more := s.measureHeld()
	var clients sync.WaitGroup
	var sent atomic.Int64
	for range 7 {
		clients.Go(func() {
			n, closing, err := sendUnfinished(s.addr[port], method, calls, headers...)
			if err != nil {
				t.Log(err)
			}
			if closing != nil {
				t.Cleanup(func() { _ = closing() })
			}
			sent.Add(n)
		})
	}
	clients.Wait()
	held := more()
	t.Logf("%d MiB sent, %d MiB more held", sent.Load()>>20, held>>20)
	if held > bytesMax {
		t.Errorf("%d MiB more for %d MiB sent; at most %d MiB are expected", held>>20, sent.Load()>>20, bytesMax>>20)
	}
}

// TestUnfinishedMessagesAreBounded sends seven hundred calls with unfinished messages of 4 MiB.
// They cost next to nothing where nobody knows who calls, and no more than the budget where
// everybody may call.
func TestUnfinishedMessagesAreBounded(t *testing.T) {
	const nobody, anybody = 96 << 20, 320 << 20
	file := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(file, []byte("users:\n  - {name: ann, tokens: ["+strings.Repeat("ab", 32)+"], rights: {'*': admin}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		flags    []string
		bytesMax int64
		methods  []string
	}{
		{"users", []string{"--auth-file=" + file, "--udp-user=ann"}, nobody, []string{"/tickmesh.v1.WriteService/Write", "/grpc.health.v1.Health/Check"}},
		{"no users", nil, anybody, []string{"/tickmesh.v1.WriteService/Write", "/tickmesh.v1.WriteService/WriteStream", "/tickmesh.v1.QueryService/Scan"}},
	} {
		s := startServer(t, t.TempDir(), append(c.flags, "--memory-limit=512MiB")...) // of which a quarter is for requests
		for _, method := range c.methods {
			t.Run(c.name+method, func(t *testing.T) { s.flood(t, "grpc", method, 100, c.bytesMax) })
		}
	}
}

// TestUnfinishedMessagesOfNodesAreBounded does the same to the port of a node inside a cluster:
// without a Hello nothing is kept, with one no more than the bound of such calls.
func TestUnfinishedMessagesOfNodesAreBounded(t *testing.T) {
	const nobody, member = 96 << 20, 192 << 20
	node := newTestCluster(t).startNode("n1", "--memory-limit=512MiB")
	hello := func(id, incarnation string) hpack.HeaderField {
		encoded, err := handshake.New("tickmesh", "", id, incarnation, 7).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return hpack.HeaderField{Name: handshake.Header, Value: base64.RawStdEncoding.EncodeToString([]byte(encoded))}
	}
	const service = "/tickmesh.node.v1.NodeService/"
	for _, method := range []string{"Write", "Exchange", "Scan", "Delete"} {
		t.Run("nobody "+method, func(t *testing.T) { node.flood(t, "rpc", service+method, 100, nobody) })
	}
	for _, method := range []string{"Write", "Scan", "Delete"} {
		t.Run("router "+method, func(t *testing.T) { node.flood(t, "rpc", service+method, 100, member, hello("", "")) })
	}
	t.Run("node Exchange", func(t *testing.T) {
		node.flood(t, "rpc", service+"Exchange", 100, member, hello("n9", strings.Repeat("9", 32)))
	})
}
