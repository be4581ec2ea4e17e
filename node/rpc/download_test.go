package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

func exportOf(length int) []byte {
	content := make([]byte, length)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	return content
}

// TestPaceIsShared has one download take what two may take together, at the sender's side
// and at the receiver's: the second one waits.
func TestPaceIsShared(t *testing.T) {
	for name, paces := range map[string][2]*Pace{"sender": {NewPace(1), nil}, "receiver": {nil, NewPace(1)}} {
		node := &fakeNode{hello: nodeHello("a"), exports: map[string][]byte{"export-6": exportOf(2 * chunkBytes)}}
		address, _ := serve(t, node, Options{SendPace: paces[0]})
		ctx, cancel := context.WithCancel(t.Context())
		request := quickRequest(6)
		request.Pace = paces[1]
		open := func() *Download {
			d, err := OpenDownload(ctx, dialConn(t, address, nodeHello("b")), request)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Close)
			return d
		}
		if _, err := io.CopyN(io.Discard, open(), chunkBytes); err != nil {
			t.Fatal(name, err)
		}
		second := open() // not before: either of two would get what there is
		time.AfterFunc(time.Millisecond, cancel)
		if n, err := second.Read(make([]byte, 1)); n > 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the second download has %d bytes, %v", name, n, err)
		}
	}
}

func quickRequest(shard uint16) DownloadRequest {
	return DownloadRequest{Shard: shard, Backoff: backoff.Exponential{Min: time.Millisecond, Max: 5 * time.Millisecond}}
}

func TestDownload(t *testing.T) {
	for _, length := range []int{0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 3*chunkBytes + 17} {
		content := exportOf(length)
		node := &fakeNode{hello: nodeHello("a"), exports: map[string][]byte{"export-6": content}}
		address, _ := serve(t, node, Options{})
		d, err := OpenDownload(t.Context(), dialConn(t, address, nodeHello("b")), quickRequest(6))
		if err != nil {
			t.Fatal(err)
		}
		if e := d.Export(); e != (Export{ID: "export-6", TotalBytes: int64(length), Index: 7, Term: 3}) {
			t.Errorf("export %+v", e)
		}
		got, err := io.ReadAll(d)
		d.Close()
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d of %d bytes, %v", len(got), length, err)
		}
		if done, total, resumed := d.Progress(); done != int64(length) || total != done || resumed != 0 {
			t.Errorf("progress %d of %d, %d", done, total, resumed)
		}
	}
}

// cutter is a listener whose connections break after some bytes from the client's
// view.
type cutter struct {
	net.Listener
	bytesMax int64
	cuts     atomic.Int64
}

func (c *cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, of: c, left: c.bytesMax}, nil
}

type cutConn struct {
	net.Conn
	of   *cutter
	left int64 // written by one goroutine of gRPC
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		c.of.cuts.Add(1)
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// TestDownloadResumes: connections break, the sender's disk fails now and then; all
// arrives once.
func TestDownloadResumes(t *testing.T) {
	content := exportOf(20*chunkBytes + 5)
	var failures atomic.Int64
	node := &fakeNode{hello: nodeHello("a"), exports: map[string][]byte{"export-6": content}}
	node.failAt = func(at int64) error {
		if at > 2_000_000 && failures.Add(1) == 1 {
			return fmt.Errorf("%w: for a moment", series.ErrUnavailable)
		}
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cut := &cutter{Listener: listener, bytesMax: 5*chunkBytes + 1000}
	serveOn(t, cut, node, Options{})
	d, err := OpenDownload(t.Context(), dialConn(t, listener.Addr().String(), nodeHello("b")), quickRequest(6))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := io.ReadAll(d)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(content), err)
	}
	if _, _, resumed := d.Progress(); cut.cuts.Load() < 4 || resumed < 5 {
		t.Fatalf("only %d cuts, %d times resumed", cut.cuts.Load(), resumed)
	}
	// A later process goes on with the export.
	request := quickRequest(6)
	request.Export, request.Offset = "export-6", int64(len(content))-100
	d, err = OpenDownload(t.Context(), dialConn(t, listener.Addr().String(), nodeHello("b")), request)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, err := io.ReadAll(d); err != nil || !bytes.Equal(got, content[len(content)-100:]) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

// liar sends chunks that are wrong.
type liar struct {
	*Server
	spoil func(*nodev1.FetchShardResponse)
}

type lyingStream struct {
	grpc.ServerStreamingServer[nodev1.FetchShardResponse]
	spoil func(*nodev1.FetchShardResponse)
}

func (s *lyingStream) Send(m *nodev1.FetchShardResponse) error {
	if m.GetExport() == nil {
		s.spoil(m)
	}
	return s.ServerStreamingServer.Send(m)
}

func (l *liar) FetchShard(m *nodev1.FetchShardRequest, stream grpc.ServerStreamingServer[nodev1.FetchShardResponse]) error {
	return l.Server.FetchShard(m, &lyingStream{stream, l.spoil})
}

// TestDownloadDamaged: a damaged chunk is fetched again; one that is damaged for
// ever ends the download after a bounded number of attempts.
func TestDownloadDamaged(t *testing.T) {
	content := exportOf(3 * chunkBytes)
	for name, spoil := range map[string]func(*nodev1.FetchShardResponse){
		"bit":      func(m *nodev1.FetchShardResponse) { m.Data[0] ^= 1 },
		"checksum": func(m *nodev1.FetchShardResponse) { m.Checksum ^= 1 },
		"offset":   func(m *nodev1.FetchShardResponse) { m.Offset++ },
		"more": func(m *nodev1.FetchShardResponse) {
			m.Data = append(m.Data, make([]byte, 2*chunkBytes)...)
			m.Checksum = checksumOf(m.Data)
		},
	} {
		for _, times := range []int64{1, 1 << 30} {
			node := &fakeNode{hello: nodeHello("a"), exports: map[string][]byte{"export-6": content}}
			var spoiled atomic.Int64
			server := NewServer(node, Options{})
			l := &liar{Server: server, spoil: func(m *nodev1.FetchShardResponse) {
				if m.GetOffset() >= chunkBytes && spoiled.Add(1) <= times {
					spoil(m)
				}
			}}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			g := grpc.NewServer(server.GRPCOptions()...)
			nodev1.RegisterNodeServiceServer(g, l)
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = g.Serve(listener)
			}()
			d, err := OpenDownload(t.Context(), dialConn(t, listener.Addr().String(), nodeHello("b")), quickRequest(6))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(d)
			d.Close()
			if times == 1 && (err != nil || !bytes.Equal(got, content)) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
			if times > 1 && (!errors.Is(err, series.ErrUnavailable) || !bytes.Equal(got, content[:chunkBytes])) {
				t.Errorf("%s, for ever: %d bytes, %v", name, len(got), err)
			}
			g.Stop()
			<-served
		}
	}
}

func TestDownloadErrors(t *testing.T) {
	node := &fakeNode{hello: nodeHello("a"), exports: map[string][]byte{"export-6": exportOf(2 * chunkBytes)}}
	address, _ := serve(t, node, Options{FetchesMax: 1})
	conn := dialConn(t, address, nodeHello("b"))
	if _, err := OpenDownload(t.Context(), conn, quickRequest(5)); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("no such export: %v", err)
	}
	gone := quickRequest(6)
	gone.Export = "export-4"
	if _, err := OpenDownload(t.Context(), conn, gone); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("an export that is gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow := quickRequest(6)
	slow.BytesPerSecond = 1
	d, err := OpenDownload(ctx, conn, slow)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := OpenDownload(t.Context(), conn, quickRequest(6)); !errors.Is(err, series.ErrOverloaded) {
		t.Errorf("a second one at once: %v", err)
	}
	if _, err := io.CopyN(io.Discard, d, chunkBytes); err != nil { // the pace allows one chunk at once
		t.Fatal(err)
	}
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := d.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestPace: an unbounded caller does not wait, a bounded one gets what it asked for.
func TestPace(t *testing.T) {
	if err := NewPace(0).wait(t.Context(), 1<<40); err != nil {
		t.Error("no bound is a bound:", err)
	}
	p := NewPace(chunkBytes / 4).limiter
	start := time.Unix(1, 0)
	if !p.AllowN(start, chunkBytes) || p.AllowN(start.Add(3900*time.Millisecond), chunkBytes) || !p.AllowN(start.Add(4*time.Second), chunkBytes) {
		t.Error("the pace is another")
	}
}
